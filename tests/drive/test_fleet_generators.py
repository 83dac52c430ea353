"""A load by several machines: groups, common start, loss of one; fakes, because faults must be exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.drive.fleet_generators import START_MARGIN_NS, CommonStart, FleetGenerators, seats
from svload.drive.generators import Generators
from svload.host.clock.offset import Offset
from svload.model.errors import SvloadError, fail
from svload.model.messages import Notice

AHEAD_NS = 5_000_000_000


class FakeAgent:
    """Takes orders like a machine's agent; its generators end when they are told to begin."""

    python = "python"

    def __init__(self, name: str, fails: str = "") -> None:
        self.name, self.fails = name, fails
        self.told: list[dict[str, Any]] = []
        self.started_at: list[int] = []
        self.stopped = False
        self.dir = Path("/there") / name
        self.files: dict[str, bytes] = {}
        self._notices: list[Notice] = []

    def prepare(self, actions: Sequence[Any], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        if self.fails == "prepare":
            raise fail("agent-lost", reason=f"{self.name} is lost")
        self.told += [action.message for action in actions if action.do == "tell"]
        return [{} for _ in actions]

    def put(self, path: Any, data: bytes, mode: int = 0o644, *, temporary: bool = False) -> None:
        self.files[str(path)] = data

    def collect(self, path: Any) -> bytes:
        return f"{self.name} {path}".encode()

    def start_at(self, children: Sequence[str], at_ns: int) -> None:
        self.started_at.append(at_ns)
        if self.fails == "load":
            self._notices = [notice(children[0], "exit", {"exit": -9, "role": "generator"})]
        elif self.fails == "late":
            late = {"reason": "share.start_at_ns lies 63 ms in the past"}
            error = {"error": {"code": "generator-failed", "details": late}}
            self._notices = [notice(child, "line", error) for child in children]
        elif self.fails != "silent":
            done = {"done": {"summary": {"groups": []}, "tables": "there", "start_at_ns": at_ns}}
            self._notices = [notice(child, "line", done) for child in children]

    def status(self, since: int, wait_s: float = 0.0) -> tuple[int, list[Notice]]:
        if since < 0:
            return 0, []
        time.sleep(0.005)
        found, self._notices = self._notices, []
        return since + len(found), found

    def stop(self, children: Any = None, grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        self.stopped = True
        self._notices = [notice(child, "exit", {"exit": 0, "role": "generator"}) for child in children or ()]
        return {}


def notice(child: str, kind: Any, data: dict[str, Any], at_ns: int = 0) -> Notice:
    return Notice(number=0, child=child, kind=kind, monotonic_ns=at_ns, data=data)


class FakeMachine:
    here, pid = False, 1

    def __init__(self, name: str, cores: int = 1, fails: str = "") -> None:
        self.name, self.site = name, "brno"
        self.agent = FakeAgent(name, fails)
        self.cores = SimpleNamespace(load=tuple(range(cores)), servers=(), pinned=False)

    def offset(self) -> Offset:
        if self.agent.fails == "clock":
            raise ValueError("a clock was set meanwhile")
        return Offset(AHEAD_NS, 1_000, time.monotonic_ns(), 2_000)


def share(name: str, tables: tuple[str, ...] = ()) -> Any:
    spec = SimpleNamespace(end_ns=1_000_000)
    return SimpleNamespace(name=name, spec=spec, tables=tables, values={})


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("svload.drive.generators.plain", lambda spec: {})
    return lambda *machines: FleetGenerators(FakeAgent("here"), machines)


def test_machines_in_turn_then_their_further_cores() -> None:
    assert seats([1, 1, 1]) == (0, 1, 2)
    assert seats([2, 1, 3]) == (0, 1, 2, 0, 2, 2)
    assert seats([]) == ()


def test_each_machine_begins_by_its_own_clock_and_its_tables_come_here(fleet: Any, tmp_path: Path) -> None:
    machines = [FakeMachine("h1"), FakeMachine("h2")]
    rows = tmp_path / "objects.csv"
    rows.write_text("path\n/a\n")
    before = time.monotonic_ns()
    made = fleet(*machines)
    load = made.load([share("a", ("objects",)), share("b")], {"objects": rows}, tmp_path)
    assert load.start_at_ns - START_MARGIN_NS >= before
    assert [machine.agent.started_at for machine in machines] == [[load.start_at_ns + AHEAD_NS]] * 2
    found = [(result.share.name, result.machine, result.site) for result in load.results]
    assert found == [("a", "h1", "brno"), ("b", "h2", "brno")]
    assert load.results[1].tables.read_bytes() == b"h2 there"
    assert list(machines[0].agent.files.values()) == [b"path\n/a\n"]
    assert machines[0].agent.told[0]["prepare"]["tables"]["objects"] in machines[0].agent.files
    assert {clock.machine: clock.offset_ns for clock in made.clocks} == {"h1": AHEAD_NS, "h2": AHEAD_NS}
    made.load([share("a", ("objects",))], {"objects": rows}, tmp_path)
    assert len(machines[0].agent.files) == 1, "a table is put there once"


@pytest.mark.parametrize("fails", ["prepare", "load"])
def test_losing_a_machine_stops_the_whole_load(fleet: Any, tmp_path: Path, fails: str) -> None:
    well, lost = FakeMachine("h1", fails="silent"), FakeMachine("h2", fails=fails)
    with pytest.raises(SvloadError) as caught:
        fleet(well, lost).load([share("a"), share("b")], {}, tmp_path)
    assert caught.value.problems[0].code == {"prepare": "agent-lost", "load": "generator-failed"}[fails]
    assert "another machine" not in str(caught.value)
    if fails == "load":
        assert well.agent.stopped or not well.agent.started_at, "it may hear of the loss before it begins"
    else:
        assert not well.agent.started_at, "nobody began"


@pytest.mark.parametrize("in_fleet", [False, True])
def test_after_a_start_that_came_too_late_the_next_one_has_a_longer_margin(
    fleet: Any, tmp_path: Path, in_fleet: bool
) -> None:
    machine = FakeMachine("h1", fails="late")
    agent: Any = machine.agent
    made = fleet(machine) if in_fleet else Generators(agent, tmp_path, None)
    first_ns = START_MARGIN_NS if in_fleet else Generators.margin_ns
    with pytest.raises(SvloadError, match="in the past"):
        made.load([share("a"), share("b")], {}, tmp_path)
    agent.fails = ""
    before = time.monotonic_ns()
    load = made.load([share("a"), share("b")], {}, tmp_path)
    assert load.start_at_ns - 4 * first_ns >= before


@pytest.mark.usefixtures("fleet")
def test_a_load_stopped_as_it_ends_leaves_no_ended_generator_for_the_next(tmp_path: Path) -> None:
    agent: Any = FakeAgent("here")
    generators = Generators(agent, tmp_path, None)
    load = generators.load([share("a")], {}, tmp_path, should_stop=lambda: True)
    assert [result.share.name for result in load.results] == ["a"]
    assert agent.stopped and generators.children(1) == ["generator.1.0"]


def test_a_start_is_common_or_not_at_all() -> None:
    begun: list[int] = []
    start = CommonStart(2, START_MARGIN_NS, begun.append)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(start.wait) for _ in range(2)]
        assert [wait.result(HANG_S) for wait in waits] == [start.at_ns] * 2
    assert begun == [start.at_ns]
    broken = CommonStart(2, START_MARGIN_NS, begun.append)
    broken.give_up()
    with pytest.raises(SvloadError):
        broken.wait()


def test_nothing_goes_on_after_a_load_that_failed_here(fleet: Any, tmp_path: Path) -> None:
    def fails(offset_ns: int) -> None:
        raise fail("lab-failed", reason="here", hint="")

    machines = [FakeMachine(name, fails="silent") for name in ("h1", "h2")]
    with pytest.raises(SvloadError, match="here"):
        fleet(*machines).load([share("a"), share("b")], {}, tmp_path, meanwhile=fails)
    assert all(machine.agent.stopped or not machine.agent.started_at for machine in machines)
    assert not [one for one in threading.enumerate() if one.name.startswith("svload-load-")]


def test_a_server_that_dies_before_the_start_died_at_0(
    fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, asked = FakeMachine("h1"), threading.Event()
    made, prepare, offsets = fleet(machine), machine.agent.prepare, list[int]()
    exits = notice("web", "exit", {"role": "server", "exit": -9}, time.monotonic_ns())
    monkeypatch.setattr(made._agent, "_notices", [exits])

    def may_end(service: str, offset_ns: int) -> bool:
        offsets.append(offset_ns)
        asked.set()
        return True

    def slow(actions: Sequence[Any], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        assert asked.wait(HANG_S)
        return prepare(actions)

    monkeypatch.setattr(machine.agent, "prepare", slow)
    made.load([share("a")], {}, tmp_path, may_end=may_end)
    assert offsets == [0]


def test_a_clock_that_is_set_during_its_measurement_fails_the_load(fleet: Any, tmp_path: Path) -> None:
    with pytest.raises(SvloadError, match="the clock of h1: a clock was set meanwhile"):
        fleet(FakeMachine("h1", fails="clock")).load([share("a")], {}, tmp_path)


def test_a_stopped_load_has_no_clocks_of_an_earlier_one(fleet: Any, tmp_path: Path) -> None:
    machine = FakeMachine("h1")
    made = fleet(machine)
    made.load([share("a")], {}, tmp_path)
    assert made.clocks
    machine.agent.fails = "silent"
    assert made.load([share("a")], {}, tmp_path, should_stop=lambda: True).stopped
    assert made.clocks == ()
