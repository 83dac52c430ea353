"""Programmes of servers: where they are, and what is said of those that are missing."""

from __future__ import annotations

import shutil

from svload.lab.server import SEARCH_PATH
from svload.model.errors import Problem


def program(name: str) -> str | None:
    """The full path of a server's programme (also in the sbin folders), or None."""
    return shutil.which(name, path=SEARCH_PATH)


def path_of(name: str) -> str:
    """Its full path, or the name itself where it is not found: starting it then tells so."""
    return program(name) or name


def lacking(kit: str, needed: dict[str, str]) -> list[Problem]:
    """tool-missing for what is not here of `needed` (programme → apt package); empty if all is."""
    names = [name for name in needed if program(name) is None]
    return [missing(kit, ", ".join(names), sorted({needed[name] for name in names}))] if names else []


def missing(kit: str, what: str, packages: list[str]) -> Problem:
    """tool-missing that names the apt packages."""
    hint = f"As root: apt-get install {' '.join(packages)}; or let “svload lab install” do it."
    return Problem("tool-missing", {"kit": kit, "what": what, "hint": hint, "apt": packages})
