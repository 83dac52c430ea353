"""Claims: what they say with the blocks they have, what takes a block away, and what they never say."""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.conftest import Bench, bench_of

from svload.analysis.compare import judge_claims
from svload.analysis.contrasts import contrasts_of, plan_comparisons
from svload.analysis.judge import judge_run
from svload.analysis.runs import NOT_INTERLEAVED, compare_runs
from svload.model.results import CaseResult, Claim, Estimate, Grade, TrialResult, Verdict
from svload.model.study import Comparison, Lock, Measure
from svload.testing import make_run


def lock_with(lock: Lock, replicates: int, *comparisons: Comparison, **measure: Any) -> Lock:
    update = {
        "measure": Measure(duration_ns=10**9, replicates=replicates, **measure),
        "comparisons": comparisons,
    }
    return lock.model_copy(update=update)


PROTOCOL = Comparison(name="tls", factor="protocol", baseline="http", metric="probe.response.p50")


def trial(
    case: str, block: int, value: float | None, grade: Grade = "VALID", success: float = 1.0, reason: str = ""
) -> TrialResult:
    name = f"{case}.r{block}"
    verdict = Verdict(trial=name, instrument=grade, server="STEADY", reasons=(), checks=())
    metrics = {
        "probe.response.p50": Estimate(value=value, reason=reason),
        "probe.success_rate": Estimate(value=success),
    }
    return TrialResult(trial=name, case=case, replicate=block, block=block, verdict=verdict, metrics=metrics)


def case(name: str, grade: Grade = "VALID") -> CaseResult:
    return CaseResult(
        case=name,
        levels={},
        excluded=None,
        instrument=grade,
        server="STEADY",
        trials=(),
        refused=(),
        metrics={},
    )


def claims(
    bench: Bench,
    lock: Lock,
    trials: list[TrialResult],
    refused: tuple[str, ...] = (),
    plots: dict[str, int] | None = None,
) -> tuple[Claim, ...]:
    cases = [case(name, "REFUSED" if name in refused else "VALID") for name in bench.configs]
    return judge_claims(lock, bench.configs, cases, trials, plots or {})


def blocks(
    ratios: list[float],
    cases: tuple[tuple[str, str], ...] = (("TC0", "TC3"), ("TC1", "TC4"), ("TC2", "TC5")),
    **more: Any,
) -> list[TrialResult]:
    """Trials of the matched http and https cases whose ratio is given block by block."""
    return [
        one
        for block, ratio in enumerate(ratios, start=1)
        for number, (http, https) in enumerate(cases, start=1)
        for one in (trial(http, block, 0.01 * number), trial(https, block, 0.01 * number * ratio, **more))
    ]


def test_a_difference_in_six_blocks_is_a_claim(closed: Bench) -> None:
    ratios = [1.2, 1.25, 1.19, 1.22, 1.3, 1.21]
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(ratios))
    assert claim.state == "claim"
    assert (claim.p, claim.p_adjusted, claim.smallest_p) == (0.03125, 0.03125, 0.03125)
    assert claim.ratio.value == pytest.approx(1.2277, abs=0.001)
    assert claim.ratio.low is not None
    assert 1.18 < claim.ratio.low < 1.2277
    assert claim.mde is not None
    assert claim.planned
    assert len(claim.pairs) == 3
    assert "floor unknown: exploratory" in claim.sentence
    assert "95 % interval" in claim.sentence


def test_four_replicates_claim_nothing_and_say_so(closed: Bench) -> None:
    (claim,) = claims(closed, lock_with(closed.lock, 4, PROTOCOL), blocks([2.0, 2.1, 1.9, 2.0]))
    assert (claim.state, claim.p, claim.smallest_p) == ("undecidable", 0.125, 0.125)
    assert (
        "Undecided: 4 of 4 blocks are usable. With 4, p can't fall below 0.125 after Holm over 1 claim; p ≤ 0.05 is possible with 6."
        in claim.sentence
    )
    assert "claims nothing" not in claim.sentence
    assert claim.mde is None
    assert claim.mde_reason == "undecidable at 4 blocks"


