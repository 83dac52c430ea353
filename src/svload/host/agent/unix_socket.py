"""A folder's Unix sockets, reached through /proc: the kernel takes no path beyond 107 bytes
(unix(7)), and a folder may be deeper."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_path(folder: Path, name: str) -> Iterator[str]:
    """The path of the socket `name` in `folder`, for `bind` and `connect` meanwhile. Raises OSError
    where there is no such folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str, backlog: int) -> socket.socket:
    """A listener on that socket, in place of any before it, for its user only. Raises OSError."""
    (folder / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(folder, name) as path:
            listener.bind(path)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(backlog)
    return listener


def is_own(line: socket.socket) -> bool:
    """Whether who is at the other end of a Unix socket is the same user."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", found)[1]
    return uid == os.geteuid()
