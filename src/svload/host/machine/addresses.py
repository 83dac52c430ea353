"""This machine's addresses, as others see them."""

from __future__ import annotations

import socket

from svload.model.errors import fail

_ANY_PORT = 9


def own_address_towards(other: str) -> str:
    """Return this machine's address towards `other`; sends nothing. Raises SvloadError fleet-unreachable."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(other, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as why:
        hint = "Name the machine's address as svload_address in the inventory."
        raise fail("fleet-unreachable", host=other, reason=why.strerror or str(why), hint=hint) from why