def test_no_difference_is_only_ever_below_something(closed: Bench) -> None:
    (claim,) = claims(
        closed, lock_with(closed.lock, 8, PROTOCOL), blocks([1.01, 0.98, 1.02, 0.99, 1.0, 1.01, 0.99, 1.0])
    )
    assert claim.state == "no claim"
    assert claim.ratio.low is not None
    assert claim.ratio.high is not None
    bound = 100 * max(claim.ratio.high - 1, 1 - claim.ratio.low)
    assert (
        f"Any difference is below {bound:.3g} % (p = 0.81 after Holm over 1 claim, not significant)."
        in claim.sentence
    )
    assert "no difference" not in claim.sentence.lower()


def test_holm_counts_every_claim_of_the_study(closed: Bench) -> None:
    server = Comparison(name="cache", factor="server", baseline="backend", metric="probe.response.p50")
    lock = lock_with(closed.lock, 6, PROTOCOL, server)
    found = claims(closed, lock, blocks([1.2] * 6))
    assert [one.name for one in found] == ["tls", "cache: cache-hit", "cache: cache-miss"]
    assert {one.smallest_p for one in found} == {0.09375}
    assert {one.state for one in found} == {"undecidable"}
    assert "after Holm over 3 claims" in found[0].sentence
    assert "p ≤ 0.05 is possible with 7" in found[0].sentence


def test_a_refused_trial_takes_its_block_with_it(closed: Bench) -> None:
    trials = [one if one.trial != "TC4.r3" else trial("TC4", 3, 5.0, "REFUSED") for one in blocks([1.2] * 7)]
    (claim,) = claims(closed, lock_with(closed.lock, 7, PROTOCOL), trials)
    assert claim.blocks == 6
    assert claim.ratio.value == pytest.approx(1.2)
    assert "Block 3 is out (TC4.r3 REFUSED)." in claim.sentence


def test_what_is_undecided_says_how_many_of_the_planned_blocks_are_usable(closed: Bench) -> None:
    trials = [
        one if one.trial not in ("TC4.r3", "TC1.r5") else trial(one.case, one.block, 5.0, "REFUSED")
        for one in blocks([1.2] * 7)
    ]
    (claim,) = claims(closed, lock_with(closed.lock, 7, PROTOCOL), trials)
    assert claim.state == "undecidable"
    assert "Undecided: 5 of 7 blocks are usable. With 5, p can't fall below 0.0625" in claim.sentence


def test_a_refused_case_leaves_the_pool(closed: Bench) -> None:
    trials = [
        one if one.case != "TC5" else trial("TC5", one.block, 9.0, "REFUSED") for one in blocks([1.2] * 6)
    ]
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials, refused=("TC5",))
    assert (claim.state, len(claim.pairs), claim.blocks) == ("claim", 2, 6)
    assert "Left out, REFUSED: TC5." in claim.sentence


def test_too_few_blocks_left_are_refused(closed: Bench) -> None:
    trials = [
        trial(one.case, one.block, 1.0, "REFUSED") if one.block < 5 else one for one in blocks([1.2] * 6)
    ]
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials)
    assert claim.state == "refused"
    assert "nothing is compared" in claim.sentence
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), [], refused=tuple(closed.configs))
    assert (claim.state, claim.ratio.value) == ("refused", None)


def test_success_is_told_where_it_differs(closed: Bench) -> None:
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks([1.2] * 6, success=0.74))
    assert claim.success == (1.0, pytest.approx(0.74))
    assert "Success differs: 74 % with https, 100 % with http" in claim.sentence
    (same,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks([1.2] * 6))
    assert "Success" not in same.sentence


def test_a_median_beyond_the_time_out_has_no_ratio(closed: Bench) -> None:
    trials = [
        trial(one.case, one.block, None, success=0.3, reason="> time-out (70 % failed)")
        if one.case == "TC4"
        else one
        for one in blocks([1.2] * 6)
    ]
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials)
    assert (claim.state, claim.ratio.value, claim.p) == ("no claim", None, None)
    assert "> time-out (70 % failed)" in claim.sentence
    assert "Success differs" in claim.sentence


def test_per_case_makes_one_claim_a_pair(closed: Bench) -> None:
    lock = lock_with(closed.lock, 8, PROTOCOL.model_copy(update={"per": "case"}))
    found = claims(closed, lock, blocks([1.2] * 8))
    assert [one.pairs for one in found] == [(("TC0", "TC3"),), (("TC1", "TC4"),), (("TC2", "TC5"),)]
    assert {one.state for one in found} == {"claim"}


