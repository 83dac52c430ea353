"""The controller's side of the generators: processes that live through a run and get a share each per trial.

They are started before the study is read: nothing that knows a study is loaded here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.drive.progress import continued
from svload.drive.share.write import plain
from svload.host.process.interpreter import EXECUTABLE, python
from svload.model.bounds import VUS
from svload.model.errors import SvloadError, error_of, fail
from svload.model.messages import DELAY_LINE, Limits, Notice, Spawn, Tell

if TYPE_CHECKING:
    from svload.drive.share.cut import Share
    from svload.host.agent.client import Agent
    from svload.model.clocks import MachineClock

Progress = Callable[[dict[str, dict[str, Any]]], None]
"""Called with each share's progress since the last call."""
START_MARGIN_NS, LONGEST_MARGIN_NS = 100_000_000, 2_000_000_000
"""The common start is this long after the last READY, so that every generator has armed its timers. On a busy
machine that may be too short: after a generator's error, later loads of the run get four times as long."""
LONE = 0
"""A single generator without tables to read, or whose load only prepares the servers, needs no common start:
it begins as soon as it gets this value, and reports when."""
LOOK_S, ACT_S = 0.5, 0.01
"""How long one query to the agent waits: rare ones disturb least; planned faults need short ones."""
STOP_GRACE_S = 2.0
"""A stopped generator is silent immediately; it has this long to hand over its results."""
LATE_S = 15.0
"""A generator that is silent this long after its planned end has failed."""


@dataclass
class ShareResult:
    """One generator's results: summary JSON, raw container with tables; `machine` and `site` in a fleet."""

    share: Share
    summary: dict[str, Any]
    tables: Path
    machine: str = ""
    site: str = ""


@dataclass
class Load:
    """The outcome of a load: its common start, and the offset at which it was stopped early."""

    start_at_ns: int
    results: list[ShareResult] = field(default_factory=list)
    stopped_ns: int | None = None

    def begun_at(self, start_at_ns: int) -> None:
        """Return the start that a generator reports."""
        if self.stopped_ns is not None:
            self.stopped_ns += self.start_at_ns - start_at_ns
        self.start_at_ns = start_at_ns

    @property
    def stopped(self) -> bool:
        """Return whether it was stopped before its end."""
        return self.stopped_ns is not None


