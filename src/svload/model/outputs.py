"""Write files under a temporary name beside their place, then rename them. A reader sees either the old file
or the whole new one; a link in their place is replaced, not followed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def output(path: Path, mode: int | None = None, *, synced: bool = False) -> Iterator[Path]:
    """Yield an empty file with an unpredictable name beside `path`, with its ending; after the block it is `path`.

    It gets `mode`, or 0666 less the umask. With `synced` it is on disk at the end. If the block raises, the file
    is removed and the old one stays. Raises OSError, which names `path`.
    """
    # With the pid, which identifies leftovers, and the ending, which some writers depend on.
    fresh = path.with_name(f".{path.name}.{os.getpid()}.x{secrets.token_hex(4)}{path.suffix}")
    try:
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as why:
        raise OSError(why.errno, why.strerror, str(path)) from why
    try:
        yield fresh
        fresh.chmod(_usual_mode() if mode is None else mode)
        if synced:
            sync(fresh)
        os.replace(fresh, path)
        if synced:
            sync(path.parent)
    except OSError as why:
        if why.filename in (None, str(fresh), fresh):
            raise OSError(why.errno, why.strerror or str(why), str(path)) from why
        raise
    finally:
        fresh.unlink(missing_ok=True)


def write_output(path: Path, data: str | bytes, mode: int | None = None, *, synced: bool = False) -> None:
    """Write a file in this way; creates parent folders. What UTF-8 cannot encode gets a backslash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with output(path, mode, synced=synced) as fresh:
        fresh.write_bytes(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)


def _usual_mode() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask


def sync(path: Path) -> None:
    """Write a file, or a folder's entries, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
