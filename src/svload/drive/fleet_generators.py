"""Generators of several machines as one: shares dealt to machines, one common start, results collected here.

A thread follows each machine's part, as for the generators of one machine. Time stamps of two machines are
never compared: each gets its start in its own clock, and its results count from it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.drive.generators import ACT_S, LATE_S, LOOK_S, Generators, Load, Progress, ended_server
from svload.drive.progress import continued
from svload.model.clocks import MachineClock
from svload.model.errors import fail
from svload.model.outputs import write_output

if TYPE_CHECKING:
    from svload.drive.share.cut import Share
    from svload.host.agent.client import Agent
    from svload.host.clock.offset import Offset
    from svload.host.machines.remote import RemoteMachine

START_MARGIN_NS = 400_000_000
"""The common start is this long after the last machine's READY: sending the start takes a while."""
READY_WITHIN_S = 120.0


def seats(cores: Sequence[int]) -> tuple[int, ...]:
    """Return the machine of each generator process: machines in turn, repeatedly, one per load core."""
    return tuple(
        machine for turn in range(max(cores, default=0)) for machine, own in enumerate(cores) if turn < own
    )


class CommonStart:
    """All parts wait here until each is ready; then all get the start (in this machine's clock), `margin_ns`
    later."""

    def __init__(self, parts: int, margin_ns: int, ready: Callable[[int], None]) -> None:
        self.at_ns = 0
        self._margin_ns = margin_ns
        self._ready = ready
        self._barrier = threading.Barrier(parts, action=self._decide)

    def _decide(self) -> None:
        self.at_ns = time.monotonic_ns() + self._margin_ns
        self._ready(self.at_ns)

    def wait(self) -> int:
        """Return the start. Raises SvloadError generator-failed if another part was not ready."""
        try:
            self._barrier.wait(READY_WITHIN_S)
        except threading.BrokenBarrierError:
            raise fail("generator-failed", reason="another machine was not ready") from None
        return self.at_ns

    def give_up(self) -> None:
        """Report to the waiting parts that there is no start."""
        self._barrier.abort()


class MachineGenerators(Generators):
    """The generators of one machine of a fleet."""

    margin_ns = START_MARGIN_NS

    def __init__(self, machine: RemoteMachine) -> None:
        cores = machine.cores
        super().__init__(machine.agent, machine.agent.dir, cores.load if cores.pinned else None)
        self.machine = machine
        self.start: CommonStart | None = None
        self._offset: Offset | None = None
        self._there: dict[str, str] = {}
        self._here = Path()

    def measure_offset(self) -> Offset:
        """Measure its clock now; the next start uses the result. Raises SvloadError."""
        try:
            self._offset = self.machine.offset()
        except ValueError as why:
            raise fail("generator-failed", reason=f"the clock of {self.machine.name}: {why}") from why
        return self._offset

    def _python(self) -> str:
        return str(self.machine.agent.python)

    def _start_at_ns(self, lone: bool) -> int:
        assert self.start is not None
        return self.start.wait()

    def _begin(self, children: list[str], at_ns: int, lone: bool) -> None:
        assert self._offset is not None
        self._agent.start_at(children, self._offset.there(at_ns))

    def _hear_begun(self, load: Load, start_at_ns: int) -> None:
        """Ignore when they began: the common start is valid for all machines."""

    def _table(self, path: Path) -> str:
        """Return the table's path there, copying it once."""
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._there:
            there = str(self.machine.agent.dir / "inputs" / f"{digest[:16]}.csv")
            self.machine.agent.put(there, data, 0o600, temporary=True)
            self._there[digest] = there
        return self._there[digest]

    def _out(self, out: Path, share: Share) -> str:
        self._here = out
        return str(self.machine.agent.dir / f"{share.name}.tables")

    def _fetched(self, share: Share, tables: str) -> Path:
        found = self._here / f"{share.name}.tables"
        write_output(found, self.machine.agent.collect(tables))
        return found


