"""The queueing disciplines of this network namespace by rtnetlink, as `tc -s qdisc` reads them (Linux,
linux/rtnetlink.h): without a line of text.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_GET_QDISC, _NEW_QDISC = 38, 36
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_TC_BYTES = 20  # struct tcmsg: family, padding, ifindex, handle, parent, info
_KIND, _OPTIONS, _STATS = 1, 2, 3
_TBF_PARAMETERS, _TBF_RATE_64 = 1, 4
_TBF_RATE_AT = 8  # struct tc_tbf_qopt begins with a tc_ratespec, which ends with the rate
_STATISTICS = struct.Struct(
    "=QIIIIIII"
)  # struct tc_stats: bytes, packets, drops, overlimits, bps, pps, qlen, backlog


class Qdisc(NamedTuple):
    """One queueing discipline: its interface and kind, what it holds now, and its counters since it was made;
    of a tbf the rate that it is held to, else 0."""

    interface: str
    kind: str
    parent: int
    queued: int
    backlog_bytes: int
    sent_bytes: int
    drops: int
    overlimits: int
    rate_bytes_per_s: int = 0


def qdiscs() -> list[Qdisc]:
    """All of this namespace that queue at all; empty where the kernel can't be asked."""
    try:
        with kernel_socket() as kernel:
            return list(_named(qdiscs_told(kernel)))
    except OSError:
        return []


def kernel_socket() -> socket.socket:
    """A way to ask the kernel of this network, wherever this thread goes later. Raises OSError."""
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    kernel.settimeout(0.5)
    return kernel


def qdiscs_told(kernel: socket.socket) -> list[Qdisc]:
    """All of the network of that socket; interfaces by their number, since names are those of
    another network. Raises OSError."""
    request = struct.pack("=IHHIIB3xiIII", 16 + _TC_BYTES, _GET_QDISC, _REQUEST | _DUMP, 1, 0, 0, 0, 0, 0, 0)
    kernel.send(request)
    return [found for payload in _answers(kernel) if (found := _parsed(payload)) is not None]


def _named(found: list[Qdisc]) -> Iterator[Qdisc]:
    for one in found:
        with contextlib.suppress(OSError):  # it went meanwhile
            yield one._replace(interface=socket.if_indextoname(int(one.interface)))


def _answers(kernel: socket.socket) -> Iterator[bytes]:
    while True:
        data, at = kernel.recv(1 << 17), 0
        while len(data) - at >= 16:
            length, kind = struct.unpack_from("=IH", data, at)
            if kind in (_DONE, _ERROR) or length < 16:
                return
            if kind == _NEW_QDISC:
                yield data[at + 16 : at + length]
            at += (length + 3) & ~3


def _parsed(payload: bytes) -> Qdisc | None:
    """One that queues: `noqueue` holds and counts nothing."""
    index, _, parent = struct.unpack_from("=iII", payload, 4)
    attributes = dict(_attributes(payload[_TC_BYTES:]))
    kind = attributes.get(_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    stats = attributes.get(_STATS, b"")
    if kind in ("", "noqueue") or len(stats) < _STATISTICS.size:
        return None
    sent, _, drops, overlimits, _, _, queued, backlog = _STATISTICS.unpack_from(stats)
    rate = _tbf_rate(attributes.get(_OPTIONS, b"")) if kind == "tbf" else 0
    return Qdisc(str(index), kind, parent, queued, backlog, sent, drops, overlimits, rate)


def _tbf_rate(options: bytes) -> int:
    """Rates from 4 GiB a second on stand apart."""
    told = dict(_attributes(options))
    if _TBF_RATE_64 in told:
        return int(struct.unpack_from("=Q", told[_TBF_RATE_64])[0])
    return int(struct.unpack_from("=I", told.get(_TBF_PARAMETERS, bytes(12)), _TBF_RATE_AT)[0])


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while len(data) - at >= 4:
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3
