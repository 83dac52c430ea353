"""Owners of a port: the processes that hold its listening sockets, by the sockets' inodes.

Another user's descriptors may be hidden. Then the owner follows from the control group in which the socket
was created (Linux 5.9, version 2), or from its user if all hidden processes of that user are one family or in
one group.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Literal, NamedTuple

from svload.host.machine.linux import descriptors, in_network, process_stat
from svload.host.machine.sock_diag import Socket, listening_sockets

_TOP_GROUP = 1


class Owners(NamedTuple):
    """The processes that hold the listening sockets of some ports.

    `held`: a socket's inode → the processes seen holding it. `unproved` are the sockets without a visible
    holder, because descriptors are hidden; `likely` the processes that must hold them, by control group or
    user.
    """

    held: Mapping[int, frozenset[int]] = {}
    likely: frozenset[int] = frozenset()
    unproved: tuple[Socket, ...] = ()

    @property
    def pids(self) -> frozenset[int]:
        """Return every process that was seen holding one."""
        return frozenset().union(*self.held.values())


def owners(ports: Collection[int]) -> Owners:
    """Return the processes that listen on these TCP ports; none if the kernel can't be asked."""
    return owners_of(listening(ports))


def listening(ports: Collection[int], network: str = "") -> tuple[Socket, ...]:
    """Return the sockets that listen on these TCP ports of this network, or of the one with that file."""
    with in_network(network) if network else nullcontext():
        return tuple(one for one in listening_sockets() if one.port in ports)


def owners_of(sockets: Collection[Socket], among: Iterable[int] | None = None) -> Owners:
    """Return the holders of these sockets among all processes, or only `among` some."""
    if not sockets:
        return Owners()
    wanted = {f"socket:[{one.inode}]": one.inode for one in sockets}
    held: dict[int, set[int]] = {}
    hidden = []
    for pid in _pids() if among is None else among:
        files = descriptors(pid)
        if not files and pid != os.getpid():
            hidden.append(pid)
        for name in files & wanted.keys():
            held.setdefault(wanted[name], set()).add(pid)
    unproved = tuple(one for one in sockets if one.inode not in held)
    likely = _likely(unproved, hidden) if unproved else frozenset[int]()
    return Owners({inode: frozenset(pids) for inode, pids in held.items()}, likely, unproved)


def _likely(sockets: Iterable[Socket], hidden: Iterable[int]) -> frozenset[int]:
    """Return the processes with hidden descriptors that must hold these sockets; none if it is ambiguous."""
    of_user: dict[int, list[int]] = {}
    for pid in hidden:
        user = user_id(pid)
        if user is not None and not _is_kernels(pid):
            of_user.setdefault(user, []).append(pid)
    found: set[int] = set()
    for one in sockets:
        folder = _folder_of(one.group)
        everyone = [pid for pids in of_user.values() for pid in pids]
        if folder is not None:
            found.update(pid for pid in everyone if control_group(pid) == folder)
            continue
        mine = of_user.get(one.uid, [])
        if _is_one_family(mine) or len({control_group(pid) for pid in mine} - {None}) == 1:
            found.update(mine)
    return frozenset(found)


def _is_one_family(pids: Collection[int]) -> bool:
    """Return whether all of them descend from one of them."""
    parents = {pid: stat.parent for pid in pids if (stat := process_stat(pid)) is not None}
    return sum(parent not in parents for parent in parents.values()) == 1


def _is_kernels(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return not file.read(1)
    except OSError:
        return True


def _folder_of(group: int) -> str | None:
    """Return the version 2 control group with this id; None if unknown, or the top, which proves nothing."""
    hybrid, point = "/sys/fs/cgroup/unified", "/sys/fs/cgroup"
    point = hybrid if os.path.isdir(hybrid) else point
    if group <= _TOP_GROUP or not os.path.exists(f"{point}/cgroup.procs"):
        return None
    for folder, _, _ in os.walk(point):
        try:
            if os.stat(folder).st_ino == group:
                return folder.removeprefix(point) or None
        except OSError:
            continue
    return None


def control_group(pid: int | Literal["self"]) -> str | None:
    """Return a process's control group in version 2 or in systemd's hierarchy; None for the top."""
    found = None
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if controllers in ("", "name=systemd") and path != "/":
                    found = path
    except (OSError, ValueError):
        pass
    return found


def user_id(pid: int) -> int | None:
    """Return the uid of a process; None if it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def described(pid: int) -> str:
    """Return a process's name, pid and user for a sentence."""
    user = user_id(pid)
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        who = pwd.getpwuid(user).pw_name if user is not None else "?"
    except KeyError:
        who = str(user)
    except OSError:
        name, who = "a process", "?"
    return f"{name} (process {pid}, {who})"


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