class FleetGenerators(Generators):
    """The generator processes of all machines, with the interface of those of one. `agent` is the one of this
    machine, whose servers are watched during the load."""

    def __init__(self, agent: Agent, machines: Sequence[RemoteMachine]) -> None:
        super().__init__(agent, Path(), None)
        self.parts = [MachineGenerators(machine) for machine in machines]
        self.seats = seats([len(machine.cores.load) for machine in machines])
        self._calibrated: list[float] = []

    def machine_of(self, process: int) -> str:
        """Return the machine of the run's process with that number."""
        return self.parts[self.seats[process % len(self.seats)]].machine.name

    def _dealt(self, count: int) -> dict[int, list[int]]:
        """Return machine → numbers of the shares that run there."""
        dealt: dict[int, list[int]] = {}
        for number in range(count):
            dealt.setdefault(self.seats[number % len(self.seats)], []).append(number)
        return dealt

    def _on_all(
        self, act: Callable[[MachineGenerators], Any], parts: Sequence[MachineGenerators]
    ) -> list[Any]:
        with ThreadPoolExecutor(max(1, len(parts)), thread_name_prefix="svload-fleet") as pool:
            return list(pool.map(act, parts))

    def ensure(self, count: int) -> None:
        """Start processes for `count` shares where they will run. Raises SvloadError."""
        dealt = self._dealt(count)
        self._on_all(
            lambda part: part.ensure(len(dealt[self.parts.index(part)])), [self.parts[at] for at in dealt]
        )

    def children(self, count: int) -> list[str]:
        """Return an empty list: this machine has no generators of its own."""
        self.ensure(count)
        return []

    def calibrate(self) -> float:
        """As for one machine, from the machine that has slowed down most since the first time."""
        found = self._on_all(lambda part: part.calibrate(), self.parts)
        self._calibrated = self._calibrated or found
        slowest: float = max(now / first for now, first in zip(found, self._calibrated, strict=True))
        return self._calibrated[0] * slowest

    def restart(self) -> None:
        """End all processes; the next load starts new ones."""
        self._on_all(lambda part: part.restart(), self.parts)

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
        """As for one machine. If a machine is lost, all others stop; their results then count for nothing."""
        self.clocks = ()
        dealt = {
            self.parts[at]: [shares[number] for number in numbers]
            for at, numbers in self._dealt(len(shares)).items()
        }
        before = dict(zip(dealt, self._on_all(lambda part: part.measure_offset(), list(dealt)), strict=True))
        begun = threading.Event()
        start = CommonStart(len(dealt), max(part.margin_ns for part in dealt), lambda at_ns: begun.set())
        follower = _Follower(should_stop, start)
        threads = []
        for part, own in dealt.items():
            part.start = start
            threads.append(follower.follow(part, own, tables, out))
        deadline = (
            time.monotonic() + READY_WITHIN_S + max(share.spec.end_ns for share in shares) / 1e9 + 2 * LATE_S
        )
        try:
            since, _ = self._agent.status(-1)
            start_reported = on_start is None
            while any(thread.is_alive() for thread in threads):
                since, notices = self._agent.status(since, LOOK_S if meanwhile is None else ACT_S)
                if begun.is_set() and not start_reported and on_start is not None:
                    start_reported = True
                    on_start(start.at_ns)
                for notice in notices:
                    start_ns = start.at_ns or notice.monotonic_ns  # what ends before it ended at 0
                    if (error := ended_server(notice, start_ns, may_end)) is not None:
                        follower.fail(error)
                if on_progress is not None and (latest := follower.news()):
                    on_progress(latest)
                if meanwhile is not None and begun.is_set():
                    meanwhile(time.monotonic_ns() - start.at_ns)
                if time.monotonic() > deadline:
                    follower.fail(fail("generator-failed", reason="the fleet did not end in time"))
                    break
        except BaseException as why:  # threads that went on would take the next load's notices
            follower.fail(why)
            raise
        finally:
            for thread in threads:
                thread.join(LATE_S)
        load = follower.outcome(start.at_ns)
        order = [share.name for share in shares]
        load.results.sort(key=lambda result: order.index(result.share.name))
        if not load.stopped:
            after = dict(
                zip(dealt, self._on_all(lambda part: part.measure_offset(), list(dealt)), strict=True)
            )
            self.clocks = tuple(_clock(part.machine, before[part], after[part]) for part in dealt)
        return load


class _Follower:
    """Follows each machine's part in a thread; one that fails stops the others."""

    def __init__(self, should_stop: Callable[[], bool], start: CommonStart) -> None:
        self._should_stop, self._start = should_stop, start
        self._lock = threading.Lock()
        self._failed = threading.Event()
        self._error: BaseException | None = None
        self._loads: list[Load] = []
        self._unseen: dict[str, dict[str, Any]] = {}

    def follow(
        self, part: MachineGenerators, shares: Sequence[Share], tables: Mapping[str, Path], out: Path
    ) -> threading.Thread:
        name = part.machine.name

        def run() -> None:
            try:
                done = part.load(shares, tables, out, self._hear, self._stop)
            except BaseException as why:  # reported by the thread that requested it
                self.fail(why)
            else:
                for result in done.results:
                    result.machine, result.site = name, part.machine.site
                with self._lock:
                    self._loads.append(done)

        thread = threading.Thread(target=run, name=f"svload-load-{name}", daemon=True)
        thread.start()
        return thread

    def _stop(self) -> bool:
        return self._failed.is_set() or self._should_stop()

    def fail(self, why: BaseException) -> None:
        """Record the first failure: later ones are its consequences."""
        with self._lock:
            self._error = self._error or why
        self._failed.set()
        self._start.give_up()

    def _hear(self, heard: dict[str, dict[str, Any]]) -> None:
        with self._lock:
            for share, progress in heard.items():
                self._unseen[share] = continued(self._unseen.get(share), progress)

    def news(self) -> dict[str, dict[str, Any]]:
        """Return the progress of all machines' shares since the last call."""
        with self._lock:
            heard, self._unseen = self._unseen, {}
            return heard

    def outcome(self, start_at_ns: int) -> Load:
        """Return the results of all. Raises the first exception of any."""
        with self._lock:
            if self._error is not None:
                raise self._error
            load = Load(start_at_ns)
            for one in self._loads:
                load.results += one.results
                if one.stopped_ns is not None:
                    load.stopped_ns = min(one.stopped_ns, load.stopped_ns or one.stopped_ns)
            return load


def _clock(machine: RemoteMachine, before: Offset, after: Offset) -> MachineClock:
    from svload.host.clock.offset import over

    both = over(before, after)
    return MachineClock(
        machine=machine.name,
        site=machine.site,
        here=machine.here,
        offset_ns=both.offset_ns,
        bound_ns=both.bound_ns,
        start_offset_ns=before.offset_ns,
        round_trip_ns=both.round_trip_ns,
    )
