"""abort_if: checked once a second on the last readings; the first criterion that holds ends the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import readings

from svload.drive.share.timeline import Timeline
from svload.model.errors import ExitCode
from svload.model.events import Event
from svload.model.study import CaseConfig, Lock
from svload.run.aborting import Watch, abort_of, first_held
from svload.run.trial import TrialRun
from svload.study import load_study, resolve
from svload.watch import monitored_names

SECOND = 1_000_000_000
STUDY = """
name: s
lab: {app: {kit: truth}}
traffic: {users: {executor: constant-vus, vus: 2, request: "GET http://app/"}}
measure: {duration: 1s}
abort_if: ["app.fds > 90", "app.throttled > 10 %"]
"""


@pytest.fixture
def config(tmp_path: Any) -> CaseConfig:
    (tmp_path / "study.yaml").write_text(STUDY)
    lock: Lock = load_study(tmp_path, monitored=monitored_names)
    return resolve(lock, lock.cases[0])


def table(fds: float, throttled: float) -> dict[str, tuple[str, Any]]:
    """Return readings at 10 and 14 s."""
    held = "throttled_seconds_total"
    rows = [(10, "fds", 3.0), (14, "fds", fds), (10, held, 7.0), (14, held, 7.0 + throttled)]
    return readings(*((at * SECOND, "app", "process", "", metric, value) for at, metric, value in rows))


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
    assert first_held(config, read, 10 * SECOND, 15 * SECOND) == held


def test_it_is_asked_once_a_second_of_the_last_five(config: CaseConfig) -> None:
    asked: list[tuple[int, int]] = []

    def readings(from_ns: int, to_ns: int) -> dict[str, tuple[str, Any]]:
        asked.append((from_ns // SECOND, to_ns // SECOND))
        return table(99, 0)

    watch = Watch(config, readings)
    found = [watch.held(9 * SECOND, round(at * SECOND)) for at in (14, 14.5, 15, 20)]
    assert asked == [(9, 14), (10, 15), (15, 20)]
    assert found[1] == {}, "it was asked just now"
    assert found[2] == {"abort": ["app.fds > 90", "99"]}
    assert found[3] == {}, "the readings are too old"
    none = Watch(evolve(config, abort_ifs=()), readings)
    assert none.held(0, 99 * SECOND) == {}
    assert len(asked) == 3


def test_the_event_ends_the_run() -> None:
    event = Event("progress", {"trial": "TC1.r1", "offset_s": 12.0, "abort": ["app.fds > 90", "91"]})
    error = abort_of(event)
    assert error.exit_code is ExitCode.THRESHOLD_FAILED
    assert "app.fds > 90 was true in TC1.r1, 12 s into its load (91 over the last 5 s)" in str(error)
    assert abort_of(Event("progress", {"offset_s": 12.0})) is None
    assert abort_of(Event("notice", {"abort": ["x", "y"]})) is None


def watching(config: CaseConfig, that: str, ramp_ns: int = 0) -> Watch:
    return Watch(evolve(config, abort_ifs=(that,)), lambda from_ns, to_ns: table(0, 0), ramp_ns)


def report(ok: int, failed: int, p95_ms: float | None) -> dict[str, Any]:
    last = {"response_p95_ns": p95_ms and p95_ms * 1e6}
    return {"name": "users", "ok": ok, "failed": failed, "last": last}


@pytest.mark.parametrize(
    ("that", "reports", "held"),
    [
        ("error_rate > 10 %", [(0, 0, 9.0), (100, 5, 9.0), (200, 10, 9.0)], None),
        ("error_rate > 10 %", [(0, 0, 9.0), (100, 20, 9.0), (200, 40, 9.0)], "16.67 %"),
        ("response.p95 > 100 ms", [(0, 0, 9.0), (9, 0, 250.0), (20, 0, 90.0)], None),
        ("response.p95 > 100 ms", [(0, 0, 9.0), (9, 0, 250.0), (20, 0, 120.0)], "120 ms"),
        ("response.p95 > 100 ms", [(0, 0, None), (0, 0, None), (0, 0, None)], None),
        ("throughput < 50/s", [(0, 0, 9.0), (60, 0, 9.0), (120, 0, 9.0)], None),
        ("throughput < 50/s", [(0, 0, 9.0), (40, 0, 9.0), (80, 0, 9.0)], "40/s"),
        ("failed > 3", [(0, 0, 9.0), (40, 4, 9.0), (80, 4, 9.0)], "4"),
        ("failed > 3", [(0, 9, 9.0), (40, 9, 9.0), (80, 9, 9.0)], None),  # before these seconds
    ],
)
def test_what_clients_see_ends_a_run(config: CaseConfig, that: str, reports: Any, held: str | None) -> None:
    watch = watching(config, that)
    found: dict[str, object] = {}
    for second, one in enumerate(reports, 1):
        at_ns = second * SECOND
        found = found or watch.held(0, at_ns + 10 * SECOND, [report(*one)], at_ns)
    assert found == ({"abort": [that, held]} if held else {})


def test_a_single_second_and_a_ramp_end_nothing(config: CaseConfig) -> None:
    watch = watching(config, "error_rate > 10 %")
    for at, failed in ((1, 0), (2, 99)):
        assert watch.held(0, at * SECOND, [report(0, failed, None)], at * SECOND) == {}
    watch = watching(config, "error_rate > 10 %", 4 * SECOND)
    found = [watch.held(0, at * SECOND, [report(0, 99 * at, None)], at * SECOND) for at in range(1, 7)]
    assert [one != {} for one in found] == [False] * 5 + [True], "two seconds after the ramp"


@pytest.mark.parametrize(("turns", "held"), [(True, True), (False, False)])
def test_turns_ramp_in_the_warm_up(config: CaseConfig, monkeypatch: Any, turns: bool, held: bool) -> None:
    monkeypatch.setattr("svload.run.aborting.EVERY_S", 0.0)
    ramped = evolve(config.groups[0], executor__ramp_up_ns=60 * SECOND)
    asked = evolve(config, abort_ifs=("error_rate > 10 %",), groups=(ramped,))
    emitted: list[Event] = []
    lab = SimpleNamespace(deaths=list)
    bench: Any = SimpleNamespace(lab=lab, latest=lambda *_: table(0, 0), busy_cores=dict, emit=emitted.append)
    plan: Any = SimpleNamespace(trial="TC1.r1")
    trial = TrialRun(bench, plan, asked, Any, 1, None)  # type: ignore[arg-type]
    trial._journal = SimpleNamespace(write=lambda event: None)  # type: ignore[assignment]
    turned = Timeline(0, 9 * SECOND, turns_ns=((0, 9 * SECOND),))
    progress = trial.listener(turned if turns else Timeline(60 * SECOND, 9 * SECOND))
    for at in (1, 4):
        progress({"users": {"offset_ns": at * SECOND, "groups": [report(0, 99 * at, None)]}})
    assert ("abort" in emitted[-1].data) is held
