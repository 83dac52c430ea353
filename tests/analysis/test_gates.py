"""`fail_if`: fail, pass or undecided, and candidates that can't pass whatever their times are."""

from __future__ import annotations

import re
from math import exp, log1p, sqrt
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats
from tests.analysis.conftest import Bench
from tests.analysis.test_compare import (
    FLAT,
    HTTPS,
    MATCHED,
    ONE,
    P50,
    PROTOCOL,
    RATIOS,
    SERVER,
    blocks,
    broken,
    claim_of,
    claims,
    gated,
    lock_with,
    names,
    with_metrics,
)
from tests.evolve import evolve
from tests.results import case_result, findings_of, trial_result

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
from svload.model.failures import Failures
from svload.model.pairs import Strangers
from svload.model.results import Claim, Estimate, Findings, ThresholdResult, TrialResult
from svload.report.files.junit import junit_xml
from svload.report.wording.ending import exit_line

LATE = Estimate(value=None, reason="> timeout (70 % failed)", why="time-out")
ON_SERVER = evolve(SERVER, fail_if="worse by more than 900 %")


def gate_of(
    closed: Bench, trials: list[TrialResult], fail_if: str = "worse by more than 5 %", planned: int = 6
) -> Any:
    return claim_of(closed, trials, gated(fail_if), planned).gate


def times(factor: float) -> list[TrialResult]:
    """Return six blocks whose candidate takes this much longer, with hardly any scatter."""
    return blocks([factor * wobble for wobble in FLAT])


def changed(
    trials: list[TrialResult], cases: tuple[str, ...] = HTTPS, **metrics: Estimate
) -> list[TrialResult]:
    """Set these numbers of the candidate's trials, by metric with __ for the dot."""
    return [with_metrics(one, **metrics) if one.case in cases else one for one in trials]


def succeeding(trials: list[TrialResult], *rates: float, n: int = 5000) -> list[TrialResult]:
    """Set the candidate's success rate, for all blocks or block by block."""
    return [
        with_metrics(one, success_rate=Estimate(value=rates[(one.block - 1) % len(rates)], n=n))
        if one.case in HTTPS
        else one
        for one in trials
    ]


@pytest.mark.parametrize(
    ("fail_if", "ratio", "outcome"),
    [
        ("worse by more than 5 %", 1.2, "fail"),
        ("worse by more than 5 %", 1.0, "pass"),
        ("worse by more than 5 %", 1.05, "open"),
        ("worse by more than 25 %", 1.2, "pass"),
        ("better by more than 5 %", 0.8, "fail"),
        ("better by more than 5 %", 1.2, "pass"),
        ("different by more than 5 %", 1.2, "fail"),
        ("different by more than 5 %", 1.0, "pass"),
    ],
)
def test_a_gate_has_three_answers(closed: Bench, fail_if: str, ratio: float, outcome: str) -> None:
    assert gate_of(closed, times(ratio), fail_if).outcome == outcome


@pytest.mark.parametrize(("ratio", "outcome"), [(0.8, "fail"), (1.2, "pass")])
def test_worse_is_lower_for_a_throughput(closed: Bench, ratio: float, outcome: str) -> None:
    trials = [
        with_metrics(one, throughput=Estimate(value=100 * (ratio * FLAT[one.block - 1] if one.case in HTTPS else 1)))
        for one in blocks(FLAT)
    ]  # fmt: skip
    assert claim_of(closed, trials, gated(metric="probe.throughput")).gate.outcome == outcome


def test_what_is_too_little_too_noisy_or_in_listed_order_is_open(closed: Bench) -> None:
    assert gate_of(closed, blocks([2.0, 2.1]), planned=2).outcome == "open"
    assert gate_of(closed, blocks([1.5, 0.8, 1.4, 0.9, 1.3, 0.85])).outcome == "open"
    assert gate_of(closed, broken(blocks(RATIOS), *names())).outcome == "open"
    for ratio in (1.0, 2.0):
        assert claim_of(closed, times(ratio), gated(), order="as-listed").gate.outcome == "open"
    few = changed(blocks([2.0] * 6), response__p50=Estimate(value=None, reason="too few", why="too few"))
    gate = gate_of(closed, few)
    assert gate.outcome == "open" and "too few" in gate.why, "twice as slow, but no number, so no pass"


