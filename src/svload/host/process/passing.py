"""Folders that one process has while it lives: gone when it leaves them, and with the next one
that is made where it was killed."""

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
"""A folder bears this before its name until it has its lock; so young, it is not swept."""


@contextmanager
def passing_folder(purpose: str, state: Path | None = None) -> Iterator[Path]:
    """A folder of this process alone, in the user's state; its name begins with `purpose`. Raises
    OSError where it can't be made."""
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
    """Remove every folder whose process is gone: its lock went with it."""
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
