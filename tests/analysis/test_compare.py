"""Claims: one statistic by pairs, what a lost trial costs, what keeps a claim open, and what is never said."""

from __future__ import annotations

from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.analysis.conftest import Bench, bench_of

from svload.analysis.claims import Made, judge_claims
from svload.analysis.contrasts import contrasts_of, plan_comparisons
from svload.analysis.judge import judge_run
from svload.analysis.runs import NOT_INTERLEAVED, compare_runs
from svload.model.results import Belief, CaseResult, Claim, Estimate, Grade, TrialResult, Verdict
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
    bench: Bench, lock: Lock, trials: list[TrialResult], made: dict[str, Made] | None = None
) -> tuple[Claim, ...]:
    return judge_claims(lock, bench.configs, trials, made or {})


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


RATIOS = [1.2, 1.25, 1.19, 1.22, 1.3, 1.21]


def without(trials: list[TrialResult], *names: str) -> list[TrialResult]:
    """The same with these trials REFUSED."""
    return [trial(one.case, one.block, 9.0, "REFUSED") if one.trial in names else one for one in trials]


def test_where_nothing_is_missing_it_is_t_over_block_means(closed: Bench) -> None:
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS))
    expected = stats.ttest_1samp(np.log(RATIOS), 0)
    low, high = (exp(end) for end in expected.confidence_interval())
    assert claim.outcome == "decided"
    assert (claim.blocks, len(claim.evidence), claim.believed_of) == (6, 18, (18, 18))
    assert claim.ratio.value == pytest.approx(exp(float(np.mean(np.log(RATIOS)))))
    assert claim.single == pytest.approx((low, high))
    assert (claim.ratio.low, claim.ratio.high) == pytest.approx((low, high)), "one claim alone"
    assert claim.p == claim.p_adjusted == pytest.approx(expected.pvalue)
    assert claim.p_sign_flip == 0.03125
    assert claim.overturn_bias == pytest.approx(low - 1)
    assert "Decided: p = 2.1e-05 after Holm over 1 claim, 18 pairs in 6 blocks." in claim.sentence
    assert "Floor unknown: exploratory." in claim.sentence


def test_one_refused_trial_costs_its_pair_alone(closed: Bench) -> None:
    """Four blocks, a 33-fold effect, one refused trial: sign flips over whole blocks could never decide that."""
    per_block = [0.0300, 0.0305, 0.0296, 0.0301]
    trials = without(blocks(per_block), "TC4.r3")
    (claim,) = claims(closed, lock_with(closed.lock, 4, PROTOCOL), trials)
    assert claim.outcome == "decided"
    assert claim.blocks == 4
    assert claim.believed_of == (11, 12)
    assert [(one.block, one.baseline, one.treatment, one.side, one.why) for one in claim.lost] == [
        (3, "TC1", "TC4", "treatment", "refused")
    ]
    whole, short = np.log(per_block), np.log([per_block[0], per_block[1], per_block[3]])
    assert claim.ratio.value == pytest.approx(exp((2 * whole.mean() + short.mean()) / 3))
    assert claim.p_sign_flip == 0.25, "three whole blocks are left: 2/2³"
    assert "Sign flips over whole units give p = 0.25." in claim.sentence
    assert "1 of 12 pairs do not count: 1 by refusals." in claim.sentence


def test_the_jackknife_by_hand(closed: Bench) -> None:
    """Two cases in three blocks, the second case's third pair lost: effects without each block, worked out by hand."""
    logs = {("TC0", "TC3"): [0.1, 0.2, 0.3], ("TC1", "TC4"): [0.2, 0.4, None]}
    trials = [
        one
        for (http, https), values in logs.items()
        for block, value in enumerate(values, 1)
        for one in (trial(http, block, 1.0), trial(https, block, 1.0 if value is None else exp(value)))
    ]
    trials = without(trials, "TC4.r3")
    (claim,) = claims(closed, lock_with(closed.lock, 3, PROTOCOL), trials)
    assert claim.ratio.value == pytest.approx(exp((0.2 + 0.3) / 2))
    left_out = [(0.25 + 0.4) / 2, (0.2 + 0.2) / 2, (0.15 + 0.3) / 2]
    centre = sum(left_out) / 3
    se = sqrt(2 / 3 * sum((one - centre) ** 2 for one in left_out))
    assert claim.p == pytest.approx(2 * stats.t.sf(0.25 / se, 2))


