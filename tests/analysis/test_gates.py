"""`fail_if`: fail, pass or undecided, and candidates that can't pass whatever their times are."""

from __future__ import annotations

import re
from math import exp, log1p, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.analysis.conftest import Bench
from tests.analysis.test_compare import PROTOCOL, RATIOS, blocks, broken, claims, lock_with, trial
from tests.evolve import evolve
from tests.results import findings_of

from svload import api
from svload.analysis.claims.decide import so_far
from svload.analysis.claims.evidence import Shown
from svload.analysis.claims.gates import limit_of
from svload.analysis.claims.pairs import Made
from svload.analysis.claims.statistic import effect_of
from svload.analysis.claims.turned import Turned
from svload.analysis.contrasts import most_blocks
from svload.analysis.quantiles import ranked_values
from svload.model.errors import ExitCode
from svload.model.pairs import Strangers
from svload.model.results import Claim, Estimate, Findings, Gate, ThresholdResult, TrialResult
from svload.model.study import Comparison, Lock

FLAT = [1.0, 1.004, 0.997, 1.002, 1.001, 0.996]
HTTPS = ("TC3", "TC4", "TC5")


def gated(lock: Lock, fail_if: str = "worse by more than 5 %", blocks: int = 6, **more: Any) -> Lock:
    return lock_with(lock, blocks, evolve(PROTOCOL, fail_if=fail_if, **more))


def gate_of(
    closed: Bench, trials: list[TrialResult], fail_if: str = "worse by more than 5 %", **more: Any
) -> Gate:
    (claim,) = claims(closed, gated(closed.lock, fail_if, **more), trials)
    assert claim.gate is not None
    return claim.gate


def changed(
    trials: list[TrialResult], cases: tuple[str, ...] = HTTPS, **metrics: Estimate
) -> list[TrialResult]:
    """Set these numbers of the candidate's trials, by metric with _ for the dot."""
    new = {f"probe.{name.replace('__', '.')}": estimate for name, estimate in metrics.items()}
    return [evolve(one, metrics={**one.metrics, **new}) if one.case in cases else one for one in trials]


@pytest.mark.parametrize(
    ("fail_if", "ratio", "outcome"),
    [
        ("worse by more than 5 %", 1.2, "fail"),
        ("worse by more than 5 %", 1.0, "pass"),
        ("worse by more than 5 %", 1.05, "open"),
        ("worse by more than 25 %", 1.2, "pass"),
        ("worse by more than 5 %", 0.8, "pass"),
        ("better by more than 5 %", 0.8, "fail"),
        ("better by more than 5 %", 1.2, "pass"),
        ("different by more than 5 %", 0.8, "fail"),
        ("different by more than 5 %", 1.2, "fail"),
        ("different by more than 5 %", 1.0, "pass"),
    ],
)
def test_a_gate_has_three_answers(closed: Bench, fail_if: str, ratio: float, outcome: str) -> None:
    assert gate_of(closed, blocks([ratio * wobble for wobble in FLAT]), fail_if).outcome == outcome


def test_worse_is_lower_for_a_throughput(closed: Bench) -> None:
    comparison = Comparison(name="tls", factor="protocol", baseline="http", metric="probe.throughput", fail_if="worse by more than 5 %")  # fmt: skip
    for ratio, outcome in ((0.8, "fail"), (1.2, "pass")):
        trials = [
            evolve(one, metrics={**one.metrics, "probe.throughput": Estimate(value=100 * (ratio if one.case in HTTPS else 1) * FLAT[one.block - 1])})
            for one in blocks(FLAT)
        ]  # fmt: skip
        noisy = [one if one.case in HTTPS else evolve(trial(one.case, one.block, 0.01), metrics={**one.metrics, "probe.throughput": Estimate(value=100.0)}) for one in trials]  # fmt: skip
        (claim,) = claims(closed, lock_with(closed.lock, 6, comparison), noisy)
        assert claim.gate.outcome == outcome


