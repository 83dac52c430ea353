"""Which addresses may be loaded: loopback, the study's own lab, and hosts that the user has authorised."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from svload.host.machine.loopback import LOOPBACK_NAMES, accepts, address_of
from svload.model.errors import fail
from svload.model.typed_url import sent_as
from svload.model.unix_url import PREFIX, is_host, split_unix_url

if TYPE_CHECKING:
    from svload.model.facts import Endpoint

LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Target:
    """The parts of a URL. `host` is as written, without brackets; for a Unix socket `socket` is the file, and
    `host` only a name.

    `connect_to` is the (host, port) that connections really go to; None: the URL's own.
    """

    scheme: str
    host: str
    port: int
    path: str
    connect_to: tuple[str, int] | None = None
    socket: str = ""

    @property
    def endpoint(self) -> str:
        """Return `scheme://host[:port]`, the key in a share's endpoint table; without a default port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Return `host[:port]`, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host + ("" if self.port == _PORTS.get(self.scheme) else f":{self.port}")


_PORTS = {"http": 80, "https": 443}
_TRIED_S = 3.0
"""How long the addresses of a name are tried; one that drops packets takes a second of it."""
RAW = ("tcp", "tls")
"""Schemes of raw dialogues; they have no default port."""


def parse_url(url: str, raw: bool = False) -> Target:
    """Return the target of `url`; `raw`: tcp:// and tls:// are allowed too. Raises SvloadError url-bad."""
    text = url if "://" in url else f"http://{url}"
    if local := split_unix_url(text):
        return Target(
            local.scheme, "localhost", _PORTS[local.scheme], sent_as(local.path), socket=local.socket
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as why:
        raise fail("url-bad", url=url, reason=str(why)) from why
    if raw and parts.scheme in RAW and not port:
        raise fail("url-bad", url=url, reason=f"{parts.scheme}:// has no port of its own")
    if parts.scheme not in _PORTS and not (raw and parts.scheme in RAW):
        raise fail("url-bad", url=url, reason=f"its scheme is “{parts.scheme}”, not http or https")
    if not parts.hostname:
        raise fail("url-bad", url=url, reason="it names no host")
    if not is_host(parts.hostname):
        raise fail(
            "url-bad", url=url, reason="its host is not a valid host name: use letters, digits, - and ."
        )
    if parts.username or parts.password:
        raise fail("url-bad", url=url, reason="it contains a user name or password, which would be recorded")
    if port == 0:
        raise fail("url-bad", url=url, reason="port 0 cannot be connected to")
    path = sent_as((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    return Target(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def parse_connect_to(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, `[::1]:8443`. Raises SvloadError url-bad."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as why:
        raise fail("url-bad", url=text, reason=str(why)) from why
    if not host or not port or parts.netloc != text or "@" in text or not is_host(host):
        raise fail("url-bad", url=text, reason="expected a host and a port, such as 127.0.0.1:8443")
    return host, port


def find_target(
    target: Target, authorised: Sequence[str] = (), looked_up: dict[str, list[str]] | None = None
) -> tuple[str, int]:
    """Return address and port of `target` (for a Unix socket `unix:` with its path, and 0), looked up only if
    its host may be loaded and is not in `looked_up`, which gains its addresses. Of several it is the first
    that accepts a connection, as for curl, or the first of all if none does within a few seconds.

    Raises SvloadError unauthorised-target (before any look-up) or url-bad (unknown name).
    """
    if target.socket:
        return _local_socket(target, authorised)
    host, port = target.connect_to or (target.host, target.port)
    if not is_authorised(host, authorised):
        where = target.endpoint if target.connect_to is None else f"{host}:{port}"
        raise fail("unauthorised-target", target=where, host=host)
    if host in LOOPBACK_NAMES:
        return address_of(host, port), port
    known = {} if looked_up is None else looked_up
    if host not in known:
        known[host] = _addresses_of(target)
    return _first_that_accepts(known[host], port), port


def _first_that_accepts(addresses: Sequence[str], port: int) -> str:
    ends = time.monotonic() + _TRIED_S
    for address in addresses if len(addresses) > 1 else ():
        if time.monotonic() < ends and accepts(address, port):
            return address
    return addresses[0]


def _addresses_of(target: Target) -> list[str]:
    """Return all addresses of a target's host; IPv4 first, so that a run keeps to one family (docs/method.md
    §3, localhost in two families). Raises SvloadError url-bad (unknown name)."""
    host, port = target.connect_to or (target.host, target.port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as why:
        raise fail(
            "url-bad",
            url=target.endpoint,
            reason=f"its host is not known ({getattr(why, 'strerror', None) or why})",
        ) from why
    ordered = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(address[0]) for *_, address in ordered))


def resolve_target(
    target: Target, authorised: Sequence[str] = (), looked_up: dict[str, list[str]] | None = None
) -> Endpoint:
    """Return `find_target` as an endpoint of the lab."""
    from svload.model.facts import Endpoint

    address, port = find_target(target, authorised, looked_up)
    scheme: str = target.scheme
    return Endpoint(
        scheme=scheme,  # type: ignore[arg-type]
        address=address,
        port=port,
        via="external",
        authority=target.authority,
    )


def _local_socket(target: Target, authorised: Sequence[str]) -> tuple[str, int]:
    address = PREFIX + target.socket
    if address not in authorised:
        raise fail("unauthorised-target", target=address, host=address)
    if not Path(target.socket).is_socket():
        raise fail("url-bad", url=address, reason="there is no such socket")
    return address, 0


@cache
def system_authorities() -> str:
    """Return this system's authorities as PEM, as curl trusts them. Raises SvloadError without any."""
    import ssl

    known = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not known:
        raise fail(
            "lab-failed",
            reason="this system has no certificate authorities to verify HTTPS with",
            hint="Install ca-certificates, or name the server's own authority (--cacert, ca_file).",
        )
    return "".join(ssl.DER_cert_to_PEM_cert(one) for one in known)


def is_authorised(host: str, authorised: Iterable[str] = ()) -> bool:
    """Return whether it is loopback (literal address or standard name), or a host the user named exactly."""
    if host in LOOPBACK_NAMES or host in tuple(authorised):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback and "%" not in host  # a zone after it may contain anything


def allowed_blocks(endpoints: Iterable[Endpoint]) -> list[str]:
    """Return what `connect()` may reach: loopback and these addresses as CIDR blocks; sockets by path."""
    blocks = list(LOOPBACK)
    for endpoint in endpoints:
        if endpoint.address.startswith(PREFIX):
            blocks.append(endpoint.address)
            continue
        address = ipaddress.ip_address(endpoint.address)
        if not address.is_loopback:
            blocks.append(f"{address}/{address.max_prefixlen}")
    return list(dict.fromkeys(blocks))
