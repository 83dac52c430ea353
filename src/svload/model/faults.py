"""Planned faults: what a study does to its own servers while load is made, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from svload.model.base import Frozen
from svload.model.units import show_duration, show_rate, show_size

FaultKind = Literal["stop", "kill", "pause", "limit", "start"]
ActKind = Literal["stop", "kill", "pause", "limit", "start", "resume", "restore"]
UNDONE_BY: dict[FaultKind, ActKind] = {
    "stop": "start",
    "kill": "start",
    "pause": "resume",
    "limit": "restore",
}
"""A fault → the act that takes it back."""
DISTURBS: frozenset[str] = frozenset(UNDONE_BY)
"""Acts that take something from the service; the others give it back."""
ENDS_PROCESSES = frozenset({"stop", "kill"})
_PAST: dict[str, str] = {
    "stop": "stopped",
    "kill": "killed",
    "pause": "paused",
    "limit": "limited",
    "start": "started again",
    "resume": "let run again",
    "restore": "given its limits back",
}


class Fault(Frozen):
    """One planned fault on one target, every `${…}` resolved. Times in ns from the beginning of the
    measurement, after ramps."""

    place: int
    """its index under `faults`, from 0"""
    kind: FaultKind
    """what is done"""
    target: str
    """a service, a replica (`web[2]`) or a part that its kit declares (`backend.object`)"""
    at_ns: int
    """when"""
    lasts_ns: int | None = None
    """the time after which it is undone; null: by a `start`, or after the trial"""
    limits: dict[str, float] = {}
    """for `limit`: the limits while it lasts, named like the settings of a control group (cpus, memory_bytes,
    pids, disk_read_bytes_per_s, disk_write_bytes_per_s) and of a link (link_rate_bytes_per_s,
    link_latency_s)"""


class Act(Frozen):
    """One action at one moment: a fault, or what undoes it."""

    at_ns: int
    """from the beginning of the measurement"""
    do: ActKind
    """what is done"""
    target: str
    """its target"""
    place: int
    """index of the fault under `faults`"""
    limits: dict[str, float] = {}
    """for `limit`: the fault's limits; for `restore`: those that it had changed"""


def acts_of(faults: Iterable[Fault]) -> tuple[Act, ...]:
    """Return the actions in order of time. At the same moment those that give something back come first."""
    found = []
    for fault in faults:
        first = Act(
            at_ns=fault.at_ns, do=fault.kind, target=fault.target, place=fault.place, limits=fault.limits
        )
        found.append(first)
        if fault.lasts_ns is not None and fault.kind in UNDONE_BY:
            end = {"at_ns": fault.at_ns + fault.lasts_ns, "do": UNDONE_BY[fault.kind]}
            found.append(first.model_copy(update=end))
    return tuple(sorted(found, key=lambda act: (act.at_ns, act.do in DISTURBS, act.place)))


Unit = tuple[str, str]
"""A server and one of its parts; an empty part is the whole server."""


def units_of(target: str, servers: Mapping[str, Sequence[str]]) -> tuple[Unit, ...]:
    """Return the servers that a target names, with the part; empty if it names none. `servers`: those of each
    service."""
    head, _, part = target.partition(".")
    mine = servers.get(head, [server for own in servers.values() for server in own if server == head])
    return tuple((server, part) for server in mine)


class FaultEvent(Frozen):
    """A planned act as it was carried out. Offsets in seconds from the load's start."""

    place: int
    """index of its fault under `faults`, from 0"""
    do: ActKind
    """what was done"""
    target: str
    """its target"""
    planned_s: float
    """when it was due"""
    begun_s: float | None
    """when it was started; null: the load had ended before"""
    done_s: float | None = None
    """when it was finished: for a start, when the server answered again; null: it was not started"""
    limits: dict[str, float] = {}
    """for `limit`: what was requested"""
    found: dict[str, float] = {}
    """for `limit` and `restore`: the values in the kernel then"""

    @property
    def disturbs(self) -> bool:
        """Return whether it took something from the service, and was carried out."""
        return self.do in DISTURBS and self.begun_s is not None

    @property
    def what(self) -> str:
        """Return `web[2] was stopped`."""
        held = ", ".join(limit_text(name, value) for name, value in sorted(self.limits.items()))
        return f"{self.target} was {_PAST[self.do]}" + (f" to {held}" if held and self.do == "limit" else "")

    @property
    def sentence(self) -> str:
        """Return what was done, when, and how long it took."""
        if self.begun_s is None or self.done_s is None:
            return (
                f"{self.target} was to be {_PAST[self.do]} at {show_duration(self.planned_s)}, when the "
                f"load had ended."
            )
        late = self.begun_s - self.planned_s
        took = self.done_s - self.begun_s
        return (
            f"{self.what} at {show_duration(self.planned_s)} "
            f"({show_duration(max(late, 0.0))} late, done after {show_duration(max(took, 0.0))})."
        )


def limit_text(name: str, value: float) -> str:
    """Return `0.2 cores`, `64 MiB of memory`, `5 MB/s of disk reads`."""
    show, words = _LIMITS.get(name, ("{:g}".format, name))
    return f"{show(value)} {words}"


_LIMITS: Mapping[str, tuple[Callable[[float], str], str]] = {
    "cpus": ("{:g}".format, "cores"),
    "memory_bytes": (show_size, "of memory"),
    "pids": ("{:g}".format, "processes"),
    "disk_read_bytes_per_s": (show_rate, "of disk reads"),
    "disk_write_bytes_per_s": (show_rate, "of disk writes"),
    "link_rate_bytes_per_s": (show_rate, "of link"),
    "link_latency_s": (show_duration, "of latency"),
}