def test_too_few_blocks_or_a_noisy_interval_are_open(closed: Bench) -> None:
    assert gate_of(closed, blocks([2.0, 2.1]), blocks=2).outcome == "open"
    assert gate_of(closed, blocks([1.5, 0.8, 1.4, 0.9, 1.3, 0.85])).outcome == "open"
    refused = broken(blocks(RATIOS), *(f"{case}.r{n}" for case in HTTPS for n in range(1, 7)))
    assert gate_of(closed, refused).outcome == "open"


def test_a_null_for_want_of_data_is_open(closed: Bench) -> None:
    """Twice as slow, but too few requests for a p99: no number, so no pass."""
    few = changed(blocks([2.0] * 6), response__p50=Estimate(value=None, reason="too few", why="too few"))
    gate = gate_of(closed, few)
    assert gate.outcome == "open"
    assert "too few" in gate.why


def test_a_candidate_beyond_the_time_out_fails(closed: Bench) -> None:
    """70 % of its requests fail or time out: its median is beyond every limit."""
    late = Estimate(value=None, reason="> time-out (70 % failed)", why="time-out")
    trials = changed(blocks(FLAT), response__p50=late, success_rate=Estimate(value=0.3))
    gate = gate_of(closed, trials)
    assert gate.outcome == "fail"
    assert "beyond the time-out in 18 of 18 pairs" in gate.why
    (claim,) = claims(closed, gated(closed.lock), trials)
    assert (claim.outcome, claim.ratio.value, claim.p, claim.blocks) == ("decided", None, 2 / 4**6, 6)
    assert "https is beyond the time-out in all 18 pairs" in claim.ratio.reason
    some = [one if one.block > 2 else {two.trial: two for two in blocks(FLAT)}[one.trial] for one in trials]
    (claim,) = claims(closed, gated(closed.lock), some)
    assert claim.outcome == "open", "a mean over the blocks that are left would be one of the survivors"
    assert claim.gate.outcome == "fail"
    refused = [evolve(one, verdict__instrument="REFUSED") for one in trials]
    assert gate_of(closed, refused).outcome == "fail", "whatever disturbed the times"
    both = changed(trials, ("TC0", "TC1", "TC2"), response__p50=late, success_rate=Estimate(value=0.3))
    assert gate_of(closed, both).outcome == "open", "the baseline is no better"
    assert gate_of(closed, trials, "better by more than 5 %").outcome == "open"


def test_a_candidate_that_fails_its_requests_fast_fails(closed: Bench) -> None:
    """The surviving requests are faster, but 40 % of the candidate's requests failed."""
    trials = changed(blocks([0.5 * one for one in FLAT]), success_rate=Estimate(value=0.6))
    gate = gate_of(closed, trials)
    assert (gate.outcome, gate.why) == ("fail", "success falls from 100 % to 60 %")


def test_a_failed_gate_names_what_failed_with_its_interval(closed: Bench) -> None:
    def why(ratio: float, success: float = 1.0, fail_if: str = "worse by more than 5 %") -> str:
        trials = changed(blocks([ratio * one for one in FLAT]), success_rate=Estimate(value=success))
        gate = gate_of(closed, trials, fail_if)
        assert gate.outcome == "fail"
        return gate.why

    span = r"[\d.]+ to [\d.]+"
    assert re.fullmatch(rf"probe\.response\.p50 rises by {span} %", why(1.2))
    assert re.fullmatch(
        rf"probe\.response\.p50 falls by {span} %", why(0.8, fail_if="better by more than 5 %")
    )
    assert re.fullmatch(rf"probe\.response\.p50 is {span} times as high", why(2.5))
    both = why(1.2, 0.6)
    assert re.fullmatch(
        rf"success falls from 100 % to 60 % and probe\.response\.p50 rises by {span} %", both
    ), both
    assert why(1.0, 0.6) == "success falls from 100 % to 60 %", "its times did not fail"


@pytest.mark.parametrize(("success", "margin"), [(0.97, 5), (0.955, 5), (0.91, 10), (0.8, 25), (0.55, 50)])
def test_success_has_a_margin_of_its_own(closed: Bench, success: float, margin: int) -> None:
    """D2: a gate on a time passed a candidate that fails a twentieth to a half of its requests."""
    trials = changed(blocks(FLAT), success_rate=Estimate(value=success, n=500))
    gate = gate_of(closed, trials, f"worse by more than {margin} %")
    assert (gate.outcome, gate.why) == ("fail", f"success falls from 100 % to {100 * success:.4g} %")