def test_a_case_in_fewer_than_two_blocks_is_dropped_and_named(closed: Bench) -> None:
    trials = without(blocks(RATIOS), *(f"TC5.r{block}" for block in range(2, 7)))
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials)
    assert claim.outcome == "decided"
    assert claim.dropped_cases == ("TC5 against TC2",)
    assert "Left out, too few pairs: TC5 against TC2." in claim.sentence


def test_what_is_left_of_the_cases_is_never_called_no_difference(closed: Bench) -> None:
    """Cases that kept their pairs say nothing of the others: the only one left here has no effect, the others 25 %."""
    gated = PROTOCOL.model_copy(update={"fail_if": "worse by more than 5 %"})
    lock = lock_with(closed.lock, 6, gated)
    flat = [
        trial(one.case, one.block, one.metrics["probe.response.p50"].value * (1.25 if one.case in ("TC4", "TC5") else 1))
        for one in blocks([1.0, 1.01, 0.99, 1.0, 1.01, 0.99])
    ]  # fmt: skip
    lost = [f"{name}.r{block}" for name in ("TC4", "TC5") for block in range(1, 7)]
    lost += [
        f"{name}.r{block}" for name in ("TC1", "TC2") for block in range(1, 7)
    ]  # of both sides alike: no leaning
    (part,) = claims(closed, lock, without(flat, *lost))
    assert part.dropped_cases == ("TC4 against TC1", "TC5 against TC2")
    assert part.outcome == "open"
    assert part.why_open == "2 of its 3 cases have too few pairs"
    assert part.gate is not None
    assert part.gate.outcome == "open"
    assert part.gate.why == "2 of its 3 cases have too few pairs"

    (whole,) = claims(closed, lock, blocks([1.0, 1.01, 0.99, 1.0, 1.01, 0.99]))
    assert (whole.outcome, whole.gate and whole.gate.outcome) == ("no difference", "pass")


def test_fewer_than_three_blocks_are_open_and_none_is_refused(closed: Bench) -> None:
    (claim,) = claims(closed, lock_with(closed.lock, 2, PROTOCOL), blocks([2.0, 2.1]))
    assert (claim.outcome, claim.p, claim.ratio.low) == ("open", None, None)
    assert "it has 2 blocks, 3 are needed" in claim.sentence
    trials = without(blocks(RATIOS), *(f"{case}.r{n}" for case in ("TC3", "TC4", "TC5") for n in range(1, 7)))
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials)
    assert (claim.outcome, claim.ratio.value, len(claim.lost)) == ("refused", None, 18)
    assert "No pair can be believed: nothing is compared." in claim.sentence


def test_no_difference_is_only_ever_below_something(closed: Bench) -> None:
    ratios = [1.01, 0.98, 1.02, 0.99, 1.0, 1.01, 0.99, 1.0]
    (claim,) = claims(closed, lock_with(closed.lock, 8, PROTOCOL), blocks(ratios))
    assert claim.outcome == "no difference"
    assert claim.ratio.low is not None and claim.ratio.high is not None
    assert claim.within == pytest.approx(max(claim.ratio.high - 1, 1 - claim.ratio.low))
    assert 0 < claim.within < 0.05
    assert f"No difference larger than {100 * claim.within:.3g} %" in claim.sentence


def test_what_is_open_says_how_many_more_blocks_would_decide(closed: Bench) -> None:
    ratios = [1.5, 0.9, 1.6, 0.85, 1.4, 1.0]
    order = [one.trial for one in blocks(ratios)]
    made = {name: Made(0, 60.0 * place) for place, name in enumerate(order)}
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(ratios), made)
    assert claim.outcome == "open"
    assert claim.more_blocks is not None and claim.more_s == pytest.approx(claim.more_blocks * 6 * 60)
    n, sd, mean = 6 + claim.more_blocks, float(np.std(np.log(ratios), ddof=1)), float(np.mean(np.log(ratios)))

    def decides(blocks: int) -> bool:
        reach = stats.t.ppf(0.975, blocks - 1) + stats.t.ppf(0.8, blocks - 1)
        return bool(reach * sd / sqrt(blocks) <= mean)

    assert decides(n) and not decides(n - 1)
    assert f"{claim.more_blocks} more blocks (about " in claim.sentence


