"""The queueing disciplines of this network namespace by rtnetlink, as `tc -s qdisc` reads them (Linux,
linux/rtnetlink.h), without parsing text.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from svload.host.machine import netlink

_GET_QDISC, _NEW_QDISC = 38, 36
_BOUND_S = 0.5
_TC_BYTES = 20  # struct tcmsg: family, padding, ifindex, handle, parent, info
_KIND, _OPTIONS, _STATS = 1, 2, 3
_TBF_PARAMETERS, _TBF_RATE_64 = 1, 4
_TBF_RATE_AT = 8  # struct tc_tbf_qopt begins with a tc_ratespec, which ends with the rate
_STATISTICS = struct.Struct(
    "=QIIIIIII"
)  # struct tc_stats: bytes, packets, drops, overlimits, bps, pps, qlen, backlog


class Qdisc(NamedTuple):
    """One queueing discipline: its interface and kind, its current backlog, and its counters since its
    creation; the rate of a tbf, else 0."""

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
    """Return all of this namespace that queue packets; empty if the kernel can't be asked."""
    try:
        with route_socket() as kernel:
            return list(_named(list_qdiscs(kernel)))
    except OSError:
        return []


def route_socket() -> socket.socket:
    """Open a socket to the kernel for this network, even if this thread moves later. Raises OSError."""
    return netlink.kernel_socket(netlink.ROUTE, _BOUND_S)


def list_qdiscs(kernel: socket.socket) -> list[Qdisc]:
    """Return all in that socket's network, with interface numbers, for lack of names. Raises OSError."""
    answers = netlink.answers(kernel, _GET_QDISC, netlink.REQUEST | netlink.DUMP, bytes(_TC_BYTES))
    found = [_parsed(payload) for kind, payload in answers if kind == _NEW_QDISC]
    return [one for one in found if one is not None]


def _named(found: list[Qdisc]) -> Iterator[Qdisc]:
    for one in found:
        with contextlib.suppress(OSError):  # it disappeared meanwhile
            yield one._replace(interface=socket.if_indextoname(int(one.interface)))


def _parsed(payload: bytes) -> Qdisc | None:
    """Parse one that queues packets; return None for `noqueue`, which counts nothing."""
    index, _, parent = struct.unpack_from("=iII", payload, 4)
    kind = netlink.attribute(payload, _TC_BYTES, _KIND).rstrip(b"\0").decode("ascii", "replace")
    stats = netlink.attribute(payload, _TC_BYTES, _STATS)
    if kind in ("", "noqueue") or len(stats) < _STATISTICS.size:
        return None
    sent, _, drops, overlimits, _, _, queued, backlog = _STATISTICS.unpack_from(stats)
    rate = _tbf_rate(netlink.attribute(payload, _TC_BYTES, _OPTIONS)) if kind == "tbf" else 0
    return Qdisc(str(index), kind, parent, queued, backlog, sent, drops, overlimits, rate)


def _tbf_rate(options: bytes) -> int:
    """Return the rate of a tbf; rates from 4 GiB per second are in a separate attribute."""
    if rate := netlink.attribute(options, 0, _TBF_RATE_64):
        return int(struct.unpack_from("=Q", rate)[0])
    parameters = netlink.attribute(options, 0, _TBF_PARAMETERS) or bytes(12)
    return int(struct.unpack_from("=I", parameters, _TBF_RATE_AT)[0])