def test_another_margin_of_success_is_an_option(closed: Bench) -> None:
    slight = with_success(blocks(FLAT), [0.995, 0.996, 0.994, 0.995, 0.995, 0.996])
    assert gate_of(closed, slight).outcome == "fail"
    assert gate_of(closed, slight, "worse by more than 5 %, success by more than 1 point").outcome == "pass"


def test_success_that_may_have_fallen_keeps_a_gate_open(closed: Bench) -> None:
    rates = [1.0, 0.997, 1.0, 1.0, 0.996, 1.0]
    (claim,) = claims(closed, gated(closed.lock), with_success(blocks(FLAT), rates))
    gate = claim.gate
    assert (gate.outcome, claim.more_blocks) == ("open", None), (
        "blocks enough for its times are not for success"
    )
    slower = gate_of(closed, with_success(blocks([1.2 * one for one in FLAT]), rates))
    assert slower.outcome == "fail" and slower.why.startswith("probe.response.p50 rises by"), (
        "whatever success did"
    )
    assert "success may fall by more than 0.1 points; about " in gate.why
    assert "requests a side would decide it (`success by more than 1 point` sets another margin)" in gate.why
    one_of_few = with_success(blocks(FLAT), [1.0] * 5 + [0.998])
    assert gate_of(closed, one_of_few).outcome == "open", (
        "ten failed requests in one of six blocks prove neither"
    )
    assert gate_of(closed, blocks(FLAT)).outcome == "pass", "no failure on either side"


def test_an_overloaded_candidate_fails(closed: Bench) -> None:
    """A server at three times its capacity: its times grow with the run's length, whatever they are here."""
    trials = [evolve(one, verdict__server="OVERLOADED") if one.case in HTTPS else one for one in blocks(FLAT)]
    gate = gate_of(closed, trials)
    assert gate.outcome == "fail"
    assert "OVERLOADED in 18 of 18 trials" in gate.why
    both = [evolve(one, verdict__server="OVERLOADED") for one in trials]
    (claim,) = claims(closed, gated(closed.lock), both)
    assert (claim.gate.outcome, claim.more_blocks) == ("open", None)


def test_failing_is_holm_corrected_over_gates_and_passing_is_not(closed: Bench) -> None:
    ratios = [1.3, 1.08, 1.2, 1.1, 1.25, 1.07]
    server = Comparison(name="cache", factor="server", baseline="backend", metric="probe.response.p50", fail_if="worse by more than 900 %")  # fmt: skip
    tls = evolve(PROTOCOL, fail_if="worse by more than 5 %")
    (alone,) = claims(closed, lock_with(closed.lock, 6, tls), blocks(ratios))
    assert alone.gate.outcome == "fail"
    three = claims(closed, lock_with(closed.lock, 6, tls, server), blocks(ratios))
    assert [one.gate.outcome for one in three if one.gate] == ["open", "pass", "pass"]


def with_success(trials: list[TrialResult], rates: list[float]) -> list[TrialResult]:
    """Set the candidate's success rate, block by block."""
    return [
        evolve(
            one, metrics={**one.metrics, "probe.success_rate": Estimate(value=rates[one.block - 1], n=5000)}
        )
        if one.case in HTTPS
        else one
        for one in trials
    ]