def test_holm_and_bonferroni_count_every_claim_of_the_study(closed: Bench) -> None:
    server = Comparison(name="cache", factor="server", baseline="backend", metric="probe.response.p50")
    lock = lock_with(closed.lock, 6, PROTOCOL, server)
    found = claims(closed, lock, blocks(RATIOS))
    assert [one.name for one in found] == ["tls", "cache: cache-hit", "cache: cache-miss"]
    assert "after Holm over 3 claims" in found[0].sentence
    x = np.log(RATIOS)
    half = stats.t.ppf(1 - 0.025 / 3, 5) * stats.sem(x)
    assert (found[0].ratio.low, found[0].ratio.high) == pytest.approx(
        (exp(x.mean() - half), exp(x.mean() + half))
    )
    assert found[0].single is not None and found[0].single[0] > (found[0].ratio.low or 0)


def test_where_holm_alone_decides_the_interval_is_shown_as_it_is(closed: Bench) -> None:
    server = Comparison(name="cache", factor="server", baseline="backend", metric="probe.response.p50")
    lock = lock_with(closed.lock, 6, PROTOCOL, server)
    noisy = [1.01, 1.3, 1.05, 1.25, 1.02, 1.2]
    trials = blocks(noisy)
    trials = [
        trial(one.case, one.block, (one.metrics["probe.response.p50"].value or 0) * (3 if one.case in ("TC1", "TC4") else 5 if one.case in ("TC2", "TC5") else 1))
        for one in trials
    ]  # fmt: skip
    tls = claims(closed, lock, trials)[0]
    assert tls.outcome == "decided" and tls.p_adjusted is not None and 0.02 < tls.p_adjusted <= 0.05
    assert tls.ratio.low is not None and tls.ratio.low < 1
    assert "Holm alone decides the direction" in tls.sentence


def test_success_is_told_where_it_differs(closed: Bench) -> None:
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS, success=0.74))
    assert claim.success == (1.0, pytest.approx(0.74))
    assert claim.success_interval == pytest.approx((-0.26, -0.26))
    assert "Success differs: 74 % with https, 100 % with http" in claim.sentence
    (same,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS))
    assert "Success" not in same.sentence


def test_per_case_makes_one_claim_a_pair(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"per": "case"}))
    found = claims(closed, lock, blocks(RATIOS))
    assert [one.pairs for one in found] == [(("TC0", "TC3"),), (("TC1", "TC4"),), (("TC2", "TC5"),)]
    assert {one.outcome for one in found} == {"decided"}


def test_when_restricts_the_matched_cases(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"when": {"server": "backend"}}))
    assert [contrast.pairs for contrast in contrasts_of(lock)] == [(("TC0", "TC3"),)]


def test_an_interaction_is_made_of_quadruples(closed: Bench) -> None:
    """https costs × 1.2 at the backend and × 1.5 at the cache's hits: the effect is 1.25 × as large there."""
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"by": "server"}))
    assert [one.cells for one in contrasts_of(lock)] == [
        (("TC1", "TC4", "TC0", "TC3"),),
        (("TC2", "TC5", "TC0", "TC3"),),
    ]
    noise = [1.0, 1.01, 0.99, 1.02, 1.0, 0.98]
    trials = [
        one
        for block, wobble in enumerate(noise, 1)
        for one in (
            trial("TC0", block, 1.0), trial("TC3", block, 1.2),
            trial("TC1", block, 0.1), trial("TC4", block, 0.15 * wobble),
            trial("TC2", block, 2.0), trial("TC5", block, 2.4 * wobble),
        )
    ]  # fmt: skip
    hit, miss = claims(closed, lock, trials)
    assert (hit.by, hit.by_levels) == ("server", ("cache-hit", "backend"))
    assert hit.ratio.value == pytest.approx(1.25, rel=0.01)
    assert hit.outcome == "decided"
    assert hit.evidence[0].against == ("TC0.r1", "TC3.r1")
    assert "the effect of https on probe.response.p50 is 1.25 × as large" in hit.sentence
    assert miss.outcome == "no difference"


def test_an_interaction_loses_a_quadruple_with_any_of_its_trials(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"by": "server"}))
    hit, miss = claims(closed, lock, without(blocks(RATIOS), "TC0.r2", "TC5.r4"))
    assert (hit.believed_of, miss.believed_of) == ((5, 6), (4, 6))


