"""Claims: the statistic over pairs, lost trials, what keeps a claim undecided, and what is never claimed but
perhaps described."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.analysis.conftest import Bench, bench_of, with_config
from tests.evolve import evolve
from tests.results import case_result, trial_result
from tests.support import make_run

from svload.analysis.claims.decide import judge_claims
from svload.analysis.claims.evidence import cases_range
from svload.analysis.claims.pairs import Gathered, Made
from svload.analysis.claims.statistic import Effect, apart, leaning, stretched, weights
from svload.analysis.contrasts import contrasts_of, plan_comparisons
from svload.analysis.explored import load_effects, success_words
from svload.analysis.floor import LabFloor, load_of
from svload.analysis.judge import judge_run
from svload.analysis.runs import NOT_INTERLEAVED, compare_runs
from svload.model.certificates import AaCertificate, Floor
from svload.model.executors import ConstantVus
from svload.model.results import CheckResult, Claim, Estimate, Finding, Findings, Grade, Harm, TrialResult
from svload.model.study import CaseConfig, Comparison, Lock, Measure
from svload.report.wording.claimed import rules_out

P50 = "probe.response.p50"
PROTOCOL = Comparison(name="tls", factor="protocol", baseline="http", metric=P50)
SERVER = Comparison(name="cache", factor="server", baseline="backend", metric=P50)
ONE = evolve(PROTOCOL, when={"server": "backend"})
MATCHED = (("TC0", "TC3"), ("TC1", "TC4"), ("TC2", "TC5"))
"""Cases with http and https."""
HTTP, HTTPS = ("TC0", "TC1", "TC2"), ("TC3", "TC4", "TC5")
RATIOS = [1.2, 1.25, 1.19, 1.22, 1.3, 1.21]
FLAT = [1.0, 1.004, 0.997, 1.002, 1.001, 0.996]
CALM = ((0.01, 0.01),) * 6
BUSY = ((0.01, 0.01), (0.6, 0.02), (0.01, 0.7), (0.02, 0.01), (0.5, 0.6), (0.01, 0.01))


def lock_with(lock: Lock, replicates: int, *comparisons: Comparison, **measure: Any) -> Lock:
    planned = Measure(duration_ns=10**9, replicates=replicates, **measure)
    return evolve(lock, measure=planned, comparisons=comparisons)


def gated(fail_if: str = "worse by more than 5 %", **more: Any) -> Comparison:
    return evolve(PROTOCOL, fail_if=fail_if, **more)


def trial(
    case: str, block: int, value: float | None, grade: Grade = "VALID", success: float = 1.0, reason: str = ""
) -> TrialResult:
    metrics = {P50: Estimate(value=value, reason=reason), "probe.success_rate": Estimate(value=success)}
    return trial_result(case, block, metrics, instrument=grade)


def claims(
    bench: Bench, lock: Lock, trials: list[TrialResult], made: dict[str, Made] | None = None
) -> tuple[Claim, ...]:
    return judge_claims(lock, bench.configs, trials, made or {})


def claim_of(
    bench: Bench,
    trials: list[TrialResult],
    comparison: Comparison = PROTOCOL,
    planned: int = 6,
    made: dict[str, Made] | None = None,
    **measure: Any,
) -> Any:
    """Return the claim of a study with one comparison over this number of planned blocks."""
    (claim,) = claims(bench, lock_with(bench.lock, planned, comparison, **measure), trials, made)
    return claim


def blocks(
    ratios: list[float], cases: tuple[tuple[str, str], ...] = MATCHED, **more: Any
) -> list[TrialResult]:
    """Return trials of the matched http and https cases whose ratio is given block by block."""
    return [
        one
        for block, ratio in enumerate(ratios, start=1)
        for number, (http, https) in enumerate(cases, start=1)
        for one in (trial(http, block, 0.01 * number), trial(https, block, 0.01 * number * ratio, **more))
    ]


def names(cases: tuple[str, ...] = HTTPS, blocks: Iterable[int] = range(1, 7)) -> list[str]:
    return [f"{case}.r{block}" for case in cases for block in blocks]


def with_metrics(one: TrialResult, **values: Any) -> TrialResult:
    """Set numbers of the probe; `response__p50` is its `response.p50`."""
    new = {f"probe.{name.replace('__', '.')}": value for name, value in values.items()}
    return evolve(one, metrics={**one.metrics, **new})


def scaled(trials: list[TrialResult], factors: Mapping[str, float]) -> list[TrialResult]:
    """Multiply the median of these cases' trials."""
    return [
        with_metrics(one, response__p50=Estimate(value=one.metrics[P50].value * factors.get(one.case, 1)))
        for one in trials
    ]


def doubted(one: TrialResult, check: str, grade: Grade = "REFUSED", number: str = "all", below: float | None = None) -> TrialResult:  # fmt: skip
    """Add a check that doubts their numbers."""
    text = CheckResult(check=check, grade=grade, sentence="", harms=(Harm(number=number, grade=grade, below=below),))  # fmt: skip
    return evolve(one, verdict__checks=(*one.verdict.checks, text), verdict__instrument=grade)


def without(trials: list[TrialResult], *names: str) -> list[TrialResult]:
    return [one for one in trials if one.trial not in names]


