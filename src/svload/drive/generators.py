"""The controller's side of the generators: processes that live through a run and are given one share each a trial.

They are started before the study is read: nothing that knows a study is loaded here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from svload.drive.progress import continued, merge_progress
from svload.model.errors import fail
from svload.model.messages import Action, Limits, Notice, Spawn, Tell

if TYPE_CHECKING:
    from svload.drive.shares import Share

Progress = Callable[[dict[str, Any]], None]
MOST = 1_000_000
"""What the engine takes, and the descriptors that a generator asks for."""
START_MARGIN_NS = 100_000_000
"""The common start lies this far ahead of the last READY, so that every generator has armed its timers."""
LONE = 0
"""A single generator without tables to take in needs no common start: it begins as soon as it hears this, and says when that was."""
LOOK_S, ACT_S = 0.25, 0.01
"""How long one look at the agent waits: rare looks disturb the measurement least; planted faults need the short one."""
STOP_GRACE_S = 2.0
"""A stopped generator is silent at once; it has this long to hand over what it saw."""
LATE_S = 15.0
"""A generator that is silent this long past its own end has failed."""


class AgentLike(Protocol):
    """What is used of `svload.host.Agent`."""

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """Carry actions out in order."""

    def start_at(self, children: Sequence[str], at_ns: int) -> None:
        """Tell generators when to begin."""

    def status(self, since: int, wait_s: float = 0.0) -> tuple[int, list[Notice]]:
        """Notices since, and the number to ask for next."""

    def stop(
        self, children: Sequence[str] | None = None, grace_s: float = 5.0, now: bool = False
    ) -> dict[str, int]:
        """Stop children; their exit codes."""


@dataclass
class ShareResult:
    """What one generator left: its summary JSON and the raw container with its tables."""

    share: Share
    summary: dict[str, Any]
    tables: Path


@dataclass
class Load:
    """One load's outcome. `start_at_ns` is its common start; `stopped_ns` when it was stopped before its end, as an offset."""

    start_at_ns: int
    results: list[ShareResult] = field(default_factory=list)
    stopped_ns: int | None = None

    def begun_at(self, start_at_ns: int) -> None:
        """A generator's own word on when it began."""
        if self.stopped_ns is not None:
            self.stopped_ns += self.start_at_ns - start_at_ns
        self.start_at_ns = start_at_ns

    @property
    def stopped(self) -> bool:
        """Whether it was stopped before its end."""
        return self.stopped_ns is not None


class Generators:
    """The run's generator processes. Not for use from several threads at once."""

    def __init__(self, agent: AgentLike, folder: Path, cores: tuple[int, ...] | None) -> None:
        self._agent = agent
        self._folder = folder
        self._cores = cores
        self._children: list[str] = []
        self._since = 0
        self._generation = 0

    def ensure(self, count: int) -> None:
        """Have at least `count` processes. Raises SvloadError (agent-refused, agent-lost)."""
        new = [f"generator.{self._generation}.{number}" for number in range(len(self._children), count)]
        self._agent.prepare(
            [
                Spawn(
                    child=child,
                    role="generator",
                    argv=(sys.executable, "-m", "svload.drive.generator"),
                    log=str(self._folder / f"{child}.log"),
                    limits=Limits(cores=self._cores, nofile=MOST),
                )
                for child in new
            ]
        )
        self._children += new

    def children(self, count: int) -> list[str]:
        """The agent's names of the processes that a load of `count` shares uses."""
        self.ensure(count)
        return self._children[:count]

    def calibrate(self) -> float:
        """How long the fixed piece of work takes now where the load runs, ns (`drive.calibration`). Raises SvloadError."""
        [child] = self.children(1)
        [said] = self._agent.prepare([Tell(child=child, message={"calibrate": True})])
        return float(said["calibration_ns"])

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
    ) -> Load:
        """Run the shares to their end, one process each, from a common start.

        `meanwhile`, if given, is called many times a second with the offset in ns (planted faults act there). Bounded by the shares'
        own end plus their drain plus 15 s. Raises SvloadError generator-failed, service-died, agent-lost.
        """
        self.ensure(len(shares))
        share_of = dict(zip(self._children, shares, strict=False))
        self._agent.prepare([self._tell(child, share, tables, out) for child, share in share_of.items()])
        lone = len(shares) == 1 and not shares[0].tables
        start_at_ns = time.monotonic_ns() + (0 if lone else START_MARGIN_NS)
        load = Load(start_at_ns)
        waiting = dict(share_of)
        latest: dict[str, dict[str, Any]] = {}
        deadline_ns = start_at_ns + max(_end_ns(share) for share in shares) + round(LATE_S * 1e9)
        self._since, _ = self._agent.status(-1)
        self._agent.start_at(list(share_of), LONE if lone else start_at_ns)
        while waiting:
            self._since, notices = self._agent.status(self._since, LOOK_S if meanwhile is None else ACT_S)
            if should_stop() and not load.stopped:
                load.stopped_ns = time.monotonic_ns() - start_at_ns
                deadline_ns = time.monotonic_ns() + round(LATE_S * 1e9)
                self._agent.stop(list(waiting), grace_s=STOP_GRACE_S)
            heard: dict[str, dict[str, Any]] = {}
            for notice in notices:
                self._hear(notice, waiting, load, heard)
            latest |= heard
            if heard and on_progress is not None:
                on_progress(merge_progress(latest.values()))
            if meanwhile is not None:
                meanwhile(time.monotonic_ns() - start_at_ns)
            if time.monotonic_ns() > deadline_ns:
                raise fail("generator-failed", reason=f"{', '.join(waiting)} did not end in time")
        load.results.sort(key=lambda result: [share.name for share in shares].index(result.share.name))
        return load

    def _tell(self, child: str, share: Share, tables: Mapping[str, Path], out: Path) -> Tell:
        message: dict[str, Any] = {
            "share": share.spec,
            "tables": {name: str(tables[name].resolve()) for name in share.tables},
            "out": str((out / f"{share.name}.tables").resolve()),
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
                load.begun_at(done["start_at_ns"])
                load.results.append(
                    ShareResult(waiting.pop(notice.child), done["summary"], Path(done["tables"]))
                )
            elif "error" in notice.data:
                raise fail("generator-failed", **notice.data["error"].get("details", {}))
            elif "progress" in notice.data:
                heard[notice.child] = continued(heard.get(notice.child), notice.data["progress"])

    def _exited(self, notice: Notice, waiting: dict[str, Share], load: Load) -> None:
        code, tail = notice.data.get("exit"), str(notice.data.get("tail", "")).strip()[-300:]
        if notice.child in self._children:
            self._children.remove(notice.child)
            if load.stopped:
                waiting.pop(notice.child, None)
                return
            raise fail("generator-failed", reason=f"{notice.child} ended (exit {code}) {tail}")
        if notice.data.get("role") != "server":
            return
        service = notice.child.split(".", 1)[0]
        raise fail("service-died", service=service, exit=code, tail=tail or "none")


def _end_ns(share: Share) -> int:
    return max(
        int(group["stop_offset_ns"]) + int(group["graceful_stop_ns"]) for group in share.spec["groups"]
    )
