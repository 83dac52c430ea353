"""Unix sockets in a folder, accessed through /proc: the kernel's limit for their paths is 107 bytes
(unix(7)), which a folder may exceed."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_path(folder: Path, name: str) -> Iterator[str]:
    """Yield a path of the socket `name` in `folder` for `bind` and `connect` within the block. Raises OSError
    if there is no such folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str, backlog: int) -> socket.socket:
    """Return a listener on that socket, only for its user, replacing any earlier one. Raises OSError."""
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
    """Return whether the other end of a Unix socket belongs to the same user."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", found)[1]
    return uid == os.geteuid()
