"""A process's temporary folders, removed when it leaves them or, after a kill, when the next is created."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from svload.model.environment import state_dir
from svload.model.private import private_folder

_NASCENT, _NASCENT_S = ".", 60.0
"""The prefix of a folder's name until it is locked; such young folders are not removed."""


@contextmanager
def passing_folder(purpose: str, state: Path | None = None) -> Iterator[Path]:
    """Create a folder for this process in the user's state, named by `purpose`. Raises OSError."""
    home = (state or state_dir()) / "passing"
    private_folder(home)
    _sweep(home)
    nascent = Path(tempfile.mkdtemp(prefix=f"{_NASCENT}{purpose}-", dir=home))
    life = _opened(nascent)
    try:
        fcntl.flock(life, fcntl.LOCK_EX)
        folder = nascent.rename(home / nascent.name.removeprefix(_NASCENT))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(life)


def _sweep(home: Path) -> None:
    """Remove the folders of dead processes, which are no longer locked."""
    for folder in home.iterdir():
        try:
            life = _opened(folder)
        except OSError:
            continue
        try:
            fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not folder.name.startswith(_NASCENT) or time.time() - os.fstat(life).st_mtime > _NASCENT_S:
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(life)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