def broken(trials: list[TrialResult], *names: str) -> list[TrialResult]:
    """Mark these trials as broken: they did not run their case."""
    return [doubted(one, "manipulation") if one.trial in names else one for one in trials]


def beside(trials: list[TrialResult], *shares: tuple[float, float], slower: float = 1.0) -> list[TrialResult]:
    """Set the strangers' shares of the machine beside baseline and treatment, block by block; trials
    beside more than a tenth take `slower` times as long."""
    found = []
    for one in trials:
        share = shares[one.block - 1][one.case in HTTPS]
        (longer,) = scaled([one], {one.case: slower if share > 0.1 else 1})
        found.append(evolve(longer, strangers=share))
    return found


def test_where_nothing_is_missing_it_is_t_over_block_means(closed: Bench) -> None:
    claim = claim_of(closed, blocks(RATIOS))
    expected = stats.ttest_1samp(np.log(RATIOS), 0)
    interval = [exp(end) for end in expected.confidence_interval()]
    assert (claim.outcome, claim.blocks) == ("decided", 6)
    assert (len(claim.evidence), claim.believed_of) == (18, (18, 18))
    assert claim.ratio.value == pytest.approx(exp(float(np.mean(np.log(RATIOS)))))
    assert claim.single == pytest.approx(interval)
    assert (claim.ratio.low, claim.ratio.high) == pytest.approx(interval), "one claim alone"
    assert claim.p == claim.p_adjusted == pytest.approx(expected.pvalue)
    assert claim.p_sign_flip < 0.001, "18 pairs, all of one sign"


def test_one_trial_that_was_not_made_costs_its_pair_alone(closed: Bench) -> None:
    """Four blocks, a 33-fold effect, one trial missing: sign flips over whole blocks could not decide it."""
    per_block = [0.0300, 0.0305, 0.0296, 0.0301]
    claim = claim_of(closed, without(blocks(per_block), "TC4.r3"), planned=4)
    assert (claim.outcome, claim.blocks, claim.believed_of) == ("decided", 4, (11, 12))
    assert [(one.block, one.baseline, one.treatment, one.side, one.why) for one in claim.lost] == [
        (3, "TC1", "TC4", "treatment", "missing")
    ]
    whole, short = np.log(per_block), np.log([per_block[0], per_block[1], per_block[3]])
    assert claim.ratio.value == pytest.approx(exp((2 * whole.mean() + short.mean()) / 3))


def test_what_is_left_of_the_cases_is_never_called_no_difference(closed: Bench) -> None:
    """Cases that kept their pairs show nothing of the others: the only one left has no effect, those 25 %."""
    still = blocks([1.0, 1.01, 0.99, 1.0, 1.01, 0.99])
    lost = names(("TC4", "TC5"))
    part = claim_of(closed, without(scaled(still, {"TC4": 1.25, "TC5": 1.25}), *lost), gated())
    assert part.dropped_cases == ("TC4 against TC1", "TC5 against TC2")
    assert (part.outcome, part.gate.outcome) == ("open", "open")
    assert part.gate.why == "2 of its 3 cases have too few pairs"
    whole = claim_of(closed, still, gated())
    assert (whole.outcome, whole.gate.outcome) == ("no difference", "pass")
    one_pair = claim_of(closed, without(blocks(RATIOS), *names(("TC5",), range(2, 7))))
    assert (one_pair.outcome, one_pair.dropped_cases) == ("decided", ("TC5 against TC2",))


def test_fewer_than_three_blocks_are_open_and_none_is_refused(closed: Bench) -> None:
    claim = claim_of(closed, blocks([2.0, 2.1]), planned=2)
    assert (claim.outcome, claim.p, claim.ratio.low) == ("open", None, None)
    assert claim.why_open == "it has 2 blocks, 3 are needed"
    claim = claim_of(closed, broken(blocks(RATIOS), *names()))
    assert (claim.outcome, claim.ratio.value, len(claim.lost)) == ("refused", None, 18)


def test_what_is_open_says_how_many_more_blocks_would_decide(closed: Bench) -> None:
    """In turns all six trials of a block begin together, with a block per minute; throughput is not per turn."""
    trials = blocks([1.5, 0.9, 1.6, 0.85, 1.4, 1.0])
    alone = {one.trial: Made(0, 60.0 * place) for place, one in enumerate(trials)}
    claim = claim_of(closed, trials, made=alone)
    assert claim.outcome == "open"
    assert claim.more_s == pytest.approx(claim.more_blocks * 6 * 60)
    together = {one.trial: Made(0, 60.0 * one.block + 0.001 * place) for place, one in enumerate(trials)}
    claim = claim_of(closed, trials, made=together, order="turns")
    assert claim.more_s == pytest.approx(claim.more_blocks * 60, rel=0.01)


def test_holm_and_bonferroni_count_every_claim_of_the_study(closed: Bench) -> None:
    found = claims(closed, lock_with(closed.lock, 6, PROTOCOL, SERVER), blocks(RATIOS))
    assert [one.name for one in found] == ["tls", "cache: cache-hit", "cache: cache-miss"]
    x = np.log(RATIOS)
    half = stats.t.ppf(1 - 0.025 / 3, 5) * stats.sem(x)
    tls = found[0]
    assert (tls.ratio.low, tls.ratio.high) == pytest.approx((exp(x.mean() - half), exp(x.mean() + half)))
    assert tls.single[0] > tls.ratio.low


