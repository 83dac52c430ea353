"""During the load: planned faults act at their times, in order for each service, and abort_if ends the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve
from tests.results import readings
from tests.servers import wait_until

from svload.drive.share.timeline import Timeline
from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.events import Event
from svload.model.faults import Fault
from svload.model.study import CaseConfig, ServiceSpec
from svload.run.aborting import Watch, abort_of, first_held
from svload.run.planned import PlannedFaults, live_limits
from svload.run.trial import TrialRun
from svload.study import load_study, resolve
from svload.watch import monitored_names

MS, S = 1_000_000, 1_000_000_000
WEB = ServiceSpec(name="web", kit="command", options={"replicas": 2})
SERVICES = (WEB, ServiceSpec(name="db", kit="command"))


@dataclass
class Hands:
    """Records what a lab is asked; a stop of `slow` lasts until it is released, one of `broken` fails."""

    asked: list[str] = field(default_factory=list)
    done: list[tuple[str, str, str]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    slow: str = ""
    broken: str = ""

    def act(self, do: str, server: str, part: str, limits: dict[str, float]) -> dict[str, float]:
        self.asked.append(server)
        if server == self.slow and do == "stop":
            assert self.let_go.wait(HANG_S)
        if server == self.broken:
            raise fail("agent-refused", reason="it cannot", hint="")
        self.done.append((do, server, part))
        return dict(limits)


def planned(hands: Hands, *faults: Fault, ramp_ns: int = 0) -> PlannedFaults:
    lab: Any = SimpleNamespace(faults=hands, facts=lambda: {"web": "facts of web", "db": "facts of db"})
    sampler: Any = SimpleNamespace(renew=lambda facts: hands.done.append(("renew", facts, "")))
    return PlannedFaults(lab, sampler, SERVICES, faults, ramp_ns)


def played(made: PlannedFaults, until: Callable[[], object]) -> int:
    """Let the faults act until this holds; return the moment at which they began."""
    began = time.monotonic_ns()
    made.begin(began)
    wait_until(until)
    made.finish()
    return began


def fault(kind: Any, target: str, at_ms: int, **more: Any) -> Fault:
    return Fault(place=0, kind=kind, target=target, at_ns=at_ms * MS, **more)


def test_each_is_done_at_its_moment_on_all_that_its_target_names() -> None:
    hands = Hands()
    stop = fault("stop", "web", 20, lasts_ns=20 * MS)
    made = planned(hands, stop, fault("kill", "db.part", 10), ramp_ns=10 * MS)
    began = played(made, lambda: len(hands.done) == 6)
    assert ("kill", "db", "part") in hands.done, "beside the other service: before or after it"
    assert [one for one in hands.done if one[1] != "db"] == [
        ("stop", "web[1]", ""), ("stop", "web[2]", ""), ("start", "web[1]", ""), ("start", "web[2]", ""),
        ("renew", "facts of web", ""),
    ]  # fmt: skip
    events = made.events(began)
    assert [(one.do, one.planned_s) for one in events] == [("kill", 0.02), ("stop", 0.03), ("start", 0.05)]
    assert all(one.begun_s >= one.planned_s and one.done_s >= one.begun_s for one in events)
    assert sorted(event.data["do"] for event in made.news()) == ["kill", "start", "stop"]
    assert made.news() == []
    assert made.error is None


def test_an_act_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.run.planned.ENDED_WITHIN_S", 0.1)
    hands = Hands(slow="web[1]")
    made = planned(hands, fault("stop", "web[1]", 1))
    played(made, lambda: hands.asked)
    hands.let_go.set()
    assert "web" in str(made.error) and "not done 0.1 s after the load" in str(made.error)


def test_a_slow_end_of_one_service_delays_no_other() -> None:
    hands = Hands(slow="web[1]")
    pause = fault("pause", "web[2]", 2, lasts_ns=MS)
    made = planned(hands, fault("stop", "web[1]", 1), pause, fault("stop", "db", 30))
    made.begin(time.monotonic_ns())
    wait_until(lambda: ("stop", "db", "") in hands.done)
    assert hands.done == [("stop", "db", "")], "what is done to one service is done in order"
    hands.let_go.set()
    wait_until(lambda: len(hands.done) == 4)
    made.finish()


def test_what_is_not_due_when_the_load_ends_is_not_begun() -> None:
    hands = Hands()
    made = planned(hands, fault("stop", "web[1]", 1), fault("start", "web[1]", 600_000))
    stop, start = made.events(played(made, lambda: hands.done))
    assert (stop.disturbs, start.begun_s, start.done_s) == (True, None, None)
    assert "when the load had ended" in start.sentence


@pytest.mark.parametrize("broken", ["web[1]", "db"])
def test_what_cannot_be_done_is_kept_and_its_service_left_alone(broken: str) -> None:
    hands = Hands(broken=broken)
    made = planned(hands, fault("stop", broken, 1), fault("start", broken, 2))
    played(made, lambda: made.error)
    assert isinstance(made.error, SvloadError)
    assert "it cannot" in str(made.error)
    assert hands.done == []


def test_groups_are_made_open_to_all_limits_that_some_case_changes() -> None:
    """Parts have their own limits, and links belong to no group."""
    both = fault("limit", "web[2]", 1, limits={"cpus": 1.0, "link_rate_bytes_per_s": 1e6})
    part = fault("limit", "db.part", 1, limits={"disk_read_bytes_per_s": 1e6})
    link = fault("limit", "front", 1, limits={"link_latency_s": 0.1})
    others = (fault("limit", "web", 1, limits={"pids": 5}), fault("stop", "db", 1))
    configs: Any = [SimpleNamespace(faults=(both, part, link)), SimpleNamespace(faults=others)]
    assert live_limits(configs) == {"web": ("cpus", "pids"), "db.part": ("disk_read_bytes_per_s",)}
    assert live_limits([]) == {}


STUDY = """
name: s
lab: {app: {kit: truth}}
traffic: {users: {executor: constant-vus, vus: 2, request: "GET http://app/"}}
measure: {duration: 1s}
abort_if: ["app.fds > 90", "app.throttled > 10 %"]
"""


@pytest.fixture
def config(tmp_path: Path) -> CaseConfig:
    (tmp_path / "study.yaml").write_text(STUDY)
    lock = load_study(tmp_path, monitored=monitored_names)
    return resolve(lock, lock.cases[0])


def table(fds: float, throttled: float) -> dict[str, tuple[str, Any]]:
    """Return readings at 10 and 14 s."""
    held = "throttled_seconds_total"
    rows = [(10, "fds", 3.0), (14, "fds", fds), (10, held, 7.0), (14, held, 7.0 + throttled)]
    return readings(*((at * S, "app", "process", "", metric, value) for at, metric, value in rows))


@pytest.mark.parametrize(
    ("read", "held"),
    [
        (readings(), None),
        (table(90, 0.3), None),
        (table(91, 0.3), ("app.fds > 90", "91")),
        (table(3, 0.8), ("app.throttled > 10 %", "20 %")),
        (table(99, 0.8), ("app.fds > 90", "99")),
    ],
    ids=["nothing read", "none", "the first", "the second", "both"],
)
def test_the_first_that_holds(config: CaseConfig, read: Any, held: tuple[str, str] | None) -> None:
    assert first_held(config, read, 10 * S, 15 * S) == held


def test_it_is_asked_once_a_second_of_the_last_five(config: CaseConfig) -> None:
    asked: list[tuple[int, int]] = []

    def readings(from_ns: int, to_ns: int) -> dict[str, tuple[str, Any]]:
        asked.append((from_ns // S, to_ns // S))
        return table(99, 0)

    watch = Watch(config, readings)
    found = [watch.held(9 * S, round(at * S)) for at in (14, 14.5, 15, 20)]
    assert asked == [(9, 14), (10, 15), (15, 20)]
    assert found[1] == {}, "it was asked just now"
    assert found[2] == {"abort": ["app.fds > 90", "99"]}
    assert found[3] == {}, "the readings are too old"
    none = Watch(evolve(config, abort_ifs=()), readings)
    assert none.held(0, 99 * S) == {}
    assert len(asked) == 3


def test_the_event_ends_the_run() -> None:
    event = Event("progress", {"trial": "TC1.r1", "offset_s": 12.0, "abort": ["app.fds > 90", "91"]})
    error = abort_of(event)
    assert error.exit_code is ExitCode.THRESHOLD_FAILED
    assert "app.fds > 90 was true in TC1.r1, 12 s into its load (91 over the last 5 s)" in str(error)
    assert abort_of(Event("progress", {"offset_s": 12.0})) is None
    assert abort_of(Event("notice", {"abort": ["x", "y"]})) is None


def report(ok: int, failed: int, p95_ms: float | None) -> dict[str, Any]:
    last = {"response_p95_ns": p95_ms and p95_ms * 1e6}
    return {"name": "users", "ok": ok, "failed": failed, "last": last}


CALM, FAILING = [(0, 0, 9.0), (100, 5, 9.0), (200, 10, 9.0)], [(0, 99, None), (0, 198, None), (0, 297, None)]


@pytest.mark.parametrize(
    ("that", "ramp_s", "reports", "held"),
    [
        ("error_rate > 10 %", 0, CALM, None),
        ("error_rate > 10 %", 0, [(0, 0, 9.0), (100, 20, 9.0), (200, 40, 9.0)], "16.67 %"),
        ("error_rate > 10 %", 0, [(0, 0, None), (0, 99, None)], None),  # a single second
        ("error_rate > 10 %", 0, FAILING, "100 %"),
        (
            "error_rate > 1 %",
            0,
            [(0, 0, 9.0), (99, 1, 9.0), (198, 2, 9.0)],
            None,
        ),  # at it, as 1 − 0.99 is not
        ("error_rate > 10 %", 2, FAILING, None),  # one second after the ramp
        ("error_rate > 10 %", 2, [*FAILING, (0, 396, None)], "100 %"),
        ("response.p95 > 100 ms", 0, [(0, 0, 9.0), (9, 0, 250.0), (20, 0, 90.0)], None),
        ("response.p95 > 100 ms", 0, [(0, 0, 9.0), (9, 0, 250.0), (20, 0, 120.0)], "120 ms"),
        ("response.p95 > 100 ms", 0, [(0, 0, None), (0, 0, None), (0, 0, None)], None),
        ("throughput < 50/s", 0, [(0, 0, 9.0), (60, 0, 9.0), (120, 0, 9.0)], None),
        ("throughput < 50/s", 0, [(0, 0, 9.0), (40, 0, 9.0), (80, 0, 9.0)], "40/s"),
        ("failed > 3", 0, [(0, 0, 9.0), (40, 4, 9.0), (80, 4, 9.0)], "4"),
        ("failed > 3", 0, [(0, 9, 9.0), (40, 9, 9.0), (80, 9, 9.0)], None),  # before these seconds
    ],
)
def test_what_clients_see_ends_a_run(
    config: CaseConfig, that: str, ramp_s: int, reports: Any, held: str | None
) -> None:
    watched = evolve(config, abort_ifs=(that,))
    watch = Watch(watched, lambda from_ns, to_ns: table(0, 0), ramp_s * S)
    found: dict[str, object] = {}
    for second, one in enumerate(reports, 1):
        found = found or watch.held(0, (second + 10) * S, [report(*one)], second * S)
    assert found == ({"abort": [that, held]} if held else {})


@pytest.mark.parametrize(("turns", "held"), [(True, True), (False, False)])
def test_turns_ramp_in_the_warm_up(config: CaseConfig, monkeypatch: Any, turns: bool, held: bool) -> None:
    monkeypatch.setattr("svload.run.aborting.EVERY_S", 0.0)
    ramped = evolve(config.groups[0], executor__ramp_up_ns=60 * S)
    asked = evolve(config, abort_ifs=("error_rate > 10 %",), groups=(ramped,))
    emitted: list[Event] = []
    lab = SimpleNamespace(deaths=list)
    bench: Any = SimpleNamespace(lab=lab, latest=lambda *_: table(0, 0), busy_cores=dict, emit=emitted.append)
    plan: Any = SimpleNamespace(trial="TC1.r1")
    trial = TrialRun(bench, plan, asked, Any, 1, None)  # type: ignore[arg-type]
    trial._journal = SimpleNamespace(write=lambda event: None)  # type: ignore[assignment]
    turned = Timeline(0, 9 * S, turns_ns=((0, 9 * S),))
    progress = trial.listener(turned if turns else Timeline(60 * S, 9 * S))
    for at in (1, 4):
        progress({"users": {"offset_ns": at * S, "groups": [report(0, 99 * at, None)]}})
    assert ("abort" in emitted[-1].data) is held