def test_trials_as_listed_are_described_by_welch_and_claim_nothing(closed: Bench) -> None:
    lock = lock_with(
        closed.lock, 6, PROTOCOL.model_copy(update={"when": {"server": "backend"}}), order="as-listed"
    )
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 0.02, 6), rng.normal(0.2, 0.05, 6)
    trials = [
        one for n in range(6) for one in (trial("TC0", n + 1, exp(a[n])), trial("TC3", n + 1, exp(b[n])))
    ]
    (claim,) = claims(closed, lock, trials)
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert claim.outcome == "open"
    assert claim.p == pytest.approx(expected.pvalue)
    assert claim.single == pytest.approx(tuple(exp(end) for end in expected.confidence_interval()))
    assert claim.p_sign_flip is not None and claim.p_sign_flip == pytest.approx(2 / 924), (
        "all relabellings of 6 and 6"
    )
    assert "drift is inside this difference" in claim.sentence


# bring-ups


def hard(lock: Lock) -> Lock:
    factors = tuple(
        one.model_copy(update={"change": "restart"}) if one.name == "protocol" else one
        for one in lock.factors
    )
    return lock.model_copy(update={"factors": factors})


def in_plots(trials: list[TrialResult], plot: Any) -> dict[str, Made]:
    return {one.trial: Made(plot(one), float(place)) for place, one in enumerate(trials)}


