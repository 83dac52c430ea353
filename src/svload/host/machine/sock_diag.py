"""The kernel's table of TCP sockets by sock_diag, as `ss` uses it to list and end sockets (Linux,
linux/inet_diag.h), without parsing text."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection, Container, Iterable, Iterator
from ipaddress import ip_address
from typing import NamedTuple

from svload.host.machine import netlink

_BOUND_S = 1.0
_SOCK_DIAG_BY_FAMILY = 20
_SOCK_DESTROY = 21
TCP_ESTABLISHED, TCP_TIME_WAIT, TCP_LISTEN = 1, 6, 10
# struct inet_diag_msg: family, state, timer, retrans, sockid {sport, dport, src[4], dst[4], if, cookie[2]},
# expires, rqueue, wqueue, uid, inode
_ENTRY_BYTES = 72


_SKMEMINFO, _DROPS = 7, 8  # INET_DIAG_SKMEMINFO; SK_MEMINFO_DROPS in it
_CGROUP_ID = 21  # INET_DIAG_CGROUP_ID, always sent since Linux 5.9
# struct unix_diag_msg: family, type, state, pad, inode, cookie[2]; then attributes
_UNIX_ENTRY_BYTES = 16
_UNIX_NAME, _UNIX_PEER = 0, 2  # UNIX_DIAG_NAME, UNIX_DIAG_PEER
_UNIX_SHOW = 0x1 | 0x4  # UDIAG_SHOW_NAME, UDIAG_SHOW_PEER


class Socket(NamedTuple):
    """One socket: local address and port, the value of the write queue (a listener's limit), its inode (0 if
    it has none).

    A listener's read queue is the number of connections that wait to be accepted; `drops` is what it dropped,
    None if the kernel does not report it. `uid` is its user's, `group` the id of the control group (version
    2) in which it was created, 0 if the kernel does not report it.
    """

    family: int
    address: str
    port: int
    write_queue: int
    inode: int
    read_queue: int = 0
    drops: int | None = None
    uid: int = 0
    group: int = 0

    def serves(self, address: str) -> bool:
        """Return whether a listener takes connections to this address."""
        return self.address.removeprefix("::ffff:") in ("0.0.0.0", "::", address)


def tcp_sockets(family: int, state: int) -> Iterator[Socket]:
    """Yield all TCP sockets of this network namespace in `state`; none if the kernel can't be asked."""
    for entry in _entries(family, state, 1 << (_SKMEMINFO - 1)):
        yield _socket(entry)


def listening_sockets() -> list[Socket]:
    """Return all TCP sockets of this network namespace that listen."""
    families = (socket.AF_INET, socket.AF_INET6)
    return [one for family in families for one in tcp_sockets(family, TCP_LISTEN)]


def open_connections() -> list[bytes]:
    """Return this network's ends of open connections as kernel entries, for `ends_on` and `buffers`."""
    families = (socket.AF_INET, socket.AF_INET6)
    return [one for family in families for one in _entries(family, TCP_ESTABLISHED, 1 << (_SKMEMINFO - 1))]


def ends_on(ports: Collection[int], answers: Iterable[bytes]) -> list[Socket]:
    """Return the ends of open connections with these local ports."""
    return [_socket(entry) for entry in answers if _port(entry) in ports]


def _socket(entry: bytes) -> Socket:
    length = 4 if entry[0] == socket.AF_INET else 16
    address = socket.inet_ntop(entry[0], entry[8 : 8 + length])
    read_queue, write_queue = struct.unpack_from("=II", entry, 56)
    uid, inode = struct.unpack_from("=II", entry, 64)
    group = netlink.attribute(entry, _ENTRY_BYTES, _CGROUP_ID)
    return Socket(
        entry[0],
        address,
        _port(entry),
        write_queue,
        inode,
        read_queue,
        _drops(entry),
        uid,
        struct.unpack("=Q", group)[0] if len(group) == 8 else 0,
    )


def clients_of(ports: Container[int], answers: Iterable[bytes]) -> dict[int, set[int]]:
    """Return port → inodes of the clients' ends, for open connections to servers on these ports of this
    machine.

    A connection is to this machine if its other end is among the entries, too.
    """
    entries = list(answers)
    # sport, dport, src, dst of the other end
    ends = {entry[4:40] for entry in entries if _port(entry) in ports}
    found: dict[int, set[int]] = {}
    for entry in entries if ends else ():
        if entry[6:8] + entry[4:6] + entry[24:40] + entry[8:24] in ends:
            [port], [inode] = struct.unpack_from("!H", entry, 6), struct.unpack_from("=I", entry, 68)
            found.setdefault(port, set()).add(inode)
    return found


class UnixSocket(NamedTuple):
    """One UNIX socket: its name (a path, or b"" without one), its inode and that of its peer, or 0."""

    name: bytes
    inode: int
    peer: int
    listens: bool


