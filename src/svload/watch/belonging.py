"""Processes that are part of the measurement though svload did not start them: the owner of a port under
load, what it is connected to, and helpers whose CPU use rises and falls with the load."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from svload.host.machine.linux import descriptors
from svload.host.machine.owners import control_group, owners_of
from svload.host.machine.sock_diag import (
    Socket,
    clients_of,
    listening_sockets,
    open_connections,
    unix_sockets,
)
from svload.model.unix_url import PREFIX
from svload.watch import proc
from svload.watch.monitors.listeners import HERE, networks_of, within

SHORTEST_S, LONGEST_S = 2.0, 16.0
"""The interval between looks at connections after a load's start and after each new find; each look without a
find doubles the wait for the next one."""
COST_SHARE = 0.003
"""The share of a core that looking may use: if it costs more, it is done less often."""
HOPS = 4
"""The length of the chain of servers that is followed: a proxy, an application, a database, one more."""

PAUSES = 8
"""Pauses, and loads, after which a process may be called a helper: a process that is busy a fifth of the time
in spells of 0.5 s is idle in eight pauses of a second in 3 of 1,000 runs."""
PAUSES_S = 3.0
"""The minimum total length of these pauses."""
QUIET = 0.1
"""A helper's highest use in the pauses, as a share of its use under load."""
BUSY_CORES = 0.005
"""A helper's lowest use in each load: half a tick of the kernel's clock per second."""


class Belonging:
    """Finds the processes that belong to the services' servers, from the kernel's information on sockets."""

    def __init__(self, services: Sequence[Mapping[str, Any]], table: proc.ProcessTable) -> None:
        self._table = table
        self._started = frozenset(
            int(process["pid"]) for one in services for process in one.get("processes", ())
        )
        self._networks: set[str] = set()
        self._ports: set[int] = set()
        self._doors: set[int] = set()
        self._paths: set[bytes] = set()
        for one in services:
            started = bool(one.get("processes"))
            for end in one.get("endpoints", ()):
                address, port = str(end["address"]), int(end["port"])
                if address.startswith(PREFIX):
                    self._networks.add(HERE)
                    self._paths.add(os.fsencode(address.removeprefix(PREFIX)))
                elif started or _is_here(address):
                    self._networks.update(networks_of(one))
                    self._ports.add(port)
                    self._doors |= set() if started else {port}
        self._own_group = control_group("self")
        self._holders: dict[int, frozenset[int]] = {}
        self._foreign: set[int] = set()
        self._due = float("-inf")
        self._wait_s = SHORTEST_S
        self.found: dict[int, str] = {}
        """By pid: why it belongs. A process stays as long as it lives."""

    def renew(self) -> Mapping[int, str]:
        """Return the processes that belong, at most some seconds old."""
        if time.monotonic() < self._due or not self._networks:
            return self.found
        began, cost = time.monotonic(), time.thread_time()
        alive = self._table.all().keys()
        self.found = {pid: why for pid, why in self.found.items() if pid in alive}
        known = set(self.found)
        self._holders = {inode: pids for inode, pids in self._holders.items() if pids & alive}
        for network in self._networks:
            with within(network):
                self._look()
        self._wait_s = min(2 * self._wait_s, LONGEST_S) if self.found.keys() == known else SHORTEST_S
        self._due = began + max(self._wait_s, (time.thread_time() - cost) / COST_SHARE)
        return self.found

    def load(self) -> None:
        """A load begins: the servers may be connected to other processes from now on."""
        self._wait_s = SHORTEST_S / 2
        self._due = min(self._due, time.monotonic() + SHORTEST_S)

    def _look(self) -> None:
        listening = listening_sockets()
        paths = unix_sockets()
        doors = [one for one in listening if one.port in self._doors]
        doors += [_door(one.inode) for one in paths if one.listens and one.name in self._paths]
        for pid in self._owners(doors):
            self._add(pid, "listens where the load is sent")
        self._add_groups()
        behind = {one.port for one in listening} - self._ports
        connections = list(_connected(listening, behind, paths))
        self._foreign &= set().union(*(inodes for inodes, _ in connections))
        for _ in range(HOPS):
            servers = self._table.families(self._started | self.found.keys())
            new = [(inodes - self._foreign, others) for inodes, others in connections]
            if not any(inodes for inodes, _ in new):
                return
            mine = _sockets_of(servers)
            reached = [one for inodes, others in new if inodes & mine for one in others]
            added = [self._add(pid, "is connected to the server") for pid in self._owners(reached)]
            if not any(added):
                # A process that is not part of the servers now may be when the next one is found.
                self._foreign.update(*(inodes - mine for inodes, _ in new))
                return

    def _owners(self, sockets: Sequence[Socket]) -> set[int]:
        """Return the holders of these sockets; the machine is searched only if one is new."""
        new = [one for one in sockets if one.inode not in self._holders]
        if new:
            found = owners_of(new)
            self._holders |= {one.inode: found.held.get(one.inode, found.likely) for one in new}
        return set().union(*(self._holders[one.inode] for one in sockets))

    def _add(self, pid: int, why: str) -> bool:
        """Add a process, and return whether it is new. The machine's first process is left out: it holds
        sockets for others, and all descend from it."""
        if pid in self.found or pid in self._table.families(self._started):
            return False
        if pid == 1 and any(one.kernel for one in self._table.all().values()):
            return False
        self.found[pid] = why
        return True

    def _add_groups(self) -> None:
        """Add all processes in an owner's control group, unless svload is in it too, as within one login: the
        owner's children may have left its family."""
        groups = {control_group(pid) for pid in self.found} - {None, self._own_group}
        for one in self._table.all().values() if groups else ():
            if not one.kernel and control_group(one.pid) in groups:
                self._add(one.pid, "is in the server's control group")