def test_blocks_that_share_a_bring_up_are_one_where_the_factor_restarts(closed: Bench) -> None:
    trials = blocks([1.1, 1.3, 1.12, 1.28, 1.09, 1.31, 1.1, 1.3, 1.11, 1.3, 1.1, 1.29])
    lock = hard(lock_with(closed.lock, 12, PROTOCOL))
    https = ("TC3", "TC4", "TC5")
    shared = in_plots(trials, lambda one: (one.block - 1) // 2 * 2 + (one.case in https))
    apart = in_plots(trials, lambda one: one.block * 2 + (one.case in https))
    (claim,) = claims(closed, lock, trials, shared)
    assert (claim.blocks, claim.unit, claim.bring_ups, claim.outcome) == (6, "bring-up", 6, "decided")
    (claim,) = claims(closed, lock, trials, apart)
    assert claim.blocks == 12


@pytest.mark.parametrize(("count", "outcome"), [(5, "open"), (6, "decided")])
def test_six_bring_ups_make_a_claim_over_a_restart_and_five_do_not(
    closed: Bench, count: int, outcome: str
) -> None:
    trials = blocks(RATIOS[:count])
    made = in_plots(trials, lambda one: one.block * 2 + (one.case in ("TC3", "TC4", "TC5")))
    (claim,) = claims(closed, hard(lock_with(closed.lock, count, PROTOCOL)), trials, made)
    assert claim.outcome == outcome
    if outcome == "open":
        assert "it has 5 bring-ups, 6 are needed" in claim.sentence


@pytest.mark.parametrize(
    ("bring_ups", "unit", "units"), [(1, "block", 12), (5, "block", 12), (6, "bring-up", 6)]
)
def test_from_six_on_the_bring_up_is_the_unit_and_below_the_claim_speaks_of_these(
    closed: Bench, bring_ups: int, unit: str, units: int
) -> None:
    trials = blocks([1.2, 1.25, 1.19, 1.22, 1.3, 1.21] * 2)
    lock = lock_with(closed.lock, 12, PROTOCOL, bring_ups=bring_ups)
    made = in_plots(trials, lambda one: (one.block - 1) * bring_ups // 12)
    (claim,) = claims(closed, lock, trials, made)
    assert (claim.unit, claim.blocks, claim.bring_ups) == (unit, units, bring_ups)
    these = {1: "It speaks of this one bring-up.", 5: "It speaks of these 5 bring-ups.", 6: ""}[bring_ups]
    assert these in claim.sentence and ("It speaks of" in claim.sentence) == bool(these)


def test_a_difference_that_each_bring_up_decides_anew_is_open_from_six_on(closed: Bench) -> None:
    """± 10 % by bring-up, two blocks each that agree: twelve blocks would be sure of what six bring-ups are not."""
    effects = [1.1, 0.92, 1.12, 1.0, 1.08, 1.11]
    trials = blocks([effect * wobble for effect in effects for wobble in (1.0, 1.002)])
    for bring_ups, outcome in ((6, "open"), (1, "decided")):
        made = in_plots(trials, lambda one, n=bring_ups: (one.block - 1) * n // 12)
        (claim,) = claims(closed, lock_with(closed.lock, 12, PROTOCOL, bring_ups=bring_ups), trials, made)
        assert claim.outcome == outcome


# refusals


def test_a_pair_that_was_made_anew_counts_and_its_trials_belong_together(closed: Bench) -> None:
    trials = without(blocks(RATIOS), "TC4.r3")
    trials += [trial("TC1", 3, 0.02).model_copy(update={"trial": "TC1.r7", "replicate": 7}), trial("TC4", 3, 0.02 * 1.4).model_copy(update={"trial": "TC4.r7", "replicate": 7})]  # fmt: skip
    made = {one.trial: Made(0, float(place)) for place, one in enumerate(trials)}
    made["TC4.r7"] = Made(0, 98.0, 1)
    made["TC1.r7"] = Made(0, 99.0, 1, ("tls",))
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials, made)
    assert claim.believed_of == (18, 19)
    (again,) = (one for one in claim.evidence if one.treatment == "TC4.r7")
    assert (again.baseline, again.block, again.unit, exp(again.log_ratio)) == (
        "TC1.r7",
        3,
        3,
        pytest.approx(1.4),
    )
    made["TC1.r7"] = Made(0, 99.0, 1, ("another claim",))
    (claim,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), trials, made)
    assert claim.believed_of == (17, 18), "a repeated partner serves its own claim alone"


def test_refusals_that_lean_must_be_survived(closed: Bench) -> None:
    """Five pairs lost to the treatment's side: at the most adverse ratio of the rest the effect no longer stands."""
    lock = lock_with(closed.lock, 6, PROTOCOL)
    ratios = [1.2, 1.25, 0.9, 1.22, 1.3, 1.21]
    lost = ("TC4.r1", "TC4.r2", "TC5.r4", "TC5.r5", "TC3.r6")
    (claim,) = claims(closed, lock, without(blocks(ratios), *lost))
    assert claim.refused_sides == (0, 5)
    assert claim.leaning == pytest.approx(2 / 2**5)
    assert claim.outcome == "open"
    assert "Refusals lean: 0 pairs by http, 5 by https" in claim.sentence
    (clear,) = claims(closed, lock, without(blocks([ratio * 3 for ratio in RATIOS]), *lost))
    assert clear.outcome == "decided", "it holds with the lost pairs at their worst"
    even = ("TC4.r1", "TC1.r2", "TC5.r4", "TC2.r5", "TC3.r6")
    (claim,) = claims(closed, lock, without(blocks(RATIOS), *even))
    assert claim.refused_sides == (2, 3)
    assert claim.leaning == 1.0
    assert claim.outcome == "decided"


def test_pairs_that_both_sides_lost_are_counted_and_lean_to_neither(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    both = ("TC0.r1", "TC3.r1", "TC1.r2", "TC4.r2")
    (claim,) = claims(closed, lock, without(blocks(RATIOS), *both))
    assert (claim.refused_sides, claim.refused_both, claim.leaning) == ((0, 0), 2, None)
    (claim,) = claims(closed, lock, without(blocks(RATIOS), *both, "TC5.r4"))
    assert (claim.refused_sides, claim.refused_both) == ((0, 1), 2)
    (claim,) = claims(closed, lock, blocks(RATIOS))
    assert claim.refused_both == 0


HTTPS_ALL = tuple(f"{case}.r{block}" for case in ("TC3", "TC4", "TC5") for block in range(1, 7))


def left_out(trials: list[TrialResult], share: float, slower: float, *names: str) -> list[TrialResult]:
    """The same, of these trials' medians that share of the requests left out, with which
    they are so many times as long."""
    number = "probe.response.p50"

    def changed(one: TrialResult) -> TrialResult:
        estimate = one.metrics[number]
        belief = Belief(grade="WEAK", left_out=share, as_measured=(estimate.value or 0) * slower)
        return one.model_copy(
            update={
                "metrics": {**one.metrics, number: estimate.model_copy(update={"belief": belief})},
            }
        )

    return [changed(one) if one.trial in names else one for one in trials]


def test_a_server_whose_pauses_disturb_the_load_does_not_lose_them(closed: Bench) -> None:
    """The planted case: pauses of the treatment's server are left out of its medians, with which these are
    three times as long. The clean one: as much is left out of both sides."""
    flat = [1.0, 1.001, 0.999, 1.0, 1.001, 0.999]
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"fail_if": "worse by more than 5 %"}))
    (claim,) = claims(closed, lock, left_out(blocks(flat), 0.1, 3.0, *HTTPS_ALL))
    assert claim.left_out_sides == (0, 18)
    assert claim.left_out_leaning == pytest.approx(2 / 2**18)
    assert (claim.outcome, claim.gate and claim.gate.outcome) == ("open", "open")
    assert claim.why_open == "what was left out leans to one side"
    assert "More was left out of one side: in 0 pairs of http, in 18 of https" in claim.sentence
    every = tuple(one.trial for one in blocks(flat))
    (clean,) = claims(closed, lock, left_out(blocks(flat), 0.1, 3.0, *every))
    assert (clean.left_out_sides, clean.left_out_leaning) == ((0, 0), None)
    assert (clean.outcome, clean.gate and clean.gate.outcome) == ("no difference", "pass")