def unix_sockets() -> list[UnixSocket]:
    """Return this network's listening or connected stream sockets; empty if the kernel can't be asked."""
    # struct unix_diag_req: family, protocol, pad, states, inode, show, cookie[2]
    states = 1 << TCP_LISTEN | 1 << TCP_ESTABLISHED
    query = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, states, 0, _UNIX_SHOW, 0, 0)
    found = []
    for kind, entry in _messages(_SOCK_DIAG_BY_FAMILY, netlink.REQUEST | netlink.DUMP, query):
        if kind != netlink.ERROR and len(entry) >= _UNIX_ENTRY_BYTES:
            [inode] = struct.unpack_from("=I", entry, 4)
            peer = netlink.attribute(entry, _UNIX_ENTRY_BYTES, _UNIX_PEER)
            found.append(
                UnixSocket(
                    netlink.attribute(entry, _UNIX_ENTRY_BYTES, _UNIX_NAME).rstrip(b"\0"),
                    inode,
                    struct.unpack("=I", peer)[0] if len(peer) == 4 else 0,
                    entry[2] == TCP_LISTEN,
                )
            )
    return found


def _port(entry: bytes) -> int:
    return entry[4] << 8 | entry[5]


class Buffers(NamedTuple):
    """One end of an open connection: unread bytes, unacknowledged bytes, and the used share of each buffer's
    size.
    """

    unread_bytes: int
    unsent_bytes: int
    receive_share: float
    send_share: float


def buffers(ports: Collection[int], answers: Iterable[bytes]) -> dict[int, list[Buffers]]:
    """Return, by local port, the ends of open connections on these ports."""
    found: dict[int, list[Buffers]] = {port: [] for port in ports}
    for entry in answers:
        mine = found.get(_port(entry))
        if mine is not None:
            unread, unsent = struct.unpack_from("=II", entry, 56)
            receive, send = _shares(_memory(entry))
            mine.append(Buffers(unread, unsent, receive, send))
    return found


def _shares(memory: tuple[int, ...]) -> tuple[float, float]:
    """Return the used shares of the (receive, send) buffers, from struct sk_meminfo: rmem, rcvbuf, wmem,
    sndbuf, fwd, queued for sending, …
    """
    if len(memory) < 6:
        return 0.0, 0.0
    return memory[0] / max(memory[1], 1), memory[5] / max(memory[3], 1)


def _drops(entry: bytes) -> int | None:
    memory = _memory(entry)
    return memory[_DROPS] if len(memory) > _DROPS else None


def _memory(entry: bytes) -> tuple[int, ...]:
    """Return the struct sk_meminfo of an entry; empty if the kernel does not send it."""
    found = netlink.attribute(entry, _ENTRY_BYTES, _SKMEMINFO)
    return struct.unpack(f"={len(found) // 4}I", found[: len(found) // 4 * 4])


def count_time_wait(among: range) -> int:
    """Count the sockets in TIME_WAIT with a local port `among` these, which they block."""
    ports = struct.Struct("!H").unpack_from
    return sum(
        ports(entry, 4)[0] in among
        for family in (socket.AF_INET, socket.AF_INET6)
        for entry in _entries(family, TCP_TIME_WAIT)
    )


def end_time_wait(servers: Container[int]) -> int:
    """End loopback connections in TIME_WAIT to these ports, as an RST at their end would have done
    (SOCK_DESTROY); return how many.

    Their local ports are free immediately. 0 without CAP_NET_ADMIN or CONFIG_INET_DIAG_DESTROY.
    """
    ended = 0
    for family in (socket.AF_INET, socket.AF_INET6):
        for entry in list(_entries(family, TCP_TIME_WAIT)):
            [server] = struct.unpack_from("!H", entry, 6)
            length = 4 if family == socket.AF_INET else 16
            to = ip_address(entry[24 : 24 + length])
            if to.is_loopback and server in servers:
                if not _destroy(family, entry[4:52]):
                    return ended
                ended += 1
    return ended


def _destroy(family: int, socket_id: bytes) -> bool:
    """End the socket of a struct inet_diag_sockid; return False if that is not permitted. A socket that is
    gone meanwhile counts as ended."""
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << TCP_TIME_WAIT) + socket_id
    answer = next(_messages(_SOCK_DESTROY, netlink.REQUEST | netlink.ACK, query), None)
    if answer is None or answer[0] != netlink.ERROR:
        return False
    [code] = struct.unpack_from("=i", answer[1], 0)
    return -code in (0, errno.ENOENT)


def _entries(family: int, state: int, attributes: int = 0) -> Iterator[bytes]:
    # struct inet_diag_req_v2: family, protocol, ext, pad, states, then struct
    # inet_diag_sockid (48 bytes, all zero: any)
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, attributes, 1 << state) + bytes(48)
    for kind, payload in _messages(_SOCK_DIAG_BY_FAMILY, netlink.REQUEST | netlink.DUMP, query):
        if kind != netlink.ERROR and len(payload) >= _ENTRY_BYTES:
            yield payload


def _messages(kind: int, flags: int, query: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kernel's answers (type, payload) until there are no more; none if it can't be asked."""
    try:
        with netlink.kernel_socket(netlink.SOCK_DIAG, _BOUND_S) as kernel:
            yield from netlink.answers(kernel, kind, flags, query)
    except OSError:
        return
