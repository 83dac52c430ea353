"""What svload takes from where it runs: environment variables, the folders they name, and free memory. The
reference lists the variables; a test checks that there are no others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLES: Mapping[str, str] = {
    "SVLOAD_STATE": "folder of labs that are up, their undo journals, the studies you trust and what a load "
    "needs while it lasts; default `$XDG_STATE_HOME/svload`, else "
    "`~/.local/state/svload`",
    "SVLOAD_CACHE": "folder of installed kits, filled data and unpacked packs; default "
    "`$XDG_CACHE_HOME/svload`, else `~/.cache/svload`",
    "SVLOAD_LOCK": "file of the machine-wide lock; another one lets two loads run at once, which spoils both "
    "measurements",
    "SVLOAD_DEBUG": "if set, a defect of svload also prints its traceback, which is otherwise only in the log file",
    "NO_COLOR": "if set, no colour",
    "COLUMNS": "width of tables where stdout is no terminal; default 100",
}
"""Name → what it does."""
OWN = ("SVLOAD_LAB", "SVLOAD_CHILD")
"""Variables that svload sets in processes it starts: the lab and the process."""


def state_dir() -> Path:
    """Return where labs and trusted studies are ($SVLOAD_STATE), not created. Raises SvloadError
    not-yours."""
    return refuse_strange(_folder("SVLOAD_STATE", "XDG_STATE_HOME", ".local/state"))


def cache_dir() -> Path:
    """Return where installed kits, filled data and unpacked packs are kept ($SVLOAD_CACHE). Not created.
    Raises SvloadError not-yours."""
    return refuse_strange(_folder("SVLOAD_CACHE", "XDG_CACHE_HOME", ".cache"))


def free_memory_bytes() -> int:
    """Return the memory that programs can still use without swapping; 0 if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)


def refuse_strange(folder: Path) -> Path:
    """Return `folder` if it is absent or this user's own, links included: another user's could decide what
    is undone, trusted and run here.

    Raises SvloadError not-yours.
    """
    for found in (os.lstat, os.stat):
        try:
            owner = found(folder).st_uid
        except OSError:
            break
        if owner != os.geteuid():
            from svload.model.errors import fail

            raise fail("not-yours", path=folder, owner=owner)
    return folder


def _folder(own: str, shared: str, default: str) -> Path:
    if os.environ.get(own):
        return Path(os.environ[own]).absolute()
    base = os.environ.get(shared)
    return (Path(base) if base and os.path.isabs(base) else Path.home() / default) / "svload"
