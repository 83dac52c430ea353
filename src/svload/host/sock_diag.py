"""The kernel's table of TCP sockets by sock_diag, as `ss` reads it (Linux, linux/inet_diag.h): by state, without a line of text."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_SOCK_DIAG_BY_FAMILY = 20
_DUMP = 0x300  # NLM_F_ROOT | NLM_F_MATCH
_REQUEST = 0x1
_NLMSG_DONE, _NLMSG_ERROR = 3, 2
_NETLINK_SOCK_DIAG = 4
TCP_ESTABLISHED, TCP_TIME_WAIT, TCP_LISTEN = 1, 6, 10
# struct inet_diag_msg: family, state, timer, retrans, sockid {sport, dport, src[4], dst[4], if, cookie[2]}, expires, rqueue, wqueue, uid, inode
_ENTRY_BYTES = 72


class Socket(NamedTuple):
    """One socket: local address and port, the write queue's figure (a listener's limit), its inode (0 where it has none)."""

    family: int
    address: str
    port: int
    write_queue: int
    inode: int


def tcp_sockets(family: int, state: int) -> Iterator[Socket]:
    """All TCP sockets of this network namespace in `state`; what can't be asked gives none."""
    for entry in _entries(family, state):
        length = 4 if entry[0] == socket.AF_INET else 16
        address = socket.inet_ntop(entry[0], entry[8 : 8 + length])
        [port] = struct.unpack_from("!H", entry, 4)
        [write_queue] = struct.unpack_from("=I", entry, 60)
        [inode] = struct.unpack_from("=I", entry, 68)
        yield Socket(entry[0], address, port, write_queue, inode)


def count_time_wait(among: range) -> int:
    """Sockets in TIME_WAIT whose local port is `among` these: those that keep a port from a new connection of ours."""
    ports = struct.Struct("!H").unpack_from
    return sum(
        ports(entry, 4)[0] in among
        for family in (socket.AF_INET, socket.AF_INET6)
        for entry in _entries(family, TCP_TIME_WAIT)
    )


def _entries(family: int, state: int) -> Iterator[bytes]:
    # struct inet_diag_req_v2: family, protocol, ext, pad, states, then struct inet_diag_sockid (48 bytes, all zero: any)
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << state) + bytes(48)
    message = struct.pack("=IHHII", 16 + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, 1, 0) + query
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(1.0)
            netlink.send(message)
            while True:
                data = netlink.recv(1 << 17)
                at = 0
                while len(data) - at >= 16:
                    length, kind = struct.unpack_from("=IH", data, at)
                    if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < 16:
                        return
                    if length >= 16 + _ENTRY_BYTES:
                        yield data[at + 16 : at + length]
                    at += (length + 3) & ~3
    except OSError:
        return