class Generators:
    """The run's generator processes. Not for concurrent use by several threads. `clocks` are those of other
    machines in the last load."""

    margin_ns = START_MARGIN_NS

    def __init__(self, agent: Agent, folder: Path, cores: tuple[int, ...] | None) -> None:
        self._agent = agent
        self._folder = folder
        self._cores = cores
        self._children: list[str] = []
        self._since = 0
        self._generation = 0
        self.clocks: tuple[MachineClock, ...] = ()

    def ensure(self, count: int) -> None:
        """Ensure at least `count` processes. Raises SvloadError (agent-refused, agent-lost)."""
        new = [f"generator.{self._generation}.{number}" for number in range(len(self._children), count)]
        self._agent.prepare(
            [
                Spawn(
                    child=child,
                    role="generator",
                    argv=python("-m", "svload.drive.generator", executable=self._python()),
                    log=str(self._folder / f"{child}.log"),
                    limits=Limits(cores=self._cores, nofile=VUS.most),
                )
                for child in new
            ]
        )
        self._children += new

    def children(self, count: int) -> list[str]:
        """Return the agent's names of the processes that a load of `count` shares uses."""
        self.ensure(count)
        return self._children[:count]

    def calibrate(self) -> float:
        """Return the current duration of the fixed piece of work where the load runs, in ns
        (`drive.calibration`). Raises SvloadError."""
        [child] = self.children(1)
        [reply] = self._agent.prepare([Tell(child=child, message={"calibrate": True})])
        return float(reply["calibration_ns"])

    def restart(self) -> None:
        """End all processes; the next load starts new ones."""
        known, self._children = self._children, []
        self._agent.stop(known, grace_s=STOP_GRACE_S)
        self._generation += 1

    def load(
        self,
        shares: Sequence[Share],
        tables: Mapping[str, Path],
        out: Path,
        on_progress: Progress | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[int], None] | None = None,
        may_end: Callable[[str, int], bool] = lambda service, offset_ns: False,
        on_start: Callable[[int], None] | None = None,
    ) -> Load:
        """Run the shares to their end, one process each, from a common start.

        `meanwhile`, if given, is called many times per second with the offset in ns (planned faults act
        there). `may_end` is called when a server's process ends, with service and offset: does the load
        continue? `on_start` is called when it begins (CLOCK_MONOTONIC). Bounded by the shares' own end plus
        their drain plus 15 s. Raises SvloadError generator-failed, service-died, agent-lost.
        """
        self.ensure(len(shares))
        share_of = dict(zip(self._children, shares, strict=False))
        self._agent.prepare([self._tell(child, share, tables, out) for child, share in share_of.items()])
        # Nobody watches a load that only prepares: a start delayed by its tables harms no number.
        exact = on_start is not None or (on_progress is not None and bool(shares[0].tables))
        lone = len(shares) == 1 and not exact
        start_at_ns = self._start_at_ns(lone)
        load = Load(start_at_ns)
        waiting = dict(share_of)
        deadline_ns = start_at_ns + max(share.spec.end_ns for share in shares) + round(LATE_S * 1e9)
        self._since, _ = self._agent.status(-1)
        self._begin(list(share_of), start_at_ns, lone)
        if on_start is not None:
            on_start(start_at_ns)
        while waiting:
            self._since, notices = self._agent.status(self._since, LOOK_S if meanwhile is None else ACT_S)
            if should_stop() and not load.stopped:
                load.stopped_ns = time.monotonic_ns() - start_at_ns
                deadline_ns = time.monotonic_ns() + round(LATE_S * 1e9)
                self._agent.stop(list(waiting), grace_s=STOP_GRACE_S)
            heard: dict[str, dict[str, Any]] = {}
            for notice in notices:
                if not _is_awaited(notice, start_at_ns, may_end):
                    self._hear(notice, waiting, load, heard)
            if heard and on_progress is not None:
                on_progress(heard)
            if meanwhile is not None:
                meanwhile(time.monotonic_ns() - start_at_ns)
            if time.monotonic_ns() > deadline_ns:
                raise fail("generator-failed", reason=f"{', '.join(waiting)} did not end in time")
        if load.stopped:
            self.restart()  # those that were done have ended too, which nobody may have heard
        load.results.sort(key=lambda result: [share.name for share in shares].index(result.share.name))
        return load

    def _python(self) -> str:
        return EXECUTABLE

    def _start_at_ns(self, lone: bool) -> int:
        return time.monotonic_ns() + (0 if lone else self.margin_ns)

    def _begin(self, children: list[str], at_ns: int, lone: bool) -> None:
        self._agent.start_at(children, LONE if lone else at_ns)

    def _hear_begun(self, load: Load, start_at_ns: int) -> None:
        load.begun_at(start_at_ns)

    def _table(self, path: Path) -> str:
        return str(path.resolve())

    def _out(self, out: Path, share: Share) -> str:
        return str((out / f"{share.name}.tables").resolve())

    def _fetched(self, share: Share, tables: str) -> Path:
        return Path(tables)

    def _tell(self, child: str, share: Share, tables: Mapping[str, Path], out: Path) -> Tell:
        message: dict[str, Any] = {
            "share": plain(share.spec),
            "tables": {name: self._table(tables[name]) for name in share.tables},
            "out": self._out(out, share),
        }
        if share.values:
            message["values"] = {name: dict(table) for name, table in share.values.items()}
        return Tell(child=child, message={"prepare": message})

    def _hear(
        self, notice: Notice, waiting: dict[str, Share], load: Load, heard: dict[str, dict[str, Any]]
    ) -> None:
        if notice.kind == "exit":
            self._exited(notice, waiting, load)
        elif notice.child in waiting and notice.kind == "line":
            if "done" in notice.data:
                done = notice.data["done"]
                self._hear_begun(load, done["start_at_ns"])
                share = waiting.pop(notice.child)
                load.results.append(ShareResult(share, done["summary"], self._fetched(share, done["tables"])))
            elif "error" in notice.data:
                self.margin_ns = min(4 * self.margin_ns, LONGEST_MARGIN_NS)
                raise error_of(notice.child, notice.data["error"])
            elif "progress" in notice.data:
                name = waiting[notice.child].name
                heard[name] = continued(heard.get(name), notice.data["progress"])

    def _exited(self, notice: Notice, waiting: dict[str, Share], load: Load) -> None:
        code, tail = notice.data.get("exit"), str(notice.data.get("tail", "")).strip()[-300:]
        if notice.child in self._children:
            self._children.remove(notice.child)
            if load.stopped:
                waiting.pop(notice.child, None)
                return
            raise fail("generator-failed", reason=f"{notice.child} ended (exit {code}) {tail}")
        if (died := _died(notice)) is not None:
            raise died


def ended_server(notice: Notice, start_at_ns: int, may_end: Callable[[str, int], bool]) -> SvloadError | None:
    """Return the error for the end of a server that was to live; None for any other notice."""
    if notice.kind != "exit" or _is_awaited(notice, start_at_ns, may_end):
        return None
    return _died(notice)


def _died(notice: Notice) -> SvloadError | None:
    if notice.data.get("role") != "server":
        return None
    tail = str(notice.data.get("tail", "")).strip()[-300:]
    service, _, part = notice.child.partition(".")
    code = "link-died" if part == DELAY_LINE else "service-died"
    return fail(code, service=service, exit=notice.data.get("exit"), tail=tail or "none")


def _is_awaited(notice: Notice, start_at_ns: int, may_end: Callable[[str, int], bool]) -> bool:
    """Return whether it reports the end of a server that may end."""
    if notice.kind != "exit" or notice.data.get("role") != "server":
        return False
    return may_end(notice.child.split(".", 1)[0], notice.monotonic_ns - start_at_ns)