def test_a_loss_of_success_is_holm_corrected_too(closed: Bench) -> None:
    """One p of 0.019 that success fell is enough for one gate, but not for three."""
    trials = with_success(blocks(FLAT), [0.722, 0.791, 0.8255, 0.8945, 0.929, 0.998])
    tls = evolve(PROTOCOL, fail_if="worse by more than 5 %")
    server = Comparison(name="cache", factor="server", baseline="backend", metric="probe.response.p50", fail_if="worse by more than 900 %")  # fmt: skip
    (alone,) = claims(closed, lock_with(closed.lock, 6, tls), trials)
    assert (alone.gate.outcome, alone.gate.why) == ("fail", "success falls from 100 % to 86 %")
    three = claims(closed, lock_with(closed.lock, 6, tls, server), trials)
    assert [one.gate.outcome for one in three if one.gate] == ["open", "pass", "pass"]
    assert "success may fall by more than 0.1 points" in three[0].gate.why
    dead = with_success(trials, [0.3, 0.31, 0.29, 0.3, 0.3, 0.32])
    sure = claims(closed, lock_with(closed.lock, 6, tls, server), dead)
    assert [one.gate.outcome for one in sure if one.gate] == ["fail", "pass", "pass"]


def test_success_without_a_failure_costs_the_times_nothing(closed: Bench) -> None:
    """Without any failed request success cannot fail; with one it can, which is one more test."""
    ratios = [1.3, 1.08, 1.2, 1.1, 1.25, 1.07]
    assert gate_of(closed, blocks(ratios)).outcome == "fail"
    assert gate_of(closed, blocks(ratios, success=0.999)).outcome == "open"


def test_trials_as_listed_leave_a_gate_open(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, evolve(PROTOCOL, fail_if="worse by more than 5 %"), order="as-listed")  # fmt: skip
    for ratio in (1.0, 2.0):
        (claim,) = claims(closed, lock, blocks([ratio * one for one in FLAT]))
        assert claim.gate.outcome == "open"


# exit codes


def findings(claims: tuple[Claim, ...], *thresholds: str) -> Findings:
    found = tuple(
        ThresholdResult(case="TC0", that="x", outcome=one, measured=None, sentence="") for one in thresholds
    )
    return findings_of(claims=claims, thresholds=found)


def test_the_exit_code_of_gates_and_thresholds(closed: Bench) -> None:
    answers = {
        name: claims(closed, gated(closed.lock), blocks([ratio * one for one in FLAT]))
        for name, ratio in {"fail": 1.2, "pass": 1.0, "open": 1.05}.items()
    }
    assert api.verdict_exit(findings(answers["pass"])) == ExitCode.DONE
    assert api.verdict_exit(findings(answers["open"])) == ExitCode.REFUSED
    assert api.verdict_exit(findings(answers["fail"])) == ExitCode.THRESHOLD_FAILED
    assert api.verdict_exit(findings(answers["fail"] + answers["open"])) == ExitCode.THRESHOLD_FAILED
    assert api.verdict_exit(findings(answers["pass"], "refused")) == ExitCode.REFUSED
    assert api.verdict_exit(findings(answers["pass"], "no value", "failed")) == ExitCode.THRESHOLD_FAILED
    ungated = claims(closed, lock_with(closed.lock, 2, PROTOCOL), blocks([2.0, 2.1]))
    assert api.verdict_exit(findings(ungated)) == ExitCode.DONE