def test_a_candidate_beyond_the_time_out_fails(closed: Bench) -> None:
    """70 % of its requests fail or time out: its median is beyond every limit."""
    trials = changed(blocks(FLAT), response__p50=LATE, success_rate=Estimate(value=0.3))
    claim = claim_of(closed, trials, gated())
    assert claim.gate.outcome == "fail"
    assert "beyond the timeout in 18 of 18 pairs" in claim.gate.why
    assert (claim.outcome, claim.ratio.value, claim.p, claim.blocks) == ("decided", None, 2 / 4**6, 6)
    assert "https is beyond the timeout in all 18 pairs" in claim.ratio.reason
    some = [late if late.block > 2 else alive for late, alive in zip(trials, blocks(FLAT), strict=True)]
    claim = claim_of(closed, some, gated())
    assert claim.outcome == "open", "a mean over the blocks that are left would be one of the survivors"
    assert claim.gate.outcome == "fail"
    refused = [evolve(one, verdict__instrument="REFUSED") for one in trials]
    assert gate_of(closed, refused).outcome == "fail", "whatever disturbed the times"
    both = changed(trials, ("TC0", "TC1", "TC2"), response__p50=LATE, success_rate=Estimate(value=0.3))
    assert gate_of(closed, both).outcome == "open", "the baseline is no better"
    assert gate_of(closed, trials, "better by more than 5 %").outcome == "open"


@pytest.mark.parametrize(
    ("fail_if", "success", "outcome"),
    [
        ("worse by more than 5 %", 1.0, "pass"),
        ("worse by more than 5 %", 0.2, "fail"),
        ("better by more than 5 %", 1.0, "open"),
        ("different by more than 5 %", 1.0, "open"),
    ],
)
def test_a_baseline_beyond_the_time_out_in_every_pair_has_nothing_worse_beside_it(
    closed: Bench, fail_if: str, success: float, outcome: str
) -> None:
    dead = {"response__p50": LATE, "success_rate": Estimate(value=0.3, n=5000)}
    trials = changed(succeeding(blocks(FLAT), success), ("TC0", "TC1", "TC2"), **dead)
    assert gate_of(closed, trials, fail_if).outcome == outcome
    few = [one for one in trials if one.block < 3]
    assert gate_of(closed, few, "worse by more than 5 %", planned=2).outcome != "pass"
    assert gate_of(closed, broken(trials, "TC3.r2"), "worse by more than 5 %").outcome != "pass"


def test_a_failed_gate_names_what_failed_with_its_interval(closed: Bench) -> None:
    def why(ratio: float, success: float = 1.0, fail_if: str = "worse by more than 5 %") -> str:
        gate = gate_of(closed, changed(times(ratio), success_rate=Estimate(value=success)), fail_if)
        assert gate.outcome == "fail"
        return str(gate.why)

    span = r"[\d.]+ to [\d.]+"
    rises = rf"probe\.response\.p50 rises by {span} %"
    assert re.fullmatch(rises, why(1.2))
    assert re.fullmatch(rises.replace("rises", "falls"), why(0.8, fail_if="better by more than 5 %"))
    assert re.fullmatch(rf"probe\.response\.p50 is {span} times as high", why(2.5))
    assert re.fullmatch(f"success falls from 100 % to 60 % and {rises}", why(1.2, 0.6))
    for survivors in (0.5, 1.0):
        assert why(survivors, 0.6) == "success falls from 100 % to 60 %", "its times did not fail"


@pytest.mark.parametrize(("success", "margin"), [(0.97, 5), (0.955, 5), (0.91, 10), (0.8, 25), (0.55, 50)])
def test_success_has_a_margin_of_its_own(closed: Bench, success: float, margin: int) -> None:
    """D2: a gate on a time passed a candidate that fails a twentieth to a half of its requests."""
    gate = gate_of(closed, succeeding(blocks(FLAT), success, n=500), f"worse by more than {margin} %")
    assert (gate.outcome, gate.why) == ("fail", f"success falls from 100 % to {100 * success:.4g} %")


def test_success_that_may_have_fallen_keeps_a_gate_open(closed: Bench) -> None:
    rates = [1.0, 0.997, 1.0, 1.0, 0.996, 1.0]
    claim = claim_of(closed, succeeding(blocks(FLAT), *rates), gated())
    assert (claim.gate.outcome, claim.more_blocks) == ("open", None), (
        "blocks enough for times, not for success"
    )
    assert "success may fall by more than 0.1 points; about " in claim.gate.why
    margin = "requests a side would decide it (`success by more than 1 point` sets another margin)"
    assert margin in claim.gate.why
    slower = gate_of(closed, succeeding(times(1.2), *rates))
    assert slower.outcome == "fail" and slower.why.startswith("probe.response.p50 rises by"), (
        "whatever success did"
    )
    one_of_few = succeeding(blocks(FLAT), *[1.0] * 5, 0.998)
    assert gate_of(closed, one_of_few).outcome == "open", "ten failures in one of six blocks prove neither"
    assert gate_of(closed, blocks(FLAT)).outcome == "pass", "no failure on either side"
    slight = succeeding(blocks(FLAT), 0.995, 0.996, 0.994, 0.995, 0.995, 0.996)
    assert gate_of(closed, slight).outcome == "fail"
    assert gate_of(closed, slight, "worse by more than 5 %, success by more than 1 point").outcome == "pass"