def test_p_and_interval_never_disagree(closed: Bench) -> None:
    """Holm's correction decides that there is a change; the interval for three claims alone would include
    none, so it is cut off on that side."""
    lock = lock_with(closed.lock, 6, PROTOCOL, SERVER)
    noisy = blocks([1.01, 1.3, 1.05, 1.25, 1.02, 1.2])
    tls = claims(closed, lock, scaled(noisy, {"TC1": 3, "TC4": 3, "TC2": 5, "TC5": 5}))[0]
    assert tls.outcome == "decided" and 0.02 < tls.p_adjusted <= 0.05
    assert tls.ratio.low == 1.0
    rng = np.random.default_rng(5)
    for _ in range(60):
        for claim in claims(closed, lock, blocks(list(np.exp(rng.normal(0.05, 0.06, 6))))):
            assert (claim.p_adjusted <= 0.05) == (claim.ratio.low >= 1 or claim.ratio.high <= 1)


def test_per_case_makes_one_claim_a_pair_and_when_restricts_the_pairs(closed: Bench) -> None:
    found = claims(closed, lock_with(closed.lock, 6, evolve(PROTOCOL, per="case")), blocks(RATIOS))
    assert [(one.pairs, one.outcome) for one in found] == [((pair,), "decided") for pair in MATCHED]
    assert [contrast.pairs for contrast in contrasts_of(lock_with(closed.lock, 6, ONE))] == [(MATCHED[0],)]


def test_an_interaction_is_made_of_quadruples(closed: Bench) -> None:
    """https costs × 1.2 at the backend and × 1.5 for cache hits: the effect is 1.25 × as large there. A
    quadruple is lost with any of its trials."""
    lock = lock_with(closed.lock, 6, evolve(PROTOCOL, by="server"))
    assert [one.cells for one in contrasts_of(lock)] == [
        (("TC1", "TC4", "TC0", "TC3"),),
        (("TC2", "TC5", "TC0", "TC3"),),
    ]
    medians = {"TC0": 1.0, "TC3": 1.2, "TC1": 0.1, "TC4": 0.15, "TC2": 2.0, "TC5": 2.4}
    trials = [
        trial(case, block, median * (wobble if case in ("TC4", "TC5") else 1))
        for block, wobble in enumerate([1.0, 1.01, 0.99, 1.02, 1.0, 0.98], 1)
        for case, median in medians.items()
    ]
    hit, miss = claims(closed, lock, trials)
    assert (hit.by, hit.by_levels, hit.outcome) == ("server", ("cache-hit", "backend"), "decided")
    assert hit.ratio.value == pytest.approx(1.25, rel=0.01)
    assert hit.evidence[0].against == ("TC0.r1", "TC3.r1")
    assert miss.outcome == "no difference"
    hit, miss = claims(closed, lock, without(trials, "TC0.r2", "TC5.r4"))
    assert (hit.believed_of, miss.believed_of) == ((5, 6), (4, 6))


# bring-ups


def hard(bench: Bench) -> Bench:
    """Return the bench with a protocol that restarts its servers."""
    factors = (evolve(one, change="restart") if one.name == "protocol" else one for one in bench.lock.factors)
    return evolve(bench, lock__factors=tuple(factors))


def in_plots(trials: list[TrialResult], plot: Callable[[TrialResult], int]) -> dict[str, Made]:
    return {one.trial: Made(plot(one), float(place)) for place, one in enumerate(trials)}


