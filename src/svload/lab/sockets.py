"""What the kernel holds for a listening socket: read by sock_diag, as `ss` does (Linux, linux/inet_diag.h)."""

from __future__ import annotations

import socket
import struct

_SOCK_DIAG_BY_FAMILY = 20
_DUMP = 0x300  # NLM_F_ROOT | NLM_F_MATCH
_REQUEST = 0x1
_NLMSG_DONE, _NLMSG_ERROR = 3, 2
_TCP_LISTEN = 10


def backlog_of(address: str, port: int) -> int | None:
    """The smallest accept-queue limit of the TCP listeners on `port` (the kernel's sk_max_ack_backlog); None if there is none.

    A listener on every address counts too. The value is min(what the server asked at listen(), net.core.somaxconn).
    """
    found = [limit for where, limit in _listeners(socket.AF_INET, port) if where in (address, "0.0.0.0")]
    found += [limit for where, limit in _listeners(socket.AF_INET6, port) if where in (address, "::")]
    return min(found, default=None)


def _listeners(family: int, port: int) -> list[tuple[str, int]]:
    # struct inet_diag_req_v2: family, protocol, ext, pad, states, then struct inet_diag_sockid (48 bytes, all zero: any)
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << _TCP_LISTEN) + bytes(48)
    message = struct.pack("=IHHII", 16 + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, 1, 0) + query
    found: list[tuple[str, int]] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:  # NETLINK_SOCK_DIAG
            netlink.settimeout(1.0)
            netlink.send(message)
            while True:
                data = netlink.recv(1 << 17)
                while len(data) >= 16:
                    length, kind = struct.unpack_from("=IH", data)
                    if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < 16:
                        return found
                    found += _listener(data[16:length], port)
                    data = data[(length + 3) & ~3 :]
    except OSError:
        return found


def _listener(entry: bytes, port: int) -> list[tuple[str, int]]:
    # struct inet_diag_msg: family, state, timer, retrans, sockid {sport, dport, src[4], dst[4], if, cookie[2]}, expires, rqueue, wqueue
    if len(entry) < 64 or struct.unpack_from("!H", entry, 4)[0] != port:
        return []
    family = entry[0]
    address = socket.inet_ntop(family, entry[8 : 8 + (4 if family == socket.AF_INET else 16)])
    [limit] = struct.unpack_from("=I", entry, 4 + 48 + 8)
    return [(address, limit)]