def test_a_study_no_pair_of_which_can_be_believed_does_not_end_with_0(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    names = [f"{case}.r{n}" for case in HTTPS for n in range(1, 7)]
    refused = claims(closed, lock, broken(blocks(RATIOS), *names))
    assert [one.outcome for one in refused] == ["refused"]
    assert api.verdict_exit(findings(refused)) == ExitCode.REFUSED
    assert api.verdict_exit(findings(refused, "passed")) == ExitCode.REFUSED
    some = claims(closed, lock, broken(blocks(RATIOS), *names[:2]))
    assert api.verdict_exit(findings(refused + some)) == ExitCode.DONE, (
        "one of its comparisons says something"
    )
    absent = tuple(evolve(one, believed_of=(0, 0)) for one in refused)
    assert api.verdict_exit(findings(absent)) == ExitCode.DONE, "its cases were left out on purpose (--only)"
    unsealed = evolve(findings(()), planned_trials=6)
    assert api.verdict_exit(unsealed) == ExitCode.REFUSED


def test_one_wins_over_four_and_the_rest_over_both() -> None:
    names = ("USAGE", "INTERRUPTED", "LAB_FAILED", "THRESHOLD_FAILED", "REFUSED", "DONE")
    order = [ExitCode[name] for name in names]
    for place, code in enumerate(order):
        assert ExitCode.worst(order[place:]) == code


def test_a_gate_that_stays_open_says_how_many_more_blocks_would_decide_it(closed: Bench) -> None:
    (claim,) = claims(closed, gated(closed.lock), blocks([1.07, 1.04, 1.08, 1.05, 1.09, 1.045]))
    assert claim.outcome == "decided"
    assert claim.gate.outcome == "open"
    assert claim.more_blocks is not None


@pytest.mark.parametrize(
    ("fail_if", "sign"), [("worse by more than 5 %", 1), ("better by more than 5 %", -1)]
)
def test_more_blocks_of_a_gate_count_the_distance_to_its_own_side(
    closed: Bench, fail_if: str, sign: int
) -> None:
    """3 % on the good side, ± 9 %: the margin is 8 % away, not 2 %."""
    logs = [sign * (wobble - 0.03) for wobble in (0.1, -0.1, 0.08, -0.08, 0.09, -0.09)]
    (claim,) = claims(closed, gated(closed.lock, fail_if), blocks([exp(one) for one in logs]))
    assert claim.gate.outcome == "open"
    n, sd, away = 6 + claim.more_blocks, float(np.std(logs, ddof=1)), abs(log1p(sign * 0.05)) + 0.03

    def passes(blocks: int) -> bool:
        reach = stats.t.ppf(0.975, blocks - 1) + stats.t.ppf(0.8, blocks - 1)
        return bool(reach * sd / sqrt(blocks) <= away)

    assert passes(n) and not passes(n - 1)


def test_a_goodput_of_0_in_some_blocks_keeps_a_gate_open(closed: Bench) -> None:
    """Every response was slower than the limit in two of six blocks: no ratio, no pass by the other four."""
    comparison = Comparison(name="tls", factor="protocol", baseline="http", metric="probe.goodput(200 ms)", fail_if="worse by more than 5 %")  # fmt: skip
    trials = [
        evolve(one, metrics={**one.metrics, "probe.goodput(200 ms)": Estimate(value=0.0 if one.case in HTTPS and one.block in dead else 100.0 * FLAT[one.block - 1])})
        for dead in [(2, 5)]
        for one in blocks(FLAT)
    ]  # fmt: skip
    (claim,) = claims(closed, lock_with(closed.lock, 6, comparison), trials)
    assert (claim.outcome, claim.gate.outcome) == ("open", "open")
    assert claim.why_open == (
        "6 of 18 pairs have no ratio (TC3.r2: its value is 0, which has no ratio), and without them the survivors would speak"
    )


def test_a_treatment_beyond_the_time_out_at_both_levels_is_no_interaction(closed: Bench) -> None:
    late = Estimate(value=None, reason="> time-out (70 % failed)", why="time-out")
    dead = {"response__p50": late, "success_rate": Estimate(value=0.3)}
    for found in claims(closed, gated(closed.lock, by="server"), changed(blocks(FLAT), **dead)):
        assert (found.outcome, found.ratio.value) == ("open", None)
        assert "6 of 6 pairs reach beyond the time-out" in found.why_open
        assert found.gate.why == "success falls from 100 % to 30 %"


def test_an_interaction_lacks_a_quadruple_that_is_late_at_the_first_level(closed: Bench) -> None:
    late = Estimate(value=None, reason="> time-out (70 % failed)", why="time-out")
    alive, dead = blocks(FLAT), changed(blocks(FLAT), ("TC3",), response__p50=late)
    trials = [two[one.block <= 2] for one, *two in zip(alive, alive, dead, strict=True)]
    for found in claims(closed, gated(closed.lock, by="server"), trials):
        assert (found.outcome, found.gate.outcome) == ("open", "open")
        assert "2 of 6 pairs have no ratio (TC3.r1: > time-out" in found.why_open


def in_rounds(failing: int, slower: float = 1.0) -> Turned:
    """Return ten rounds of 100 requests around 10 ms; in the first `failing` rounds 60 of them fail."""
    took = np.linspace(9e6, 11e6, 100) * slower
    turns = tuple(ranked_values(took[: 40 if round_ < failing else 100], 100) for round_ in range(10))
    flags = np.zeros(10, dtype=bool)
    return Turned(turns, None, flags, flags, 0.0, {}, (None,) * 10)


@pytest.mark.parametrize(("failing", "outcome"), [(4, "pass"), (5, "open"), (6, "open")])
def test_a_block_that_is_late_in_half_of_its_rounds_keeps_a_gate_open(
    closed: Bench, failing: int, outcome: str
) -> None:
    """The median over all of its requests is no time-out, and the other four blocks would pass it."""
    trials, name = blocks(FLAT, (("TC0", "TC3"),)), "probe.response.p50"
    made = {
        one.trial: Made(None, 60.0 * one.block, {name: in_rounds(failing if one.case == "TC3" and one.block < 3 else 0)})
        for one in trials
    }  # fmt: skip
    one = evolve(PROTOCOL, when={"server": "backend"}, fail_if="worse by more than 5 %")
    (claim,) = claims(closed, lock_with(closed.lock, 6, one, order="turns"), trials, made)
    assert (claim.gate.outcome, claim.outcome == "open") == (outcome, outcome == "open"), claim.gate.why
    assert ("2 of 6 pairs reach beyond the time-out" in claim.why_open) == (outcome == "open")


def test_a_gate_over_a_servers_metric_looks_at_success_too(closed: Bench) -> None:
    """The candidate's cache uses as much CPU as before, and 70 % of the requests fail."""
    comparison = Comparison(name="cpu", factor="protocol", baseline="http", metric="cache.cpu", fail_if="worse by more than 5 %")  # fmt: skip
    trials = [
        evolve(one, metrics={**one.metrics, "cache.cpu.mean": Estimate(value=FLAT[one.block - 1 if one.case in HTTPS else 0])})
        for one in blocks(FLAT)
    ]  # fmt: skip
    (claim,) = claims(closed, lock_with(closed.lock, 6, comparison), trials)
    assert claim.gate.outcome == "pass"
    (claim,) = claims(
        closed, lock_with(closed.lock, 6, comparison), changed(trials, success_rate=Estimate(value=0.3))
    )
    assert claim.gate.outcome == "fail"


@pytest.mark.parametrize(
    ("centre", "p", "decided"),
    [
        (0.05, 0.0085, True),
        (0.05, 0.0115, False),
        (0.0, 0.0008, True),
        (0.0, 0.0012, False),
    ],
    ids=["fails", "hardly fails", "passes", "hardly passes"],
)
def test_a_gate_ends_early_only_at_strict_levels(centre: float, p: float, decided: bool) -> None:
    """Eight blocks whose mean is as many standard errors from the margin as this p needs."""
    margin, scatter = log1p(0.05), np.array([-3, 3, -2, 2, -1, 1, 0.5, -0.5]) / 100
    se = float(scatter.std(ddof=1)) / sqrt(len(scatter))
    reach = float(stats.t.isf(p / 2, len(scatter) - 1)) * se
    effect = effect_of((margin + reach if centre else margin - reach) + scatter[None], range(len(scatter)))
    limit = limit_of("worse by more than 5 %", "lower")
    assert limit is not None
    readable = Strangers(readable=True)
    assert limit.decided_by(Shown((effect,), effect, readable)) == decided


@pytest.mark.parametrize(("number", "decided"), [(5, False), (6, True)])
def test_a_gate_in_turns_ends_from_six_blocks_on(closed: Bench, number: int, decided: bool) -> None:
    trials, name = blocks([1.2] * number, (("TC0", "TC3"),)), "probe.response.p50"
    made = {
        one.trial: Made(None, 60.0 * one.block, {name: in_rounds(0, 1.2 if one.case == "TC3" else 1.0)})
        for one in trials
    }
    comparison = evolve(PROTOCOL, when={"server": "backend"}, fail_if="worse by more than 5 %")
    lock = lock_with(closed.lock, 6, comparison, order="turns")
    (found,) = so_far(lock, closed.configs, trials, made).values()
    assert found.decided == decided
    assert most_blocks(lock) == 24