@pytest.mark.parametrize(
    ("count", "blocks_each", "units", "outcome"),
    [(12, 2, 6, "decided"), (12, 1, 12, "decided"), (6, 1, 6, "decided"), (5, 1, 5, "open")],
)
def test_a_claim_over_a_restart_counts_bring_ups_and_needs_six(
    closed: Bench, count: int, blocks_each: int, units: int, outcome: str
) -> None:
    trials = blocks([1.1, 1.3, 1.12, 1.28, 1.09, 1.31, 1.1, 1.3, 1.11, 1.3, 1.1, 1.29][:count])
    made = in_plots(trials, lambda one: (one.block - 1) // blocks_each * 2 + (one.case in HTTPS))
    claim = claim_of(hard(closed), trials, planned=count, made=made)
    assert (claim.blocks, claim.unit, claim.bring_ups, claim.outcome) == (units, "bring-up", units, outcome)
    assert ("it has 5 bring-ups, 6 are needed" in claim.why_open) == (outcome == "open")


@pytest.mark.parametrize(
    ("bring_ups", "unit", "units", "outcome"),
    [(1, "block", 12, "decided"), (5, "block", 12, "decided"), (6, "bring-up", 6, "open")],
)
def test_a_difference_that_each_bring_up_decides_again_is_open_from_six_on(
    closed: Bench, bring_ups: int, unit: str, units: int, outcome: str
) -> None:
    """± 10 % by bring-up, two blocks each that agree: twelve blocks would seem certain, but not six starts."""
    effects = [1.1, 0.92, 1.12, 1.0, 1.08, 1.11]
    trials = blocks([effect * wobble for effect in effects for wobble in (1.0, 1.002)])
    made = in_plots(trials, lambda one: (one.block - 1) * bring_ups // 12)
    claim = claim_of(closed, trials, planned=12, made=made, bring_ups=bring_ups)
    assert (claim.unit, claim.blocks, claim.bring_ups) == (unit, units, bring_ups)
    assert claim.outcome == outcome


# strangers, and broken trials


def test_no_disturbance_takes_a_pair_or_changes_a_comparison(closed: Bench) -> None:
    """Checks of strangers refuse all numbers, and all pairs still count. D3, D4: the scatter of pairs already
    contains a bound; an unknown one used to be read as zero."""
    refused = calm = beside(blocks(FLAT), *CALM)
    of_machine = ("steal", "others-cpu", "run-queue", "hiccups", "calibration")
    for check in (*of_machine, "generator-harm", "steadiness"):
        refused = [doubted(one, check, number="timing") for one in refused]
    unknown, known = (
        [doubted(one, "steadiness", "WEAK", "timing", below) for one in calm] for below in (None, 0.06)
    )
    clean = claim_of(closed, calm, gated())
    for trials in (refused, unknown, known):
        claim = claim_of(closed, trials, gated())
        assert (claim.outcome, claim.gate.outcome) == ("no difference", "pass")
        assert (claim.believed_of, claim.single) == ((18, 18), clean.single)


def test_calmer_pairs_weigh_more(closed: Bench) -> None:
    """Strangers beside half of the pairs triple these on one side: a plain mean would hide the effect."""
    trials = beside(blocks([1.15 * one for one in FLAT]), *BUSY, slower=3.0)
    claim = claim_of(closed, trials, gated())
    assert claim.strangers.readable
    assert claim.ratio.value == pytest.approx(1.15, rel=0.15)
    calm_pairs = 3 * (3 + sum(1 / (1 + (x / 0.2) ** 2) for x in (0.6, 0.7, 0.6)))
    assert claim.strangers.calm_pairs == pytest.approx(calm_pairs, rel=0.15)
    unread = claim_of(closed, [evolve(one, strangers=None) for one in trials], gated())
    assert not unread.strangers.readable
    assert claim.single[1] / claim.single[0] < unread.single[1] / unread.single[0] / 1.5


def test_weights_that_lean_count_alike(closed: Bench) -> None:
    claim = claim_of(closed, beside(blocks(RATIOS), *((0.05, 0.4),) * 6), ONE)
    assert claim.strangers.lean_p == pytest.approx(2 / 2**6)
    assert claim.single == claim_of(closed, blocks(RATIOS), ONE).single
    assert claim.strangers.sides == pytest.approx((0.05, 0.4))


def test_a_difference_that_other_programs_can_hide_is_no_pass(closed: Bench) -> None:
    """Stretched by 1/(1 − 0.4·x/(1 − p)) equal sides pass beside few strangers, not beside many."""
    within = []
    for share, outcome in ((0.0, "pass"), (0.3, "pass"), (1.0, "open")):
        trials = beside(blocks(FLAT), *((share, share),) * 6)
        claim = claim_of(closed, trials, gated("worse by more than 1 %"))
        assert claim.strangers.dilution == pytest.approx(0.8 * share)
        assert claim.gate.outcome == outcome
        within.append(claim.within)
    assert within[0] < within[1] < within[2]
    unread = [evolve(one, strangers=None) if one.trial == "TC0.r1" else one for one in trials]
    claim = claim_of(closed, unread, gated("worse by more than 1 %"))
    assert (claim.strangers.readable, claim.gate.outcome) == (False, "open"), "the others had no less"
    tail = evolve(ONE, metric="probe.response.p95", fail_if="worse by more than 5 %")
    shared = beside(blocks(FLAT), *((0.3, 0.3),) * 6)
    claim = claim_of(closed, [with_metrics(one, response__p95=one.metrics[P50]) for one in shared], tail)
    assert (claim.outcome, claim.gate.outcome) == ("open", "open")


def test_a_pass_says_what_it_cannot_know(closed: Bench) -> None:
    """D12: six trials don't show that one in ten is bad."""
    unread = claim_of(closed, blocks(FLAT), gated()).gate
    assert unread.outcome == "pass"
    assert "the server's machine could not be read" in unread.why
    claim = claim_of(closed, beside(blocks(FLAT), *CALM), gated())
    assert "could not be read" not in claim.gate.why
    text = "6 replicates rule out slow runs that are more frequent than 39 %; the worst trial was"
    assert text in rules_out(claim)
    assert claim.spread[1].worst == pytest.approx(1.004, abs=0.001)


@pytest.mark.parametrize(
    ("metric", "fail_if", "worst"),
    [
        ("throughput", None, 0.996),
        ("throughput", "different by more than 5 %", 0.996),
        ("response.p50", "better by more than 5 %", 1.004),
    ],
)
def test_the_worst_trial_is_the_lowest_where_more_is_better(
    closed: Bench, metric: str, fail_if: str | None, worst: float
) -> None:
    trials = [with_metrics(one, throughput=one.metrics[P50]) for one in blocks(FLAT)]
    claim = claim_of(closed, trials, evolve(PROTOCOL, metric=f"probe.{metric}", fail_if=fail_if))
    assert claim.spread[1].worst == pytest.approx(worst, abs=0.001)


def test_what_busy_pairs_say_holds_back_a_pass(closed: Bench) -> None:
    """The treatment disturbs half of its own trials: the calm pairs alone would pass it."""
    shares = tuple((0.01, 0.9 if block % 3 == 0 else 0.01) for block in range(1, 13))
    ratios = [1.5 if block % 3 == 0 else FLAT[block % 6] for block in range(1, 13)]
    claim = claim_of(closed, beside(blocks(ratios, MATCHED[:1]), *shares), gated(), 12)
    assert claim.strangers.lean_p > 0.1, "four of four is chance"
    assert claim.gate.outcome == "open"


def test_the_generators_own_delays_are_taken_off(closed: Bench) -> None:
    """The generator adds 10 % to the treatment alone (planted) or to both sides (clean)."""

    def delayed(ratios: list[float], *cases: str) -> Any:
        lag = 1 - 1 / 1.1
        return claim_of(closed, [
            doubted(one, "generator-harm", "VALID", P50, lag) if one.case in cases else one
            for one in blocks([1.1 * one for one in ratios])
        ])  # fmt: skip

    claim = delayed(FLAT, *HTTPS)
    assert claim.without_lag == pytest.approx(1.0, abs=0.001)
    assert claim.outcome == "open" and claim.single[0] < 1 < claim.single[1]
    alone = delayed([1.0], *HTTPS)
    assert (alone.ratio.value, alone.without_lag) == (None, None), "one block tells neither"
    both = delayed(FLAT, *HTTP, *HTTPS)
    assert both.outcome == "decided" and both.ratio.value == pytest.approx(1.1, abs=0.001)


def test_broken_pairs_are_taken_at_the_worst_of_the_others(closed: Bench) -> None:
    claim = claim_of(closed, broken(blocks(RATIOS), "TC4.r1", "TC5.r4"), gated())
    clean = claim_of(closed, blocks(RATIOS), gated())
    assert (claim.believed_of, claim.outcome) == ((16, 18), "decided")
    assert claim.p > clean.p
    assert claim.single[0] < clean.single[0] < clean.single[1] < claim.single[1]
    wild = blocks([1.2, 1.25, 0.9, 1.22, 1.3, 1.21])
    lost = [*names(("TC4",), (1, 2, 4)), *names(("TC5",), (4, 5))]
    assert claim_of(closed, broken(wild, *lost), gated()).outcome == "open"
    flat = claim_of(closed, broken(blocks(FLAT), "TC4.r1"), gated())
    assert (flat.outcome, flat.gate.outcome) == ("open", "open")


def test_what_is_as_if_it_had_not_been_made(closed: Bench) -> None:
    """A trial during which the clock was set, and one that an older svload made once more."""
    trials = [doubted(one, "clocks") if one.trial == "TC4.r1" else one for one in blocks(FLAT)]
    claim = claim_of(closed, trials)
    assert (claim.outcome, [one.why for one in claim.lost]) == ("no difference", ["missing"])
    again = evolve(trial("TC4", 3, 9.0), trial="TC4.r7", replicate=7)
    clean = claim_of(closed, blocks(RATIOS))
    assert claim_of(closed, [*blocks(RATIOS), again]).single == clean.single


def test_a_noisy_lab_never_makes_a_difference_none(closed: Bench) -> None:
    """D5: 15 to 18 % in each block, in a lab that differs from itself by 29 %."""
    floors = tuple(
        Floor(load=load_of(config), metric=P50, pairs=20, floor=0.6, sd=0.3)
        for config in closed.configs.values()
    )
    certificate = AaCertificate.model_construct(floors=floors, restarts=False)
    trials = blocks([1.15, 1.18, 1.16, 1.17, 1.15, 1.16])
    (claim,) = judge_claims(lock_with(closed.lock, 6, PROTOCOL), closed.configs, trials, {}, certificate)
    assert (claim.outcome, claim.why_open) == ("open", "it is below what the lab shows against itself")


def test_numbers_on_a_lattice_prove_nothing_by_agreeing(closed: Bench) -> None:
    """D10: three blocks with the candidate one bucket higher had p = 0 and an interval without width."""
    claim = claim_of(closed, blocks([1.0078] * 3, MATCHED[:1]), ONE, 3)
    assert claim.outcome == "no difference" and claim.p > 0.05
    assert claim.single[1] - claim.single[0] > 0.01
    same = claim_of(closed, blocks([1.0] * 3, MATCHED[:1]), ONE, 3)
    assert same.single == pytest.approx((1 / 1.008, 1.008), abs=5e-4), "a bucket is a 128th wide"
    ms = [
        trial(case, block, value) for block in (1, 2, 3) for case, value in (("TC0", 0.003), ("TC3", 0.004))
    ]
    assert claim_of(closed, ms, ONE, 3).outcome == "open", "whole milliseconds: a step of 33 %"


# order, cases


def carried(
    bench: Bench, count: int, carry: float, effect: float = 0.0, seed: int = 3, sd: float = 0.01
) -> Any:
    """Judge blocks in random order, in which the baseline is slower right after the treatment."""
    rng = np.random.default_rng(seed)
    trials, made, before = [], {}, ""
    for block in range(1, count + 1):
        for case in rng.permutation(["TC0", "TC3"]):
            log = effect * (case == "TC3") + carry * (case == "TC0" and before == "TC3") + sd * rng.normal()
            trials.append(trial(str(case), block, exp(log)))
            made[trials[-1].trial] = Made(0, float(len(trials)))
            before = case
    return claim_of(bench, trials, ONE, count, made)


@pytest.mark.parametrize(("units", "known"), [(5, False), (7, True)])
def test_what_ran_before_is_judged_from_six_units_on(closed: Bench, units: int, known: bool) -> None:
    for seed in range(6):
        assert (carried(closed, units, 0.1, seed=seed).carry_over is not None) is known


@pytest.mark.parametrize(("scatter", "within", "outcome"), [(0.045, 0.0413, "no difference"), (0.06, 0.0551, "open")])  # fmt: skip
def test_no_difference_is_below_5_percent(closed: Bench, scatter: float, within: float, outcome: str) -> None:
    ratios = [1 + scatter * share for share in (1, -1, 0.5, -0.5, 0.8, -0.8)]
    claim = claim_of(closed, blocks(ratios, MATCHED[:1]), ONE)
    assert claim.within == pytest.approx(within, abs=1e-4)
    assert claim.within == pytest.approx(max(claim.ratio.high - 1, 1 - claim.ratio.low))
    assert claim.outcome == outcome


def test_an_effect_of_what_ran_before_is_no_claim(closed: Bench) -> None:
    """D9: without an effect, but a baseline 5 % slower after the treatment, 57 to 89 % claimed one."""
    wrong = [carried(closed, 12, 0.05, seed=seed).outcome for seed in range(40)]
    assert wrong.count("decided") <= 5
    right = [carried(closed, 12, 0.0, effect=0.1, seed=seed).outcome for seed in range(40)]
    assert right == ["decided"] * 40
    claim = carried(closed, 12, 0.1)
    assert claim.outcome == "open" and claim.carry_over.differs
    assert "it depends on which side ran just before" in claim.why_open
    assert carried(hard(closed), 12, 0.1).carry_over is None, "servers restart"


# the plan


def plan_of(bench: Bench, planned: int = 12, earlier: Any = (), **measure: Any) -> dict[str, Any]:
    (found,) = plan_comparisons(lock_with(bench.lock, planned, PROTOCOL, **measure), earlier)
    return found


def test_plan_shows_what_cannot_be_decided(closed: Bench) -> None:
    found = plan_comparisons(closed.lock)
    names = ["cache against backend: cache-hit", "cache against backend: cache-miss", "HTTPS against HTTP"]
    assert [(one["name"], one["comparison"]) for one in found] == [(one, one.split(":")[0]) for one in names]
    assert {(one["state"], one["needed_blocks"], one["mde"]) for one in found} == {("undecidable", 3, None)}
    assert all("undecidable with 2 blocks; needs at least 3 blocks" in one["sentence"] for one in found)


def test_a_plan_over_a_restart_needs_six_blocks_and_one_as_listed_decides_nothing(closed: Bench) -> None:
    five, six = plan_of(hard(closed), 5), plan_of(hard(closed), 6)
    assert (five["state"], six["state"], six["needed_blocks"]) == ("undecidable", "decidable", 6)
    assert "The result holds for these 2 bring-ups only" in plan_of(closed, bring_ups=2)["sentence"]
    assert "The result holds for" not in plan_of(closed, bring_ups=6)["sentence"]
    listed, found = plan_of(closed, order="as-listed"), plan_of(closed)
    assert (listed["state"], listed["mde"]) == ("undecidable", None)
    assert listed["remedy"] == "Remove order: as-listed"
    assert "trials run as listed" in listed["reason"] and listed["reason"] in listed["sentence"]
    assert (found["state"], found["reason"], found["remedy"]) == ("decidable", "", "")


def test_plan_takes_its_noise_from_the_last_run(closed: Bench) -> None:
    before = plan_of(closed, 6)
    assert (before["state"], before["mde"]) == ("decidable", None)
    assert "noise is unknown" in before["mde_reason"]
    lock = lock_with(closed.lock, 6, PROTOCOL)
    earlier = claims(closed, lock, blocks(RATIOS))
    planned = plan_of(closed, 6, earlier)
    assert planned["mde"] == pytest.approx(earlier[0].mde)
    assert 0.02 < planned["mde"] < 0.08
    assert "detects" in planned["sentence"]
    floor = Floor(load="", metric="", pairs=20, floor=0.6, sd=0.3)
    (with_floor,) = plan_comparisons(lock, earlier, lambda _: LabFloor(floor))
    assert with_floor["mde"] == pytest.approx(exp(LabFloor(floor).of_mean(6, 1)) - 1), "no claim below it"


# runs


def judged(folder: Path, **options: Any) -> tuple[Bench, Findings]:
    bench = bench_of(make_run(folder, **options))
    return bench, judge_run(bench.lock, bench.configs, bench.trials())


def test_effects_of_a_synthetic_run_are_found(tmp_path: Path) -> None:
    bench, found = judged(tmp_path, replicates=8, seed=3)
    truth = bench.run.truth
    expected = {
        "cache against backend: cache-hit": truth.ratio("TC1", "TC0"),
        "cache against backend: cache-miss": truth.ratio("TC2", "TC0"),
        "HTTPS against HTTP": truth.ratio("TC3", "TC0"),
    }
    for claim in found.claims:
        assert claim.outcome == "decided"
        assert claim.ratio.low / 1.02 < expected[claim.name] < claim.ratio.high * 1.02


def test_two_runs_are_compared_and_labelled(tmp_path: Path) -> None:
    _, a = judged(tmp_path / "1", cases=2, replicates=4, seed=1)
    _, b = judged(tmp_path / "2", cases=2, replicates=4, seed=2, effects={"protocol": {"http": 1.3}})
    (row,) = (row for row in compare_runs(a, b) if (row["case"], row["metric"]) == ("TC0", P50))
    assert row["ratio"] == pytest.approx(1.3, rel=0.1)
    assert (row["note"], row["n"]) == (NOT_INTERLEAVED, [4, 4])
    assert "interval" not in row["sentence"], "days differ, and two can't say by how much"
    assert not {"low", "high"} & set(row)
    same = next(one for one in compare_runs(a, a) if one["metric"] == P50)
    assert same["ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("lacking", "note"),
    [
        (Estimate(value=None, reason="> timeout (70 % failed)", why="time-out"), "> timeout (70 % failed)"),
        (Estimate(value=0.0), "its value is 0, which has no ratio"),
    ],
)
def test_what_has_no_ratio_between_two_runs_says_why(tmp_path: Path, lacking: Estimate, note: str) -> None:
    _, found = judged(tmp_path, cases=1, replicates=2)
    first, *rest = found.trials
    worse = evolve(found, trials=(evolve(first, metrics={**first.metrics, P50: lacking}), *rest))
    (row,) = (row for row in compare_runs(found, worse) if row["metric"] == P50)
    assert (row["ratio"], row["note"], row["n"]) == (None, f"second run: {note}", [2, 2])


def test_the_only_cases_of_two_runs_are_compared_whatever_they_are_called(tmp_path: Path) -> None:
    _, found = judged(tmp_path, cases=1, replicates=2)
    trials = tuple(evolve(one, case="shop") for one in found.trials)
    cases = tuple(evolve(one, case="shop") for one in found.cases if not one.excluded)
    renamed = evolve(found, cases=cases, trials=trials)
    ratios = [row["ratio"] for row in compare_runs(found, renamed) if row["metric"] == P50]
    assert ratios == [pytest.approx(1.0)]
    two = evolve(found, cases=(*cases, *cases))
    assert compare_runs(found, two) == [], "which of two it is can't be told"


def test_closed_is_never_compared_with_open(tmp_path: Path) -> None:
    a, b = (judged(tmp_path / load, cases=1, replicates=1, load=load)[1] for load in ("closed", "open"))
    rows = compare_runs(a, b)
    (background,) = (row for row in rows if row["metric"].startswith("background"))
    assert background["ratio"] is None
    assert "never compared" in background["note"]
    assert any(row["ratio"] for row in rows if row["metric"].startswith("probe"))


def test_a_comparison_whose_cases_were_left_out_says_so(closed: Bench) -> None:
    kept = closed.lock.valid_cases[0].name
    cases = tuple(
        one if one.name == kept else evolve(one, excluded="left out by --only") for one in closed.lock.cases
    )
    lock = lock_with(evolve(closed.lock, cases=cases), 2, PROTOCOL)
    trials = [one for one in closed.trials() if one.case == kept]
    (claim,) = judge_run(lock, {kept: closed.configs[kept]}, trials).claims
    assert (claim.outcome, claim.why_open) == ("refused", "no two of its cases were part of this run")


# effects of the load itself, described without being asked for


def loaded(bench: Bench, without: tuple[str, ...] = HTTP, **probe: Any) -> dict[str, CaseConfig]:
    """Return the bench's cases; those in `without` lack the background load, which protocol thus adds."""
    found = {}
    for name, config in bench.configs.items():
        if name in without:
            found[name] = evolve(config, groups=tuple(one for one in config.groups if one.name == "probe"))
        else:
            found[name] = with_config(config, "probe", **probe)
    return found


def effects(
    bench: Bench,
    trials: list[TrialResult],
    *comparisons: Comparison,
    configs: Mapping[str, CaseConfig] | None = None,
) -> tuple[Finding, ...]:
    replicates = max(one.block for one in trials)
    values = {one.case: one.metrics for one in trials}
    cases = [case_result(name, metrics=values[name]) for name in bench.configs]
    lock = lock_with(bench.lock, replicates, *comparisons)
    return load_effects(lock, configs or loaded(bench), cases, trials, {})


def test_it_is_described_with_its_ratio_and_no_p(closed: Bench) -> None:
    (found,) = effects(closed, blocks([50.0] * 4), SERVER)
    assert (found.kind, found.certainty) == ("exploratory", "exploratory")
    assert (
        "The load itself (protocol: https against http): the median response of probe is 50 × as long, over "
        "3 matched cases and 12 pairs in 4 blocks, from 50 × (" in found.sentence
    )
    assert found.sentence.endswith("Exploratory: not a planned comparison, so it has no p.")
    assert "p =" not in found.sentence
    assert set(found.evidence) == {f"cases/{name}" for name in (*HTTP, *HTTPS)}


def test_nothing_else_is_described(closed: Bench) -> None:
    trials = blocks([50.0] * 4)
    assert effects(closed, trials, PROTOCOL) == (), "a planned comparison of that factor is enough"
    for configs in (closed.configs, loaded(closed, without=("TC0",))):
        assert effects(closed, trials, configs=configs) == (), "a factor that adds no traffic"
    (probe,) = (group for group in closed.configs["TC0"].groups if group.name == "probe")
    assert isinstance(probe.executor, ConstantVus)
    more = evolve(probe.executor, vus=probe.executor.vus + 1)
    assert effects(closed, trials, configs=loaded(closed, executor=more)) == (), "a probe that asks otherwise"


@pytest.mark.parametrize(("usable", "expected"), [(2, False), (3, True)])
def test_three_blocks_are_needed_to_describe(closed: Bench, usable: int, expected: bool) -> None:
    every = names((*HTTP, *HTTPS), range(usable + 1, 6))
    found = effects(closed, broken(blocks([50.0] * 5), *every))
    assert bool(found) is expected
    assert not expected or f"in {usable} blocks" in found[0].sentence


@pytest.mark.parametrize(("why", "described"), [("too few", True), ("time-out", False)])
def test_a_pair_without_a_number_is_left_out(closed: Bench, why: Any, described: bool) -> None:
    trials = [
        with_metrics(one, response__p50=Estimate(value=None, why=why)) if one.trial == "TC4.r2" else one
        for one in blocks([50.0] * 4)
    ]
    found = effects(closed, trials)
    assert bool(found) is described
    assert not described or "and 11 pairs in 4 blocks" in found[0].sentence


# at the limits


@pytest.mark.parametrize(("apart", "p"), [(0.0235, 0.04), (0.021, 0.06)])
def test_cases_differ_where_chance_makes_it_so_once_in_twenty(apart: float, p: float) -> None:
    rows = np.random.default_rng(8).normal(0, 0.02, (2, 8))
    rows += [[0.0], [apart]] - rows.mean(axis=1, keepdims=True)
    assert stats.ttest_rel(*rows).pvalue == pytest.approx(p, abs=0.006)
    found = Gathered(contrast=Any, logs=rows, unit=tuple(range(8)))
    assert (cases_range(found) is not None) == (p < 0.05)


@pytest.mark.parametrize(("success", "differs"), [(0.9991, False), (0.9988, True)])
def test_success_is_reported_where_it_differs_by_a_tenth_of_a_point(success: float, differs: bool) -> None:
    assert bool(success_words("before", "after", (1.0, success))) == differs


@pytest.mark.parametrize(("pairs", "leans"), [(8, True), (7, False)])
def test_strangers_lean_where_a_coin_would_so_once_in_ten(pairs: int, leans: bool) -> None:
    """All pairs but one on the same side: p 0.07 of 8, 0.125 of 7."""
    x = np.zeros((1, pairs, 2))
    x[0, :, 1], x[0, 0] = 0.3, (0.3, 0.0)
    assert (len(set(weights(x).ravel().round(6))) == 1) == leans


def test_a_pair_weighs_by_the_share_of_other_programs_made_equal_on_both_sides() -> None:
    """Half weight at 20 % of the machine, and at less for a tail; 5 % is added to each side's mean before
    the sides are made equal."""
    alike = np.ones((1, 6, 2))
    for p, calm in ((0.5, 0.2), (0.89, 0.2), (0.9, 0.04), (0.95, 0.02), (0.99, 0.02)):
        assert weights(calm * alike, p) == pytest.approx(0.5)
    one_more = np.array([[[0.3, 0.1]] * 3 + [[0.3, 0.1]] * 2 + [[0.1, 0.3]] * 3])
    baseline, treatment = one_more.mean(axis=1)[0]
    made_equal = one_more * (0.05 + 0.2) / (0.05 + np.array([baseline, treatment]))
    assert weights(one_more) == pytest.approx(1 / (1 + (made_equal.max(axis=-1) / 0.2) ** 2))


@pytest.mark.parametrize(("pull", "rest"), [(0.0, 1.0), (0.89, 0.11), (0.91, 0.0)])
def test_an_interval_is_stretched_by_what_other_programs_may_hide(pull: float, rest: float) -> None:
    ends = (-0.1 / rest, 0.2 / rest) if rest else (-np.inf, np.inf)
    assert stretched(-0.1, 0.2, pull) == pytest.approx(ends)


@pytest.mark.parametrize("p", [0.09, 0.11])
def test_alike_is_apart_from_a_margin_where_it_is_surely_not_zero(p: float) -> None:
    error = 0.1 / stats.t.isf(p / 2, 5)
    alike = Effect(*(np.array(one) for one in (0.1, error, 6, [True])))
    assert bool(apart(alike, None, 0.05)) == (p < 0.1)


@pytest.mark.parametrize(("apart", "p"), [(0.015, 1.0), (0.025, 2 / 2**8)])
def test_shares_within_two_percent_of_the_machine_lean_to_no_side(apart: float, p: float) -> None:
    assert leaning([[[0.1, 0.1 + apart]] * 8]) == pytest.approx(p)