def test_an_overloaded_candidate_fails(closed: Bench) -> None:
    """A server at three times its capacity: its times grow with the run's length, whatever they are here."""
    both = [evolve(one, verdict__server="OVERLOADED") for one in blocks(FLAT)]
    trials = [bad if bad.case in HTTPS else good for bad, good in zip(both, blocks(FLAT), strict=True)]
    gate = gate_of(closed, trials)
    assert gate.outcome == "fail"
    assert "OVERLOADED in 18 of 18 trials" in gate.why
    claim = claim_of(closed, both, gated())
    assert (claim.gate.outcome, claim.more_blocks) == ("open", None)


def test_failing_is_holm_corrected_over_gates_and_passing_is_not(closed: Bench) -> None:
    """One p of 0.019 that times rose, or that success fell, is enough for one gate, but not for three."""
    lock = lock_with(closed.lock, 6, gated(), ON_SERVER)

    def three(trials: list[TrialResult]) -> list[Any]:
        return [one.gate for one in claims(closed, lock, trials)]

    ratios = [1.3, 1.08, 1.2, 1.1, 1.25, 1.07]
    slower = blocks(ratios)
    assert gate_of(closed, slower).outcome == "fail", "without any failed request success cannot fail"
    one_more_test = gate_of(closed, blocks(ratios, success=0.999))
    assert one_more_test.outcome == "open", "with one it can"
    assert [one.outcome for one in three(slower)] == ["open", "pass", "pass"]
    failing = succeeding(blocks(FLAT), 0.722, 0.791, 0.8255, 0.8945, 0.929, 0.998)
    alone = gate_of(closed, failing)
    assert (alone.outcome, alone.why) == ("fail", "success falls from 100 % to 86 %")
    assert [one.outcome for one in three(failing)] == ["open", "pass", "pass"]
    assert "success may fall by more than 0.1 points" in three(failing)[0].why
    dead = succeeding(failing, 0.3, 0.31, 0.29, 0.3, 0.3, 0.32)
    assert [one.outcome for one in three(dead)] == ["fail", "pass", "pass"]


# exit codes


def findings(claims: tuple[Claim, ...], *thresholds: str) -> Findings:
    found = tuple(
        ThresholdResult(case="TC0", that="x", outcome=one, measured=None, sentence="") for one in thresholds
    )
    return findings_of(claims=claims, thresholds=found)


def test_the_exit_code_of_gates_and_thresholds(closed: Bench) -> None:
    passed, opened, failed = (
        claims(closed, lock_with(closed.lock, 6, gated()), times(ratio)) for ratio in (1.0, 1.05, 1.2)
    )
    ungated = claims(closed, lock_with(closed.lock, 2, PROTOCOL), blocks([2.0, 2.1]))
    refused = claim_of(closed, broken(blocks(RATIOS), *names()))
    believed = claim_of(closed, broken(blocks(RATIOS), *names()[:2]))
    for code, answers, thresholds in (
        (ExitCode.DONE, passed, []),
        (ExitCode.REFUSED, opened, []),
        (ExitCode.THRESHOLD_FAILED, failed, []),
        (ExitCode.THRESHOLD_FAILED, failed + opened, []),
        (ExitCode.REFUSED, passed, ["refused"]),
        (ExitCode.THRESHOLD_FAILED, passed, ["no value", "failed"]),
        (ExitCode.DONE, ungated, []),
        (ExitCode.REFUSED, (refused,), []),
        (ExitCode.REFUSED, (refused,), ["passed"]),
        (ExitCode.DONE, (refused, believed), []),  # one comparison says something
        (ExitCode.DONE, (evolve(refused, believed_of=(0, 0)),), []),  # cases left out on purpose (--only)
    ):
        assert api.verdict_exit(findings(answers, *thresholds)) == code
    assert api.verdict_exit(evolve(findings(()), planned_trials=6)) == ExitCode.REFUSED


