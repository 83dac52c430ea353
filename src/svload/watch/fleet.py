"""What disturbs the machines of a fleet that make load: each has a sampler of its own, and of its readings those
come here that the judge asks for (monitor `fleet`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from svload.watch.control import CHILD, PASS_NS, PREPARE_S
from svload.watch.series import SeriesReader

if TYPE_CHECKING:
    from svload.host.clock.offset import Offset

MONITOR = "fleet"
METRICS: Mapping[str, str] = {
    "busy_seconds_total": "per core of a machine that makes load, `machine/core`: time that it was busy",
    "steal_seconds_total": "per core of a machine that makes load: time that its hypervisor gave to others",
    "others_cpu_seconds_total": "per machine that makes load: CPU time of processes that are no part of the measurement",
}
"""By metric: its meaning."""
_TAKEN = {
    ("host", "busy_seconds_total"): "busy_seconds_total",
    ("host", "steal_seconds_total"): "steal_seconds_total",
    ("others", "cpu_seconds_total"): "others_cpu_seconds_total",
}
Table = dict[str, tuple[str, Any]]


class MachineLike(Protocol):
    """What is used of `svload.host.machines.remote.RemoteMachine`."""

    name: str
    pid: int

    @property
    def agent(self) -> Any: ...

    @property
    def cores(self) -> Any: ...

    @property
    def dir(self) -> Path: ...

    def offset(self) -> Offset:
        """Its clock minus this one's."""


class MachineWatch:
    """One machine's sampler. What it wrote is copied into `folder`, from where it is read."""

    def __init__(self, machine: MachineLike, folder: Path) -> None:
        self._machine = machine
        self._there = machine.dir / "monitors.jsonl"
        self._here = folder / f"{machine.name}.monitors.jsonl"
        self._reader = SeriesReader(self._here)
        self._copied = 0
        self._marked_ns = 0

    def start(self, interval_s: float) -> None:
        """Start it. Raises SvloadError agent-refused, agent-lost."""
        from svload.model.messages import Limits, Spawn

        agent, cores = self._machine.agent, self._machine.cores
        order = Spawn(
            child=CHILD,
            role="monitor",
            argv=(agent.python, "-m", "svload.watch.sampler"),
            log=str(self._machine.dir / f"{CHILD}.log"),
            limits=Limits(cores=cores.servers if cores.pinned else None),
        )
        agent.prepare([order])
        told = {"services": [], "own": [self._machine.pid], "interval_s": interval_s, "out": str(self._there)}
        self._tell({"prepare": told})

    def mark(self) -> None:
        """One reading of everything now: the first of the next slice."""
        self._marked_ns = int(self._tell({"sample": True})["at_ns"])

    def readings(self, origin_ns: int) -> Table:
        """From the mark to now; offsets count from `origin_ns` of this machine's clock."""
        last_ns = int(self._tell({"sample": True})["at_ns"])
        self._copy()
        offset = self._machine.offset()
        found = self._reader.between(self._marked_ns, last_ns + PASS_NS, offset.there(origin_ns))
        return as_fleet(found, self._machine.name)

    def _copy(self) -> None:
        data = self._machine.agent.collect(self._there, self._copied)
        with self._here.open("ab") as file:
            file.write(data)
        self._copied += len(data)

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        from svload.model.messages import Tell

        said: dict[str, Any] = self._machine.agent.prepare(
            [Tell(child=CHILD, message=message, timeout_s=PREPARE_S)]
        )[0]
        return said


def as_fleet(table: Mapping[str, tuple[str, Any]], machine: str) -> Table:
    """Of a machine's readings those that are asked for, told as the monitor `fleet` of this run. Pure."""
    kept = list(_kept(table, machine))
    offsets, values = array("q"), array("d")
    offsets.frombytes(table["offset_ns"][1])
    values.frombytes(table["value"][1])
    return {
        "offset_ns": ("i64", array("q", (offsets[row] for row, _, _ in kept)).tobytes()),
        "service": ("utf8", [""] * len(kept)),
        "monitor": ("utf8", [MONITOR] * len(kept)),
        "entity": ("utf8", [entity for _, entity, _ in kept]),
        "metric": ("utf8", [metric for _, _, metric in kept]),
        "value": ("f64", array("d", (values[row] for row, _, _ in kept)).tobytes()),
    }


def _kept(table: Mapping[str, tuple[str, Any]], machine: str) -> Iterator[tuple[int, str, str]]:
    rows = zip(*(table[name][1] for name in ("service", "monitor", "entity", "metric")), strict=True)
    for row, (service, monitor, entity, metric) in enumerate(rows):
        taken = _TAKEN.get((monitor, metric))
        if taken is None or service or (monitor == "others" and entity):
            continue
        yield row, f"{machine}/{entity}" if entity else machine, taken


def together(tables: Sequence[Table]) -> Table:
    """Tables of readings as one."""
    first = tables[0]
    return {
        name: (kind, _joined(kind, [table[name][1] for table in tables])) for name, (kind, _) in first.items()
    }


def _joined(kind: str, columns: Iterable[Any]) -> Any:
    if kind == "utf8":
        return [cell for column in columns for cell in column]
    return b"".join(columns)
