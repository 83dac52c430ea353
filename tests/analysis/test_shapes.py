"""Loads without a steady state, and an open loop's arrivals compared with an independent calculation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import (
    Bench,
    Planted,
    check,
    with_config,
    with_group,
    with_table,
    without_readings,
)
from tests.evolve import evolve

from svload.analysis import limits
from svload.analysis.arrivals import phase, planned_vu_ns, poisson_until
from svload.analysis.cases import case_result, threshold_results
from svload.analysis.criteria import criterion_of
from svload.analysis.judge import judge_trial, trial_cut
from svload.analysis.measures import ALL_STAGES
from svload.analysis.stages import stage_findings
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.executors import PerVuIterations, RampingArrivalRate, RampingVus, SharedIterations
from svload.model.results import Estimate, TrialResult
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.store import TrialData

S = 1_000_000_000
UP_AND_DOWN = (Stage(duration_ns=S // 2, target=12), Stage(duration_ns=S // 2, target=0))
HOLD = (Stage(duration_ns=0, target=12), Stage(duration_ns=S // 2, target=12))
ENDS = ("value", "low", "high")
UP_HOLD_DOWN = tuple(Stage(duration_ns=S // part, target=users) for part, users in ((4, 12), (2, 12), (4, 0)))


def with_stages(config: CaseConfig, stages: tuple[Stage, ...] = UP_AND_DOWN) -> CaseConfig:
    return with_config(config, "background", executor=RampingVus(stages=stages))


def alone(config: CaseConfig) -> CaseConfig:
    """Remove the probe, which waits for a ramp that no longer exists."""
    return evolve(config, groups=config.groups[:1])


def busy(trial: TrialData, config: CaseConfig, share: float) -> TrialData:
    """Let users of the background exist for this part of the planned time, and account for all of it."""
    group = next(one for one in config.groups if one.name == "background")
    active = round(share * planned_vu_ns(config, group, trial.summary.window_ns))
    none = dict.fromkeys(("think_ns", "lag_ns", "wait_ns"), 0)
    return with_group(trial, "background", active_ns=active, request_ns=active, **none)


def test_load_in_stages_has_percentiles_of_all_of_it_and_of_each_stage(closed: Bench) -> None:
    trial = closed.trial("TC0.r1")
    config = with_stages(closed.config(trial))
    judged = judge_trial(trial, config)
    metrics = judged.metrics
    plain = judge_trial(trial, closed.config(trial)).metrics
    for name in ("response.p50", "response.p99", "response.mean", "service.p95"):
        found = metrics[f"background.{name}"]
        assert found.value == pytest.approx(plain[f"background.{name}"].value, rel=0.2)
        assert found.reason == ALL_STAGES
    labels = [("0 → 12 users", False), ("12 → 0 users", False)]
    assert [(one.label, one.holds) for one in judged.stages] == labels
    up, down = judged.stages
    assert (up.from_s, up.to_s, down.from_s) == (0.0, 0.5, 0.5)
    both = up.metrics["response.p50"].n + down.metrics["response.p50"].n
    assert 0 < both <= metrics["background.response.p50"].n, "the trial lasts longer than its stages"
    (level,) = judge_trial(trial, with_stages(config, HOLD)).stages
    assert (level.label, level.holds) == ("12 users", True)
    assert metrics["probe.response.p50"].value is not None, "only the group in stages"


def test_load_in_stages_is_neither_cut_nor_called_unsteady(closed: Bench) -> None:
    trial = closed.trial("TC0.r1")
    config = with_stages(closed.config(trial))
    assert trial_cut(trial, config).group == "probe"
    assert trial_cut(trial, alone(config)).cut_ns == 0
    assert "in stages" in check(trial, alone(config), "warm-up").sentence
    assert "has a steady state" in check(trial, alone(config), "steadiness").sentence
    verdict = judge_trial(busy(trial, alone(config), 1.0), alone(config)).verdict
    assert verdict.server == "UNKNOWN"
    assert any("in stages" in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    ("share", "grade"), [(1.0, "VALID"), (1.01, "VALID"), (0.995, "WEAK"), (0.98, "REFUSED")]
)
def test_users_in_stages_are_held_to_the_line(closed: Bench, share: float, grade: str) -> None:
    trial = closed.trial("TC0.r1")
    config = alone(with_stages(closed.config(trial)))
    planted = busy(trial, config, share)
    assert check(planted, config, "accounting").grade == grade
    broken = with_group(planted, "background", request_ns=lambda value: round(value * 0.99))
    assert check(broken, config, "accounting").grade == "REFUSED"


def test_arrivals_in_stages_are_held_to_the_integral(open_loop: Bench) -> None:
    trial = open_loop.trial("TC0.r1")
    begun = trial.summary.groups[0].begun
    # 0 → 2 r → 0 in a second gives r requests; those begun are at a constant rate, so r is chosen to equal
    # them, or to exceed them.
    for factor, grade in ((1.0, "VALID"), (1.003, "WEAK"), (1.01, "REFUSED")):
        most = 2 * (begun * factor + 1)
        stages = tuple(evolve(stage, target=most * stage.target / 12) for stage in UP_AND_DOWN)
        executor = RampingArrivalRate(stages=stages, max_vus=99)
        config = alone(with_config(open_loop.config(trial), "background", executor=executor))
        assert check(trial, config, "accounting").grade == grade, factor


def test_work_that_is_done_is_measured_until_its_last_answer(closed: Bench) -> None:
    trial = closed.trial("TC0.r1")
    low, high = trial.summary.window_ns
    work = trial.summary.groups[0].begun
    config = alone(closed.config(trial))
    config = with_config(config, "background", executor=SharedIterations(vus=12, iterations=work))
    half = low + (high - low) // 2
    done = with_group(trial, "background", plan_done=lambda _: True, last_done_ns=lambda _: half)
    throughput = judge_trial(done, config).metrics["background.throughput"]
    cut = judge_trial(done, config).cut_ns
    assert throughput.n / throughput.value == pytest.approx((half - low - cut) / 1e9, rel=0.01)
    assert "iterations were made" in check(done, config, "accounting").sentence
    assert check(done, config, "accounting").grade == "VALID"
    assert "then the time was over" in check(trial, config, "accounting").sentence
    more = with_config(config, "background", executor=PerVuIterations(vus=12, iterations=work))
    assert check(done, more, "accounting").grade == "REFUSED", "a twelfth of them was made"
    assert "is measured completely" in trial_cut(trial, config).method


def believed(trial: TrialResult, slower: float = 1.0) -> TrialResult:
    """Remove all doubts of checks, since the load that was made was a steady one, and multiply the responses
    while users are held."""

    def changed(metrics: dict[str, Estimate], by: float = 1.0) -> dict[str, Estimate]:
        ends = {name: {end: getattr(one, end) for end in ENDS} for name, one in metrics.items()}
        return {
            name: evolve(one, belief=None, **{end: at and at * by for end, at in ends[name].items()})
            for name, one in metrics.items()
        }

    stages = (evolve(one, metrics=changed(one.metrics, slower if one.holds else 1.0)) for one in trial.stages)
    return evolve(trial, metrics=changed(trial.metrics), stages=tuple(stages))


@pytest.mark.parametrize(
    ("that", "slower", "outcome", "told"),
    [
        ("{ten} at 12 users", 1.0, "passed", "holds"),
        ("{ten} at 12 users", 100.0, "failed", "failed"),
        ("{ten}", 100.0, "passed", "holds"),
        ("{half} at 12 users", 0.01, "passed", "holds"),
        ("{ten} at 12 VUs", 1.0, "passed", "holds"),
        ("{ten} at 13 users", 1.0, "no value", "no trial reached 13 users"),
    ],
)
def test_threshold_on_one_level(closed: Bench, that: str, slower: float, outcome: str, told: str) -> None:
    trials = [closed.trial("TC0.r1"), closed.trial("TC0.r2")]
    plain = closed.config(trials[0])
    p95 = judge_trial(trials[0], plain).metrics["background.response.p95"].value
    spelt = {
        name: f"background.response.p95 < {1000 * p95 * of:.6g} ms"
        for name, of in (("ten", 10), ("half", 0.2))
    }
    text = that.format(**spelt)
    config = evolve(with_stages(plain, UP_HOLD_DOWN), thresholds=(text,))
    judged = [believed(judge_trial(one, config), slower) for one in trials]
    case = case_result(closed.lock.case("TC0"), config, judged)
    (found,) = threshold_results({"TC0": config}, [case], {}, judged)
    assert found.outcome == outcome, found.sentence
    assert told in found.told
    assert text in found.sentence
    if " at " in text:
        (level,) = found.levels
        assert (level.outcome, level.measured) == (found.outcome, found.measured)


def test_what_disturbed_a_level_widens_its_range_alone(closed: Bench) -> None:
    """Where strangers can't be distinguished, a number takes the widest range."""
    trial = closed.trial("TC0.r1")
    config = with_stages(closed.config(trial), UP_HOLD_DOWN)
    calm = judge_trial(trial, config)
    doubted = judge_trial(without_readings(trial, trial.monitors["monitor"] == "others"), config)
    before, after = (
        level.metrics["response.p95"].belief
        for judged in (calm, doubted)
        for level in judged.stages
        if level.holds
    )
    assert before is None or before.above < 0.5
    assert after.above == limits.WIDEST[1]