def test_an_incomplete_run_does_not_end_with_0() -> None:
    """It was interrupted, or ended by `abort_if`: the cases that are missing may break the threshold."""
    half = evolve(findings((), "passed"), trials=(trial_result("TC0"),), sealed_trials=1, planned_trials=2)
    assert api.verdict_exit(half) == ExitCode.DONE
    half = evolve(half, complete=False)
    assert api.verdict_exit(half) == ExitCode.REFUSED
    assert exit_line(half, ExitCode.REFUSED) == (
        "exit 4: could not decide: the run is incomplete (1 of 2 trials sealed)"
    )


@pytest.mark.parametrize(
    ("failed", "beside", "code"),
    [
        (9, "", ExitCode.THRESHOLD_FAILED),
        (8, "", ExitCode.DONE),
        (9, "allowed", ExitCode.DONE),
        (9, "planned fault", ExitCode.DONE),
    ],
)
def test_a_run_without_a_successful_request_does_not_end_with_0(
    failed: int, beside: Any, code: ExitCode
) -> None:
    both = [trial_result(name) for name in ("a", "b")]
    cases = tuple(case_result(one.case, trials=(one.trial,), load_model={"g": "closed loop"}) for one in both)
    rows = [
        Failures(
            case=one.case, group="g", ended=9, failed=count, trials=(one.trial,), kinds=(), beside=beside
        )
        for one, count in zip(both, (9, failed), strict=True)
    ]
    found = findings_of(cases=cases, trials=tuple(both), failures=tuple(rows))
    assert api.verdict_exit(found) == code
    assert api.verdict_exit(evolve(found, failures=tuple(rows[:1]))) == ExitCode.DONE
    suite = ElementTree.fromstring(junit_xml(found))[1]
    assert suite.get("failures") == ("2" if code else "0")


def test_one_wins_over_four_and_the_rest_over_both() -> None:
    words = ("USAGE", "INTERRUPTED", "LAB_FAILED", "THRESHOLD_FAILED", "REFUSED", "DONE")
    order = [ExitCode[name] for name in words]
    for place, code in enumerate(order):
        assert ExitCode.worst(order[place:]) == code


@pytest.mark.parametrize(
    ("fail_if", "sign"), [("worse by more than 5 %", 1), ("better by more than 5 %", -1)]
)
def test_more_blocks_of_a_gate_count_the_distance_to_its_own_side(
    closed: Bench, fail_if: str, sign: int
) -> None:
    """3 % on the good side, ± 9 %: the margin is 8 % away, not 2 %."""
    logs = [sign * (wobble - 0.03) for wobble in (0.1, -0.1, 0.08, -0.08, 0.09, -0.09)]
    claim = claim_of(closed, blocks([exp(one) for one in logs]), gated(fail_if))
    assert claim.gate.outcome == "open"
    n, sd, away = 6 + claim.more_blocks, float(np.std(logs, ddof=1)), abs(log1p(sign * 0.05)) + 0.03

    def passes(blocks: int) -> bool:
        reach = stats.t.ppf(0.975, blocks - 1) + stats.t.ppf(0.8, blocks - 1)
        return bool(reach * sd / sqrt(blocks) <= away)

    assert passes(n) and not passes(n - 1)


def test_a_goodput_of_0_in_some_blocks_keeps_a_gate_open(closed: Bench) -> None:
    """Every response was slower than the limit in two of six blocks: no ratio, no pass by the other four."""
    goodput = "probe.goodput(200 ms)"
    trials = []
    for one in blocks(FLAT):
        value = 0.0 if one.case in HTTPS and one.block in (2, 5) else 100.0 * FLAT[one.block - 1]
        trials.append(evolve(one, metrics={**one.metrics, goodput: Estimate(value=value)}))
    claim = claim_of(closed, trials, gated(metric=goodput))
    assert (claim.outcome, claim.gate.outcome) == ("open", "open")
    assert claim.why_open == (
        "6 of 18 pairs have no ratio (TC3.r2: its value is 0, which has no ratio), and without them the survivors would speak"
    )


def interaction(closed: Bench, trials: list[TrialResult]) -> tuple[Claim, ...]:
    return claims(closed, lock_with(closed.lock, 6, gated(by="server")), trials)