def test_what_leans_must_be_survived_at_its_worst(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    mine = ("TC3.r1", "TC4.r2", "TC5.r3", "TC3.r4", "TC4.r5")
    faster = [0.8 * one for one in (1.0, 1.01, 0.99, 1.0, 1.02, 0.98)]
    (clean,) = claims(closed, lock, blocks(faster))
    (claim,) = claims(closed, lock, left_out(blocks(faster), 0.1, 3.0, *mine))
    assert (clean.outcome, claim.outcome) == ("decided", "open")
    assert claim.left_out_sides == (0, 5)
    assert claim.single is not None and claim.single[1] > 1
    (four,) = claims(closed, lock, left_out(blocks(faster), 0.1, 3.0, *mine[:4]))
    assert four.left_out_leaning == pytest.approx(2 / 2**4)
    assert four.outcome == "decided", "four of four is chance: p = 0.125"
    slower = [1.5 * one for one in faster]
    (claim,) = claims(closed, lock, left_out(blocks(slower), 0.1, 3.0, *mine))
    assert claim.outcome == "decided", "with its pauses it is slower still"


def test_where_refusals_lean_nothing_is_called_no_difference(closed: Bench) -> None:
    lost = ("TC4.r1", "TC4.r2", "TC5.r4", "TC5.r5", "TC3.r6")
    flat = [1.0, 1.001, 0.999, 1.0, 1.001, 0.999]
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"fail_if": "worse by more than 5 %"}))
    (clean,) = claims(closed, lock, blocks(flat))
    assert (clean.outcome, clean.gate and clean.gate.outcome) == ("no difference", "pass")
    (claim,) = claims(closed, lock, without(blocks(flat), *lost))
    assert (claim.outcome, claim.gate and claim.gate.outcome) == ("open", "open")


def believed(
    one: TrialResult, grade: Grade, below: float | None, above: float | None, check: str = "steal"
) -> TrialResult:
    name = "probe.response.p50"
    estimate = one.metrics[name].model_copy(
        update={"belief": Belief(grade=grade, below=below, above=above, doubts=(check,))}
    )
    return one.model_copy(update={"metrics": {**one.metrics, name: estimate}})


def test_a_number_is_believed_for_itself(closed: Bench) -> None:
    """A REFUSED trial whose compared number is only WEAK keeps its pair; a refused number
    takes its pair from a VALID trial."""
    trials = blocks(RATIOS)
    weak = {"TC4.r3": believed(trial("TC4", 3, 0.02 * 1.19, "REFUSED"), "WEAK", 0.0, 0.0), "TC3.r1": believed(trials[1], "REFUSED", None, None)}  # fmt: skip
    (claim,) = claims(
        closed, lock_with(closed.lock, 6, PROTOCOL), [weak.get(one.trial, one) for one in trials]
    )
    assert claim.believed_of == (17, 18)
    assert [(one.why, one.checks, one.refused) for one in claim.lost] == [
        ("refused", ("steal",), ("TC3.r1",))
    ]
    assert claim.weak_pairs == 1
    assert "1 pair of 17 holds a WEAK number." in claim.sentence