def test_counts_of_a_whole_trial_are_judged_on_no_level(closed: Bench) -> None:
    trial = closed.trial("TC0.r1")
    texts = ("background.failed == 0", "background.response.p75 < 10 s")
    config = evolve(with_stages(closed.config(trial), UP_HOLD_DOWN), thresholds=texts)
    judged = believed(judge_trial(trial, config, extra=[criterion_of(text, config).ref for text in texts]))
    case = case_result(closed.lock.case("TC0"), config, [judged])
    failed, p75 = threshold_results({"TC0": config}, [case], {}, [judged])
    assert not failed.levels
    (found,) = stage_findings([case], [judged])
    assert found.sentence.startswith("Response p95 by level in TC0: background at 12 users ")
    assert [(one.level, one.outcome) for one in p75.levels] == [("12 users", "passed")]


SEED = 9_223_372_036_854_775_111


def test_too_many_to_be_drawn_are_not_counted() -> None:
    assert poisson_until(1, "x", 1e9) is None
    assert poisson_until(1, "x", 0.0) == 0


def seeded(bench: Bench, arrivals: str) -> Planted:
    """Return a trial of an open loop whose plan has exactly the due arrivals, and that records its seed."""
    trial = bench.trial("TC0.r1")
    due, length_s = trial.summary.groups[0].due, trial.summary.window_ns[1] / S
    level = due + phase(SEED, "background") - 0.5
    if arrivals == "poisson":
        low, high = 0.5 * due, 2.0 * due
        while poisson_until(SEED, "background", level := (low + high) / 2) != due:
            count = poisson_until(SEED, "background", level)
            low, high = (level, high) if count < due else (low, level)
    config = bench.config(trial)
    executor = evolve(config.groups[0].executor, rate_rps=level / length_s, arrivals=arrivals)
    config = with_config(config, "background", executor=executor)
    summary = evolve(trial.summary, seed=SEED)
    return replace(trial, summary=summary), config