def test_an_interaction_lacks_what_is_beyond_the_time_out_at_either_level(closed: Bench) -> None:
    both = changed(blocks(FLAT), response__p50=LATE, success_rate=Estimate(value=0.3))
    for found in interaction(closed, both):
        assert (found.outcome, found.ratio.value) == ("open", None)
        assert "6 of 6 pairs reach beyond the timeout" in found.why_open
        assert found.gate.why == "success falls from 100 % to 30 %"
    first = changed(blocks(FLAT), ("TC3",), response__p50=LATE)
    some = [late if late.block <= 2 else alive for late, alive in zip(first, blocks(FLAT), strict=True)]
    for found in interaction(closed, some):
        assert (found.outcome, found.gate.outcome) == ("open", "open")
        assert "2 of 6 pairs have no ratio (TC3.r1: > timeout" in found.why_open


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
    """The median over all of its requests is no timeout, and the other four blocks would pass it."""
    trials = blocks(FLAT, MATCHED[:1])
    made = {}
    for one in trials:
        turns = in_rounds(failing if one.case == "TC3" and one.block < 3 else 0)
        made[one.trial] = Made(None, 60.0 * one.block, {P50: turns})
    claim = claim_of(closed, trials, gated(when=ONE.when), made=made, order="turns")
    assert (claim.gate.outcome, claim.outcome == "open") == (outcome, outcome == "open"), claim.gate.why
    assert ("2 of 6 pairs reach beyond the timeout" in claim.why_open) == (outcome == "open")


def test_a_percentile_over_all_requests_that_lies_among_failures_is_no_pass(closed: Bench) -> None:
    """Four of ten rounds fail 60 % of their requests: a median of rounds hides that a p95 is a timeout."""
    p95 = "probe.response.p95"
    trials = [with_metrics(one, response__p95=one.metrics[P50]) for one in blocks(FLAT, MATCHED[:1])]
    for failing, outcomes in ((0, ("no difference", "pass")), (4, ("open", "open"))):
        made = {
            one.trial: Made(None, 60.0 * one.block, {p95: in_rounds(failing if one.trial == "TC3.r2" else 0)})
            for one in trials
        }
        claim = claim_of(closed, trials, gated(when=ONE.when, metric=p95), made=made, order="turns")
        assert (claim.outcome, claim.gate.outcome) == outcomes, claim.gate.why
        assert (
            "over all requests of 1 of 6 blocks a side's percentile lies among its failures" in claim.gate.why
        ) == bool(failing)


def test_a_gate_over_a_servers_metric_looks_at_success_too(closed: Bench) -> None:
    """The candidate's cache uses as much CPU as before, and 70 % of the requests fail."""
    trials = []
    for one in blocks(FLAT):
        cpu = Estimate(value=FLAT[one.block - 1 if one.case in HTTPS else 0])
        trials.append(evolve(one, metrics={**one.metrics, "cache.cpu.mean": cpu}))
    for success, outcome in ((1.0, "pass"), (0.3, "fail")):
        gate = claim_of(closed, succeeding(trials, success), gated(metric="cache.cpu")).gate
        assert gate.outcome == outcome


@pytest.mark.parametrize(
    ("centre", "p", "gates", "decided"),
    [
        (0.05, 0.0085, 1, True),
        (0.05, 0.0115, 1, False),
        (0.0, 0.0008, 1, True),
        (0.0, 0.0012, 1, False),
        # Holm over the times and success of four gates asks for 0.05 / 8
        (0.05, 0.0085, 4, False),
        (0.05, 0.006, 4, True),
    ],
)
def test_a_gate_ends_early_only_at_strict_levels(centre: float, p: float, gates: int, decided: bool) -> None:
    """Eight blocks whose mean is as many standard errors from the margin as this p needs."""
    margin, scatter = log1p(0.05), np.array([-3, 3, -2, 2, -1, 1, 0.5, -0.5]) / 100
    se = float(scatter.std(ddof=1)) / sqrt(len(scatter))
    reach = float(stats.t.isf(p / 2, len(scatter) - 1)) * se
    effect = effect_of((margin + reach if centre else margin - reach) + scatter[None], range(len(scatter)))
    limit = limit_of("worse by more than 5 %", "lower")
    assert limit is not None
    readable = Strangers(readable=True)
    assert limit.decided_by(Shown((effect,), effect, readable), gates) == decided


@pytest.mark.parametrize(("number", "decided"), [(5, False), (6, True)])
def test_a_gate_in_turns_ends_from_six_blocks_on(closed: Bench, number: int, decided: bool) -> None:
    trials = blocks([2.0] * number, MATCHED[:1])
    made = {
        one.trial: Made(None, 60.0 * one.block, {P50: in_rounds(0, 2.0 if one.case == "TC3" else 1.0)})
        for one in trials
    }
    lock = lock_with(closed.lock, 6, gated(when=ONE.when), order="turns")
    (found,) = so_far(lock, closed.configs, trials, made).values()
    assert found.decided == decided
    assert most_blocks(lock) == 24
