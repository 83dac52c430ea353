"""Proof, from the sockets that listen on its ports, that the started processes answer for a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from svload.host.agent.journal import CHILD
from svload.host.machine import linux
from svload.host.machine.owners import described, listening, owners_of
from svload.host.process import cgroups
from svload.model.errors import fail
from svload.model.facts import ProcessFact, ServiceFacts


def proved(facts: ServiceFacts, started: Iterable[ProcessFact], log: object) -> list[str]:
    """Make sure that no process older than `started` listens on the server's ports, which were free before
    the server started. Return a sentence for each thing that the sockets can't prove. Raises SvloadError
    service-not-ours.

    A process that started later may belong to the server, such as a container's: a sentence says so.
    """
    mine = {one.pid: one.start_ticks for one in started}
    first = min(mine.values(), default=0)
    ends = [end for end in (*facts.endpoints, *facts.named.values()) if end.port]
    ports = {end.port for end in ends}
    listeners = listening(ports, facts.links[0].network if facts.links else "")
    sockets = [one for one in listeners if any(one.serves(end.address) for end in ends)]
    own = [
        stat.pid
        for stat in linux.processes()
        if mine.keys() & {stat.pid, stat.parent, stat.session, stat.group}
    ]
    near = owners_of(sockets, own)
    left = [one for one in sockets if one.inode not in near.held]
    found = owners_of(left)
    texts = [
        f"It could not be proved that {facts.service} itself answers on port {port}: no process here listens there."
        for port in sorted(ports - {one.port for one in sockets})
    ]
    for one in left:
        for pid in sorted(found.held.get(one.inode, ())):
            texts += _of_another(pid, one.port, facts.service, mine, first, log)
    for port in sorted({one.port for one in found.unproved}):
        texts.append(
            f"This user can't see who listens on port {port} of {facts.service}; the port was free before "
            "it was started."
        )
    return list(dict.fromkeys(texts))


def _of_another(
    pid: int, port: int, service: str, mine: dict[int, int], first: int, log: object
) -> Iterator[str]:
    stat = linux.process_stat(pid)
    if stat is None or _is_of(stat, mine):
        return
    holder = described(pid)
    if stat.start_ticks < first:
        raise fail("service-not-ours", place=service, service=service, port=port, holder=holder, log=log)
    yield (
        f"{holder} answers for {service} on port {port}. It was started after {service}, on a port that was "
        f"free before, and counts as part of {service}."
    )


def _is_of(holder: linux.ProcessStat, mine: dict[int, int]) -> bool:
    """Return whether the holder is one of the started processes or a descendant, or started later with the
    same control group or mark."""
    for stat in _ancestors(holder):
        if stat.pid in mine or stat.session in mine or stat.group in mine:
            return True
    return any(
        holder.start_ticks >= began
        and (
            cgroups.shared_by(holder.pid, pid)
            or ((child := _child_of(pid)) and linux.environment_has(holder.pid, child))
        )
        for pid, began in mine.items()
    )


def _ancestors(stat: linux.ProcessStat) -> Iterator[linux.ProcessStat]:
    found: linux.ProcessStat | None = stat
    while found is not None and found.pid > 1:
        yield found
        found = linux.process_stat(found.parent)


def _child_of(pid: int) -> bytes:
    """Return the mark that the agent put in the process's environment; empty if it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return b""
    return next((word for word in words if word.startswith(f"{CHILD}=".encode())), b"")