def lost(planted: Planted, count: int) -> Planted:
    """Remove this many requests from every tally of the engine, as if they had never been due."""
    trial, config = planted
    trial = with_group(
        trial, "background", due=lambda n: n - count, begun=lambda n: n - count, ok=lambda n: n - count
    )
    return with_table(trial, "histograms", count=fewer(count)), config


def fewer(count: int) -> Callable[[dict[str, Any]], Any]:
    """Remove this many responses of the background from the histograms' counts."""

    def counts_of(table: dict[str, Any]) -> Any:
        counts = table["count"].astype(np.int64)
        mine = np.flatnonzero(
            (table["group"] == 0) & (table["metric"] == HISTOGRAM_METRICS.index("response"))
        )
        left = count
        for at in mine:
            taken = min(left, int(counts[at]))
            counts[at] -= taken
            left -= taken
        assert left == 0
        return counts.astype(np.uint64)

    return counts_of


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
@pytest.mark.parametrize(
    ("count", "grade", "words"),
    [
        (0, "VALID", "arrivals planned for background"),
        (1, "VALID", "all "),
        (2, "REFUSED", "2 are lost"),
        (11, "REFUSED", "(99.00"),
    ],
)
def test_what_every_tally_of_the_engine_lost_is_missed(
    open_loop: Bench, arrivals: str, count: int, grade: str, words: str
) -> None:
    """Also while requests wait for slots."""
    found = check(*lost(seeded(open_loop, arrivals), count), "accounting")
    assert (found.grade, words in found.sentence.lower()) == (grade, True), found.sentence


def test_what_records_or_gauge_say_otherwise_is_a_loss(open_loop: Bench) -> None:
    trial, config = seeded(open_loop, "constant")
    stuck = with_group(trial, "background", left_at_end=lambda n: n + 5)
    assert "5 are too many" in check(stuck, config, "accounting").sentence
    unknown = with_group(trial, "background", left_at_end=-1)
    assert check(unknown, config, "accounting").grade == "VALID"


def waiting(planted: Planted, count: int, ready: int) -> Planted:
    """Let this many arrivals wait at the end, some with a slot free; no request that began had waited."""
    trial, config = planted

    def nobody_waited(table: dict[str, Any]) -> Any:
        of_waits = (table["group"] == 0) & (table["metric"] == HISTOGRAM_METRICS.index("slot_wait"))
        return np.where(of_waits, 0, table["bucket"]).astype(np.uint32)

    trial = with_group(
        trial, "background", begun=lambda n: n - count, ok=lambda n: n - count, waiting=lambda n: n + count,
        waiting_ready=ready, left_at_end=lambda n: n + count,
    )  # fmt: skip
    return with_table(trial, "histograms", bucket=nobody_waited, count=fewer(count)), config


@pytest.mark.parametrize(
    ("share", "free", "grade"),
    [(0.01, False, "VALID"), (0.0005, True, "VALID"), (0.003, True, "WEAK"), (0.01, True, "REFUSED")],
)
def test_waiting_is_the_generators_doing_with_a_slot_free(
    open_loop: Bench, share: float, free: bool, grade: str
) -> None:
    """Without a free slot, the server is the cause."""
    count = round(share * open_loop.trial("TC0.r1").summary.groups[0].due)
    trial, config = waiting(seeded(open_loop, "constant"), count, count if free else 0)
    assert check(trial, config, "accounting").grade == grade
