"""How much of a folder's files is in the page cache, by mincore(2); the rest must be read from a disk."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Resident(NamedTuple):
    """The bytes of all files below a folder, and how many of them are in the page cache."""

    size_bytes: int
    resident_bytes: int


def in_page_cache(folder: Path) -> Resident | None:
    """Return the sum over every regular file below `folder`; None without files or if the kernel does not
    report it. Reads no file. Takes some 10 µs per file."""
    size, resident = 0, 0
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                whole = path.stat().st_size
                size += whole
                resident += _resident_bytes(path, whole)
    except OSError:
        return None
    return Resident(size, resident) if size else None


def drop_from_page_cache(folder: Path) -> tuple[Resident, Resident] | None:
    """Write every regular file below `folder` to disk and drop it from the page cache (fadvise); return what
    was in the cache before and after.

    None without files or if the kernel does not report it. Needs no privilege. What other processes have
    mapped remains.
    """
    before = in_page_cache(folder)
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                file = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(file)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)
    except OSError:
        return None
    after = in_page_cache(folder)
    return (before, after) if before and after else None


def _resident_bytes(path: Path, size: int) -> int:
    """Raises OSError."""
    if not size:
        return 0
    libc = _libc()
    file = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    finally:
        os.close(file)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap", str(path))
    try:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        if libc.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), "mincore", str(path))
    finally:
        libc.munmap(address, size)
    inside = sum(page & 1 for page in pages)
    return min(inside * mmap.PAGESIZE, size)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