def test_the_numbers_own_bounds_widen_the_interval(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    (clean,) = claims(closed, lock, blocks(RATIOS))
    (claim,) = claims(closed, lock, [believed(one, "WEAK", 0.1, 0.05) for one in blocks(RATIOS)])
    assert clean.single is not None and claim.single is not None
    assert claim.ratio.value == pytest.approx(clean.ratio.value or 0)
    assert claim.single[0] == pytest.approx(clean.single[0] * 0.9 / 1.05)
    assert claim.single[1] == pytest.approx(clean.single[1] * 1.05 / 0.9)
    assert claim.p is not None and clean.p is not None and claim.p > clean.p
    (gone,) = claims(closed, lock, [believed(one, "WEAK", 0.15, 0.15) for one in blocks(RATIOS)])
    assert gone.outcome == "open", "no direction survives ± 15 % on both sides of 1.2"


def test_both_sides_are_judged_by_the_limits_of_the_faster(closed: Bench) -> None:
    """0.6 ms of the generator's own delay is 2 % of 30 ms, and 60 % of the 1 ms that the other side takes."""
    from svload.model.results import CheckResult, Harm

    def delayed(one: TrialResult, share: float, check: str) -> TrialResult:
        harm = Harm(number="probe.response.p50", grade="VALID", below=share, above=0.0)
        told = CheckResult(check=check, grade="VALID", sentence="", harms=(harm,))
        return one.model_copy(update={"verdict": one.verdict.model_copy(update={"checks": (told,)})})

    slow = blocks([30.0] * 6, (("TC0", "TC3"),))
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"when": {"server": "backend"}}))
    for share, check, lost in ((0.02, "generator-harm", 1), (0.005, "generator-harm", 0), (0.02, "steal", 0)):
        trials = [delayed(one, share, check) if one.trial == "TC3.r2" else one for one in slow]
        (claim,) = claims(closed, lock, trials)
        assert len(claim.lost) == lost
        if lost:
            assert claim.lost[0].side == "treatment"
            assert "by the limits of the faster side" in claim.lost[0].reason


# order, cases, breakdown


def neighbours(first_ratio: float, second_ratio: float) -> tuple[list[TrialResult], dict[str, Made]]:
    """Eight blocks of one pair; in every other one the treatment runs first."""
    trials, made = [], {}
    wobble = [1.0, 1.004, 0.997, 1.002, 1.001, 0.996, 1.003, 0.999]
    for block in range(1, 9):
        ratio = (second_ratio if block % 2 else first_ratio) * wobble[block - 1]
        pair = [trial("TC0", block, 0.01), trial("TC3", block, 0.01 * ratio)]
        trials += pair
        for place, one in enumerate(reversed(pair) if block % 2 else pair):
            made[one.trial] = Made(0, 10.0 * block + place)
    return trials, made


def test_an_effect_that_depends_on_the_order_is_no_claim(closed: Bench) -> None:
    lock = lock_with(closed.lock, 8, PROTOCOL.model_copy(update={"when": {"server": "backend"}}))
    trials, made = neighbours(1.3, 1.0)
    (claim,) = claims(closed, lock, trials, made)
    assert claim.carry_over is not None and claim.carry_over.differ
    assert claim.carry_over.baseline_first == pytest.approx(1.3, rel=0.01)
    assert claim.carry_over.treatment_first == pytest.approx(1.0, rel=0.01)
    assert claim.outcome == "open"
    assert "it depends on which side ran first" in claim.sentence
    for orders in ((1.2, 1.2), (3.0, 2.9)):
        trials, made = neighbours(*orders)
        (claim,) = claims(closed, lock, trials, made)
        assert claim.carry_over is not None and not claim.carry_over.differ
        assert claim.outcome == "decided"


