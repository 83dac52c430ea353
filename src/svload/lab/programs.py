"""Servers' programs: their paths, and the problems reported for missing ones."""

from __future__ import annotations

import shutil

from svload.lab.server import SEARCH_PATH
from svload.model.errors import Problem


def program(name: str) -> str | None:
    """Return the full path of a server's program (also in the sbin folders), or None."""
    return shutil.which(name, path=SEARCH_PATH)


def path_of(name: str) -> str:
    """Return its full path, or the name itself if it is not found: starting it then fails with a message."""
    return program(name) or name


def lacking(kit: str, needed: dict[str, str]) -> list[Problem]:
    """Return tool-missing for the missing ones of `needed` (program → apt package); empty if there are
    none."""
    names = [name for name in needed if program(name) is None]
    return [missing(kit, ", ".join(names), sorted({needed[name] for name in names}))] if names else []


def missing(kit: str, what: str, packages: list[str]) -> Problem:
    """Return tool-missing with the apt packages."""
    hint = f"As root: apt-get install {' '.join(packages)}; or let “svload lab install” do it."
    return Problem("tool-missing", {"kit": kit, "what": what, "hint": hint, "apt": packages})