def _connected(
    listening: Sequence[Socket], ports: set[int], paths: Sequence[Any]
) -> Iterator[tuple[set[int], list[Socket]]]:
    """Yield, for connections within this machine, the clients' inodes and the listeners that they reached."""
    for port, inodes in clients_of(ports, open_connections()).items():
        yield inodes, [one for one in listening if one.port == port]
    doors = {one.name: one.inode for one in paths if one.listens and one.name}
    peers: dict[bytes, set[int]] = {}
    for one in paths:
        if one.peer and not one.listens and one.name in doors:
            peers.setdefault(one.name, set()).add(one.peer)
    for name, inodes in peers.items():
        yield inodes, [_door(doors[name])]


def _door(inode: int) -> Socket:
    return Socket(socket.AF_UNIX, "", 0, 0, inode)


def _sockets_of(pids: Iterable[int]) -> set[int]:
    return {int(name[8:-1]) for pid in pids for name in descriptors(pid) if name.startswith("socket:[")}


def _is_here(address: str) -> bool:
    """Return whether an address is this machine's: it can be bound. Only `localhost` is looked up."""
    address = "127.0.0.1" if address == "localhost" else address
    try:
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except (OSError, ValueError):
        return False
    return True


@dataclass
class _Spell:
    """What one process used in all spells of a kind."""

    rates: list[float] = field(default_factory=list)
    seconds: float = 0.0
    used_s: float = 0.0

    def add(self, seconds: float, used_s: float) -> None:
        self.rates.append(used_s / seconds)
        self.seconds += seconds
        self.used_s += used_s


class Helpers:
    """Tells processes whose CPU use rises and falls with the load from other programs."""

    def __init__(self) -> None:
        self._since = float("nan")
        self._loaded: bool | None = None
        self._now: dict[tuple[int, int], float] = {}
        self._known: dict[tuple[int, int], tuple[_Spell, _Spell]] = {}

    def used(self, key: tuple[int, int], seconds: float) -> None:
        """Add what a process, by its pid and start, has used since the previous look."""
        self._now[key] = self._now.get(key, 0.0) + seconds

    def turn(self, loaded: bool, at: float, alive: Iterable[tuple[int, int]]) -> None:
        """A load begins at this moment, or has ended. The time before the first load is no pause, because
        servers were starting; a load that was stopped, without an end, is neither."""
        length = at - self._since
        living = set(alive)
        if self._loaded is not None and length > 0 and not (loaded and self._loaded):
            for key in living & (self._now.keys() | self._known.keys()):
                spells = self._known.setdefault(key, (_Spell(), _Spell()))
                spells[self._loaded].add(length, self._now.get(key, 0.0))
            self._known = {key: spells for key, spells in self._known.items() if key in living}
        self._since, self._now = at, {}
        self._loaded = loaded if loaded or self._loaded is not None else None

    def __contains__(self, key: object) -> bool:
        """Return whether it has behaved like a helper in enough loads and pauses."""
        found = self._known.get(key) if isinstance(key, tuple) else None
        if found is None:
            return False
        paused, loaded = found
        if min(len(paused.rates), len(loaded.rates)) < PAUSES or paused.seconds < PAUSES_S:
            return False
        if min(loaded.rates) < BUSY_CORES or max(paused.rates) >= min(loaded.rates):
            return False
        return paused.used_s / paused.seconds <= QUIET * loaded.used_s / loaded.seconds