def test_when_restricts_the_matched_cases(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"when": {"server": "backend"}}))
    assert [contrast.pairs for contrast in contrasts_of(lock)] == [(("TC0", "TC3"),)]


@pytest.mark.parametrize(
    ("fail_if", "ratio", "failed"),
    [
        ("worse by more than 5 %", 1.2, True),
        ("worse by more than 25 %", 1.2, False),
        ("worse by more than 5 %", 0.8, False),
        ("better by more than 5 %", 0.8, True),
        ("different by more than 5 %", 0.8, True),
    ],
)
def test_a_gate_fails_where_the_whole_interval_is_beyond(
    closed: Bench, fail_if: str, ratio: float, failed: bool
) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"fail_if": fail_if}))
    (claim,) = claims(closed, lock, blocks([ratio, ratio * 1.01, ratio * 0.99, ratio, ratio * 1.005, ratio]))
    assert claim.failed is failed
    assert claim.sentence.endswith(f"FAILED: {fail_if}." if failed else f"“{fail_if}” is not shown.")


def test_a_gate_never_fails_on_what_cannot_be_decided(closed: Bench) -> None:
    lock = lock_with(closed.lock, 4, PROTOCOL.model_copy(update={"fail_if": "worse by more than 5 %"}))
    (claim,) = claims(closed, lock, blocks([2.0] * 4))
    assert not claim.failed


def test_trials_as_listed_claim_nothing(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL, order="as-listed")
    (claim,) = claims(closed, lock, blocks([1.2] * 6))
    assert claim.state == "no claim"
    assert "drift is inside this difference" in claim.sentence


def hard(lock: Lock) -> Lock:
    factors = tuple(
        one.model_copy(update={"change": "restart"}) if one.name == "protocol" else one
        for one in lock.factors
    )
    return lock.model_copy(update={"factors": factors})