def test_cases_that_differ_have_their_range_beside_the_mean(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    (same,) = claims(closed, lock, [
        one for block, ratio in enumerate(RATIOS, 1) for n, (a, b) in enumerate((("TC0", "TC3"), ("TC1", "TC4"), ("TC2", "TC5")))
        for one in (trial(a, block, 1.0), trial(b, block, ratio * (1 + 0.01 * ((block + n) % 3))))
    ])  # fmt: skip
    assert same.range is None
    (claim,) = claims(closed, lock, [
        one for block, ratio in enumerate(RATIOS, 1) for n, (a, b) in enumerate((("TC0", "TC3"), ("TC1", "TC4"), ("TC2", "TC5")))
        for one in (trial(a, block, 1.0), trial(b, block, ratio * (1 + n) * (1 + 0.01 * ((block + n) % 3))))
    ])  # fmt: skip
    assert claim.range is not None
    assert claim.range[1] / claim.range[0] == pytest.approx(3, rel=0.02)
    assert "Its cases differ: from" in claim.sentence


def test_so_many_turned_pairs_overturn_it(closed: Bench) -> None:
    (clear,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS, (("TC0", "TC3"),)))
    assert clear.overturn_pairs == 1, "of six pairs one that says the opposite leaves p above 0.05"
    x = np.log(RATIOS)
    x[4] *= -1
    assert stats.ttest_1samp(x, 0).pvalue > 0.05
    (many,) = claims(closed, lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS))
    assert many.overturn_pairs is not None and many.overturn_pairs > 1


def test_each_sentence_of_a_claim_is_short(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL.model_copy(update={"fail_if": "worse by more than 5 %"}))
    for trials in (
        blocks(RATIOS, success=0.9),
        without(blocks([1.1, 0.9] * 3), "TC4.r1", "TC4.r2", "TC3.r3"),
    ):
        (claim,) = claims(closed, lock, trials)
        for sentence in claim.sentence.replace("p50", "").split(". "):
            assert len(sentence.split()) <= 25, sentence


# the plan


def test_plan_tells_what_cannot_be_decided(closed: Bench) -> None:
    found = plan_comparisons(closed.lock)
    assert [one["name"] for one in found] == [
        "cache against backend: cache-hit",
        "cache against backend: cache-miss",
        "HTTPS against HTTP",
    ]
    assert {one["comparison"] for one in found} == {"cache against backend", "HTTPS against HTTP"}
    assert {(one["state"], one["smallest_p"], one["needed_blocks"], one["mde"]) for one in found} == {
        ("undecidable", 1.0, 3, None)
    }
    assert all("undecidable at 2 blocks, 3 blocks would do" in one["sentence"] for one in found)


@pytest.mark.parametrize(("bring_ups", "units", "told"), [(1, 12, "this one bring-up"), (2, 12, "these 2 bring-ups"), (6, 6, ""), (12, 12, "")])  # fmt: skip
def test_plan_tells_what_bring_ups_attain(closed: Bench, bring_ups: int, units: int, told: str) -> None:
    (found,) = plan_comparisons(lock_with(closed.lock, 12, PROTOCOL, bring_ups=bring_ups))
    assert (found["units"], found["bring_ups"], found["state"]) == (units, bring_ups, "decidable")
    assert found["smallest_p"] == 2 / 2**units
    assert told in found["sentence"] and ("It will speak of" in found["sentence"]) == bool(told)


def test_a_plan_over_a_restart_needs_six_blocks(closed: Bench) -> None:
    for count, state in ((5, "undecidable"), (6, "decidable")):
        (found,) = plan_comparisons(hard(lock_with(closed.lock, count, PROTOCOL)))
        assert (found["state"], found["needed_blocks"]) == (state, 6)


def test_a_plan_whose_trials_run_as_listed_decides_nothing(closed: Bench) -> None:
    (found,) = plan_comparisons(lock_with(closed.lock, 12, PROTOCOL, order="as-listed"))
    assert (found["state"], found["mde"]) == ("undecidable", None)
    assert "trials run as listed" in found["reason"] and found["reason"] in found["sentence"]
    assert found["remedy"] == "Leave order: as-listed out"
    (found,) = plan_comparisons(lock_with(closed.lock, 12, PROTOCOL))
    assert (found["state"], found["reason"], found["remedy"]) == ("decidable", "", "")


def test_plan_takes_its_noise_from_the_last_run(closed: Bench) -> None:
    lock = lock_with(closed.lock, 6, PROTOCOL)
    (before,) = plan_comparisons(lock)
    assert (before["state"], before["mde"]) == ("decidable", None)
    assert "no run" in before["mde_reason"]
    earlier = claims(closed, lock, blocks(RATIOS))
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
        assert claim.outcome == "decided"
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
    assert [claim.outcome for claim in findings.claims] == ["refused"]
    assert "no two of its cases were part of this run. Nothing is compared." in findings.claims[0].sentence
    assert "believed" not in findings.claims[0].sentence


# svload why
