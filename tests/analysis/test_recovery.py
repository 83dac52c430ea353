"""Recovery times after planned faults, and which checks take the fault into account."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, check, with_counter, with_group
from tests.evolve import evolve

from svload.analysis.criteria import criterion_of, outcome
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.measures import counter_deltas
from svload.analysis.recovery import fault_results, recovery_measures
from svload.analysis.view import GroupView, Window
from svload.model.clocks import MachineClock
from svload.model.columns import HISTOGRAM_METRICS, bucket
from svload.model.faults import ActKind, FaultEvent
from svload.model.results import Estimate
from svload.store import TrialData

MS, WIDTH_NS, SIZE, DUE = 1_000_000, 10_000_000, 1000, 10
"""A window of ten seconds in intervals of 10 ms with ten requests due in each: a cell is two intervals."""


def event(
    do: ActKind, begun_s: float | None, done_s: float | None = None, target: str = "web[2]"
) -> FaultEvent:
    done_s = begun_s if done_s is None else done_s
    return FaultEvent(place=0, do=do, target=target, planned_s=begun_s or 1.0, begun_s=begun_s, done_s=done_s)


def load(
    *spells: tuple[float, float, float, float], shape: str = "constant", due: Any = DUE, first: int = 0
) -> GroupView:
    """Return a group of 10 ms, all ok, except for (begin, end, response in ms, share ok); `due`: requests in
    each interval, or in every one; `first`: its begin."""
    response = np.full(SIZE, 10.0)
    due = np.full(SIZE, due)
    ok = due.copy()
    for begin, end, took_ms, share in spells:
        mine = slice(round(begin * 100) - first, round(end * 100) - first)
        response[mine], ok[mine] = took_ms, np.round(due[mine] * share)
    at = np.flatnonzero(ok)
    cells = {"due": due, "ok": ok}
    histograms = {
        "interval": at + first,
        "metric": np.full(len(at), HISTOGRAM_METRICS.index("response")),
        "bucket": np.array([bucket(round(response[one] * MS)) for one in at], dtype=np.int64),
        "count": ok[at],
    }
    spec: Any = SimpleNamespace(name="users", executor=SimpleNamespace(shape=shape, model="open loop"))
    return GroupView(0, None, spec, Window(first, first + SIZE, WIDTH_NS), cells, None, histograms)


def found(group: GroupView, *events: FaultEvent) -> dict[str, Estimate]:
    trial: Any = SimpleNamespace(lab=SimpleNamespace(faults=events))
    return recovery_measures(trial, group)


def test_without_a_fault_there_is_no_such_number() -> None:
    assert found(load()) == {}
    assert found(load(), event("stop", None)) == {}, "the load had ended before"


OUT = (4, 4.2, 10, 0.5)


@pytest.mark.parametrize(
    ("spells", "seconds"),
    [
        ([], 0.0),
        ([(4, 4.5, 10, 0.0)], 0.5),
        ([(4, 4.5, 10, 0.9)], 0.5),
        ([(4, 5.2, 30, 1.0)], 1.2),
        ([(4, 5.2, 10.8, 1.0)], 0.0),
        ([(4, 5.2, 11.2, 1.0)], 1.2),
        ([OUT, (4.3, 4.34, 10, 0.5)], 0.2),
        ([OUT, (4.26, 4.4, 10, 0.5)], 0.2),
        ([OUT, (4.24, 4.4, 10, 0.5)], 0.4),
        # 12 and 17 of the 290 later cells
        ([OUT, (6, 6.24, 10, 0.5)], 0.2),
        ([OUT, (6, 6.34, 10, 0.5)], 2.34),
        ([OUT, (7.0, 9.5, 40, 1.0)], 5.5),
        # one cell in thirty is slow before the fault and after it: that is its normal level
        ([(at, at + 0.02, 14.0, 1.0) for at in np.arange(0.1, 10, 0.6)], 0.0),
    ],
)
def test_the_load_is_back_where_success_and_median_are_for_good(spells: Any, seconds: float) -> None:
    value = found(load(*spells), event("stop", 4.0))["recovery"].value
    assert value == pytest.approx(seconds, abs=0.021)


def test_a_service_that_never_recovers_has_no_recovery_time(closed: Bench) -> None:
    got = found(load((4, 10, 10, 0.5)), event("kill", 4.0))["recovery"]
    assert (got.value, got.why, got.low) == (None, "not recovered", pytest.approx(6.0))
    config = closed.config(closed.trial("TC1.r1"))
    group = config.main_group
    for text, held in (("recovery < 5 s", False), ("recovery < 20 s", None), ("recovery > 5 s", None)):
        assert outcome(criterion_of(f"{group}.{text}", config), got) is held


@pytest.mark.parametrize(
    ("spells", "value", "why"),
    [([], 0.0, ""), ([(6, 10, 10, 0.0)], None, "not recovered"), ([(6, 6.9, 10, 0.0)], 1.0, "")],
)
def test_users_in_step_leave_no_cell_without_a_request(spells: Any, value: float | None, why: str) -> None:
    """A hundred requests once a second: a cell of 200 ms in which nothing is due shows no level."""
    got = found(load(*spells, due=np.where(np.arange(SIZE) % 100 == 50, 100, 0)), event("kill", 6.0))[
        "recovery"
    ]
    assert (got.value, got.why) == (value, why)


def test_of_several_faults_it_is_the_slowest_each_up_to_the_next() -> None:
    group = load((3, 3.2, 10, 0.0), (6, 7.1, 10, 0.5))
    events = (event("stop", 3.0), event("start", 4.0), event("kill", 6.0), event("start", 7.0))
    assert found(group, *events)["recovery"].value == pytest.approx(1.1, abs=0.021)
    trial: Any = SimpleNamespace(lab=SimpleNamespace(faults=events))
    results = fault_results(trial, [group])
    assert [bool(one.recovery) for one in results] == [True, False, True, False]
    assert results[0].recovery["users"].value == pytest.approx(0.2, abs=0.021)
    late = found(load((3, 6.5, 10, 0.0)), *events)["recovery"]
    assert late.why == "not recovered", "it was not back before the next fault"


def test_too_little_before_or_after_gives_no_level() -> None:
    for at_s in (0.05, 0.09, 9.955, 9.97, 11.0):
        assert found(load(), event("stop", at_s))["recovery"].why == "too few"
    for at_s in (0.1, 9.94):
        assert found(load(), event("stop", at_s))["recovery"].value == 0.0
    stop = event("stop", 4.0)
    assert found(load(due=0), stop)["recovery"].why == "too few"
    assert found(load(shape="ramping"), stop)["recovery"].why == "in stages"
    assert found(load(due=1), stop)["recovery"].n == 600 // 20, "a cell holds twenty requests"
    later = found(load((6, 6.5, 10, 0.0), first=200), event("stop", 6.0))["recovery"]
    assert later.value == pytest.approx(0.5, abs=0.021)


def test_errors_are_those_due_until_the_fault_was_taken_back() -> None:
    group = load((4, 5, 10, 0.5), (8, 9, 10, 0.0))
    got = found(group, event("stop", 4.0), event("start", 5.9, 5.995), event("start", 4.5, target="other"))
    assert got["fault_errors"].value == 500
    assert got["fault_error_rate"].value == pytest.approx(0.25)
    last = found(group, event("kill", 8.0))
    assert (last["fault_errors"].value, last["fault_error_rate"].value) == (1000, 0.5), "to the end"


# in a whole trial


def faulty(trial: TrialData, service: str, at_s: float = 0.6) -> TrialData:
    events = (event("stop", at_s, target=service), event("start", at_s + 0.2, target=service))
    return evolve(trial, lab__faults=events)


def test_counters_of_a_server_that_was_ended_are_held_against_nothing(closed: Bench) -> None:
    whole = closed.trial("TC1.r1")
    config = closed.config(whole)
    anew = with_counter(whole, "cache", "requests", lambda delta: delta / 3)
    assert check(anew, config, "reconciliation").grade == "REFUSED"
    assert check(faulty(anew, "cache"), config, "reconciliation").grade == "VALID"
    assert check(faulty(anew, "other"), config, "reconciliation").grade == "REFUSED"
    assert counter_deltas(faulty(anew, "cache"), "cache") == {}
    assert "were lost with cache" in check(faulty(anew, "cache"), config, "manipulation").sentence
    assert check(faulty(anew, "cache"), config, "manipulation").grade == "VALID"


def test_an_end_of_the_server_may_cost_each_kept_connection_once(closed: Bench) -> None:
    whole = closed.trial("TC1.r1")
    config = closed.config(whole)
    name = next(group.name for group in config.groups if group.connection == "keep-alive")
    slots = next(one for one in whole.summary.groups if one.name == name).connections_opened
    opened = with_group(whole, name, connections_opened=2 * slots, begun=30 * slots, due=30 * slots)
    before, after = (check(one, config, "manipulation") for one in (opened, faulty(opened, "cache")))
    assert "onnections were used not as planned" in before.sentence
    assert "onnections were used as planned" in after.sentence


@pytest.mark.parametrize(("bound_ns", "grade"), [(900_000, "VALID"), (1_100_000, "REFUSED")])
def test_a_fault_is_dated_by_a_clock_that_is_known_within_1_ms(
    closed: Bench, bound_ns: int, grade: str
) -> None:
    trial = faulty(closed.trial("TC1.r1"), "cache")
    clock = MachineClock(machine="far", offset_ns=0, bound_ns=bound_ns, start_offset_ns=0, round_trip_ns=1)
    far = evolve(trial, lab__conditions__clocks=(clock,))
    found = check(far, closed.config(trial), "clocks")
    assert (found.grade, found.on("background.recovery")) == (grade, grade)


def test_a_trial_with_a_fault_says_so_wherever_it_is_reported(closed: Bench) -> None:
    trials = [faulty(trial, "cache") if trial.case == "TC1" else trial for trial in closed.trials()]
    found = judge_run(closed.lock, closed.configs, trials)
    [finding] = [one for one in found.findings if one.kind == "fault"]
    assert finding.sentence.startswith(
        "In TC1, planned by the study: cache was stopped at 600 ms, cache was started again at 800 ms."
    )
    assert finding.evidence == ("trials/TC1.r1", "trials/TC1.r2")
    results = {one.trial: one for one in found.trials}
    assert [one.what for one in results["TC1.r1"].faults] == ["cache was stopped", "cache was started again"]
    clean = judge_trial(closed.trial("TC1.r1"), closed.configs["TC1"])
    assert results["TC1.r1"].verdict.instrument == clean.verdict.instrument
