"""URLs of Unix sockets, as nginx writes them: `http://unix:/run/app.sock:/path`."""

from __future__ import annotations

import re
from typing import NamedTuple

PREFIX = "unix:"
"""The prefix of a socket's path wherever an address is accepted."""
_URL = re.compile(r"(https?)://unix:(/[^:?#\s]+)(?::(/[^#]*)?)?")


class UnixUrl(NamedTuple):
    """The parts of such a URL: `socket` is the file's absolute path, `path` the request's."""

    scheme: str
    socket: str
    path: str

    @property
    def server(self) -> str:
        """Return the URL without the request's path."""
        return f"{self.scheme}://{PREFIX}{self.socket}"


def split_unix_url(url: str) -> UnixUrl | None:
    """Return the parts of a Unix socket's URL; None for any other."""
    match = _URL.fullmatch(url)
    return UnixUrl(match[1], match[2], match[3] or "/") if match else None


def is_host(text: str) -> bool:
    """Return whether a URL's host is a name or an address in the engine's notation: plain ASCII."""
    return re.fullmatch(r"[A-Za-z0-9._~:%-]{1,253}", text) is not None