def test_blocks_that_share_a_bring_up_are_one(closed: Bench) -> None:
    """Split plot: the unit is the bring-up where the factor needs a restart (METHOD §2)."""
    trials = blocks([1.1, 1.3] * 6)
    lock = hard(lock_with(closed.lock, 12, PROTOCOL))
    shared = {one.trial: (one.block - 1) // 2 * 2 + (one.case in ("TC3", "TC4", "TC5")) for one in trials}
    apart = {one.trial: one.block * 2 + (one.case in ("TC3", "TC4", "TC5")) for one in trials}
    (claim,) = claims(closed, lock, trials, plots=shared)
    assert claim.blocks == 6
    assert claim.ratio.value == pytest.approx((1.1 * 1.3) ** 0.5)
    (claim,) = claims(closed, lock, trials, plots=apart)
    assert claim.blocks == 12


def test_six_bring_ups_make_a_claim_and_five_do_not(closed: Bench) -> None:
    for count, state in ((5, "undecidable"), (6, "claim")):
        lock = hard(lock_with(closed.lock, count, PROTOCOL))
        trials = blocks([1.2, 1.21, 1.19, 1.22, 1.2, 1.23][:count])
        plots = {one.trial: one.block * 2 + (one.case in ("TC3", "TC4", "TC5")) for one in trials}
        (claim,) = claims(closed, lock, trials, plots=plots)
        assert claim.state == state


def test_blocks_of_one_bring_up_are_told_apart_from_independent_ones(closed: Bench) -> None:
    lock = hard(lock_with(closed.lock, 6, PROTOCOL))
    trials = blocks([1.2, 1.21, 1.19, 1.22, 1.2, 1.23])
    plots = {one.trial: (one.block - 1) // 2 * 2 + (one.case in ("TC3", "TC4", "TC5")) for one in trials}
    (claim,) = claims(closed, lock, trials, plots=plots)
    assert "6 of 6 blocks are usable, in 3 independent bring-ups. With 3, p can't" in claim.sentence


def test_plan_tells_what_cannot_be_decided(closed: Bench) -> None:
    found = plan_comparisons(closed.lock)
    assert [one["name"] for one in found] == [
        "cache against backend: cache-hit",
        "cache against backend: cache-miss",
        "HTTPS against HTTP",
    ]
    assert {one["comparison"] for one in found} == {"cache against backend", "HTTPS against HTTP"}
    assert {(one["state"], one["smallest_p"], one["needed_blocks"], one["mde"]) for one in found} == {
        ("undecidable", 1.0, 7, None)
    }
    assert all("undecidable at 2 blocks" in one["sentence"] for one in found)


def test_plan_takes_its_noise_from_the_last_run(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    (before,) = plan_comparisons(lock)
    assert (before["state"], before["mde"]) == ("decidable", None)
    assert "no run" in before["mde_reason"]
    ratios = [1.2, 1.25, 1.19, 1.22, 1.3, 1.21]
    earlier = claims(closed, lock, blocks(ratios))
    (planned,) = plan_comparisons(lock, earlier)
    assert planned["mde"] == pytest.approx(earlier[0].mde)
    assert 0.02 < planned["mde"] < 0.08
    assert "detects" in planned["sentence"]


def test_effects_of_a_synthetic_run_are_found(tmp_path: Path) -> None:
    bench = bench_of(make_run(tmp_path, replicates=8, seed=3))
    found = judge_run(bench.lock, bench.configs, bench.trials())
    truth = bench.run.truth
    expected = {
        "cache against backend: cache-hit": truth.ratio("TC1", "TC0"),
        "cache against backend: cache-miss": truth.ratio("TC2", "TC0"),
        "HTTPS against HTTP": truth.ratio("TC3", "TC0"),
    }
    for claim in found.claims:
        assert claim.state == "claim"
        assert claim.ratio.low is not None
        assert claim.ratio.high is not None
        assert claim.ratio.low / 1.02 < expected[claim.name] < claim.ratio.high * 1.02


def test_two_runs_are_compared_and_labelled(tmp_path: Path) -> None:
    slow = {"protocol": {"http": 1.3}}
    first, second = (
        bench_of(make_run(tmp_path / str(number), cases=2, replicates=4, seed=number, effects=effects))
        for number, effects in ((1, {}), (2, slow))
    )
    a, b = (judge_run(one.lock, one.configs, one.trials()) for one in (first, second))
    rows = {(row["case"], row["metric"]): row for row in compare_runs(a, b)}
    row = rows["TC0", "probe.response.p50"]
    assert row["ratio"] == pytest.approx(1.3, rel=0.1)
    assert row["low"] < row["ratio"] < row["high"]
    assert row["note"] == NOT_INTERLEAVED
    assert row["n"] == [4, 4]
    same = next(one for one in compare_runs(a, a) if one["metric"] == "probe.response.p50")
    assert same["ratio"] == pytest.approx(1.0)


def test_closed_is_never_compared_with_open(tmp_path: Path) -> None:
    runs = [
        bench_of(make_run(tmp_path / load, cases=1, replicates=1, load=load)) for load in ("closed", "open")
    ]  # type: ignore[arg-type]
    a, b = (judge_run(one.lock, one.configs, one.trials()) for one in runs)
    rows = compare_runs(a, b)
    background = [row for row in rows if row["metric"].startswith("background")]
    assert [row["ratio"] for row in background] == [None]
    assert "never compared" in background[0]["note"]
    assert any(row["ratio"] for row in rows if row["metric"].startswith("probe"))


def test_a_pooled_ratio_is_the_mean_over_matched_cases(closed: Bench) -> None:
    trials = [
        one
        for block in range(1, 7)
        for one in (
            trial("TC0", block, 1.0),
            trial("TC3", block, exp(0.1)),
            trial("TC1", block, 2.0),
            trial("TC4", block, 2 * exp(0.3)),
            trial("TC2", block, 1.0),
            trial("TC5", block, exp(0.2)),
        )
    ]
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials)
    assert claim.ratio.value == pytest.approx(exp(0.2))


def test_a_comparison_whose_cases_were_left_out_says_so(tmp_path: Path) -> None:
    bench = bench_of(make_run(tmp_path, cases=4, replicates=2))
    kept = bench.lock.valid_cases[0].name
    left_out = tuple(
        one if one.name == kept else one.model_copy(update={"excluded": "left out by --only"})
        for one in bench.lock.cases
    )
    lock = lock_with(bench.lock.model_copy(update={"cases": left_out}), 2, PROTOCOL)
    trials = [one for one in bench.trials() if one.case == kept]
    findings = judge_run(lock, {kept: bench.configs[kept]}, trials)
    assert [claim.state for claim in findings.claims] == ["refused"]
    assert "No two of its cases were part of this run" in findings.claims[0].sentence
    assert "believed" not in findings.claims[0].sentence
