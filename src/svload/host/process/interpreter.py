"""Commands for Python children that import svload and the installed packages, but nothing from the current
folder.

Python puts the current folder first on its import path (`python -m`), so a file `csv.py` there, by anybody
who may write to that folder, would run as the user of svload. `-P` prevents this. A lint makes every child
use this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

EXECUTABLE = sys.executable
"""The interpreter that runs svload."""
BASE = str(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter from which svload's environment was created, outside any environment."""


def python(*words: str, executable: str = EXECUTABLE) -> tuple[str, ...]:
    """Return the command for a Python child: `python("-m", "svload.truth")`."""
    return (executable, "-P", *words)


def child_environment() -> Mapping[str, str]:
    """Return the user's variables for a Python child, with only the absolute folders of PYTHONPATH, since an
    empty or relative one would be the current folder."""
    kept = dict(os.environ)
    path = kept.pop("PYTHONPATH", "")
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    return {**kept, "PYTHONPATH": os.pathsep.join(folders)} if folders else kept
