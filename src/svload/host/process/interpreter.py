"""Start Python children that import svload and the installed packages, and nothing from the user's folder.

Python puts the current folder first on its import path (`python -m`), so a file `csv.py` there, of whoever may write
to that folder, would run as the user of svload. `-P` leaves it out. A lint holds every child to this one place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

EXECUTABLE = sys.executable
"""The interpreter that runs svload."""
BASE = str(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter that svload's environment was made with, outside any environment."""


def python(*words: str, executable: str = EXECUTABLE) -> tuple[str, ...]:
    """The command for a Python child: `python("-m", "svload.truth")`."""
    return (executable, "-P", *words)


def child_environment() -> Mapping[str, str]:
    """The user's variables for a Python child; of PYTHONPATH only absolute folders, since an empty or relative one
    is the current folder again."""
    kept = dict(os.environ)
    path = kept.pop("PYTHONPATH", "")
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    return {**kept, "PYTHONPATH": os.pathsep.join(folders)} if folders else kept
