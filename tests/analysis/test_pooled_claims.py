"""Claims over percentiles: pooled over trials where these have too few requests, and
thinned where the sides differ in n."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench
from tests.analysis.test_compare import PROTOCOL, lock_with

from svload.analysis.claims import Made, judge_claims
from svload.analysis.claims.pooled import Pair, equal_n, pooled_effect
from svload.analysis.claims.statistic import half_width
from svload.model.results import Belief, Claim, Estimate, TrialResult, Verdict

P99 = PROTOCOL.model_copy(update={"metric": "probe.response.p99", "when": {"server": "backend"}})


@dataclass(frozen=True)
class Sample:
    """Requests of one trial."""

    values: Any
    counts: Any
    total: int

    def thinned(self, size: int, rng: np.random.Generator) -> Sample:
        return sample(rng.choice(self.values, size, replace=False))


def sample(values: Any) -> Sample:
    return Sample(np.sort(values), np.ones(len(values), dtype=np.int64), len(values))


def run(ratio: float, sizes: tuple[int, int], blocks: int, rng: np.random.Generator, few: bool) -> tuple[list[TrialResult], dict[tuple[str, str], Sample]]:  # fmt: skip
    trials, populations = [], {}
    for block in range(1, blocks + 1):
        for case, size, factor in (("TC0", sizes[0], 1.0), ("TC3", sizes[1], ratio)):
            name = f"{case}.r{block}"
            found = sample(0.01 * factor * rng.lognormal(0, 0.6, size))
            populations[name, "probe.response"] = found
            value = None if few else float(found.values[int(np.ceil(0.99 * size)) - 1])
            estimate = Estimate(
                value=value, n=size, reason="too few" if few else "", why="too few" if few else ""
            )
            trials.append(
                TrialResult(
                    trial=name, case=case, replicate=block, block=block, metrics={"probe.response.p99": estimate, "probe.success_rate": Estimate(value=1.0)},
                    verdict=Verdict(trial=name, instrument="VALID", server="STEADY", reasons=(), checks=()),
                )
            )  # fmt: skip
    return trials, populations


def claim_of(closed: Bench, trials: list[TrialResult], populations: Any, blocks: int = 8) -> Claim:
    (claim,) = judge_claims(
        lock_with(closed.lock, blocks, P99), closed.configs, trials, populations=populations
    )
    return claim


def test_a_p99_of_too_few_requests_is_claimed_by_pooled_quantiles(closed: Bench) -> None:
    trials, populations = run(2.0, (200, 200), 8, np.random.default_rng(1), few=True)
    alone = claim_of(closed, trials, None)
    assert (alone.ratio.value, alone.outcome, len(alone.lost)) == (None, "open", 8)
    claim = claim_of(closed, trials, populations)
    assert claim.pooled and claim.outcome == "decided"
    assert claim.ratio.value == pytest.approx(2.0, rel=0.25)
    assert (claim.believed_of, claim.blocks) == ((8, 8), 8)
    assert claim.p_sign_flip == 2 / 2**8
    assert "quantiles pooled over trials" in claim.sentence


def test_under_ten_requests_above_it_there_is_none(closed: Bench) -> None:
    trials, populations = run(2.0, (100, 100), 8, np.random.default_rng(1), few=True)
    assert claim_of(closed, trials, populations).ratio.value is None


def test_unequal_n_fakes_no_difference(closed: Bench) -> None:
    """The nearest-rank p99 of 120 requests reads lower than that of 4,000 of the same server."""
    rng = np.random.default_rng(5)
    trials, populations = run(1.0, (4_000, 120), 40, rng, few=False)
    as_they_are = claim_of(closed, trials, None, 40)
    assert as_they_are.ratio.value is not None and as_they_are.ratio.value < 0.97
    claim = claim_of(closed, trials, populations, 40)
    assert claim.pooled
    assert claim.single is not None and claim.single[0] < 1 < claim.single[1]
    same, more = run(1.0, (1_000, 1_050), 8, rng, few=False)
    assert not claim_of(closed, same, more).pooled, "5 % more requests need no thinning"


def test_pooled_intervals_cover() -> None:
    rng, hits, runs = np.random.default_rng(7), 0, 200
    for _ in range(runs):
        pairs = []
        for unit in range(8):
            block = exp(0.05 * rng.standard_normal())
            own = [
                0.01 * block * exp(0.03 * rng.standard_normal()) * rng.lognormal(0, 0.6, 300)
                for _ in range(2)
            ]
            pairs.append(Pair(0, unit, sample(own[0]), sample(1.3 * own[1])))
        effect = pooled_effect(equal_n(pairs), 1, 0.99)
        assert effect is not None
        hits += abs(float(effect.mean) - log(1.3)) <= float(half_width(effect))
    assert hits / runs >= 0.91


def doubted(one: TrialResult, below: float, above: float, **more: Any) -> TrialResult:
    """The same trial, its p99 WEAK with these bounds."""
    name = "probe.response.p99"
    belief = Belief(grade="WEAK", below=below, above=above, doubts=("steal",), **more)
    estimate = one.metrics[name].model_copy(update={"belief": belief})
    return one.model_copy(update={"metrics": {**one.metrics, name: estimate}})


def test_the_bounds_of_numbers_that_are_pooled_widen_the_interval(closed: Bench) -> None:
    trials, populations = run(1.5, (200, 200), 8, np.random.default_rng(1), few=True)
    clean = claim_of(closed, trials, populations)
    assert (clean.weak_pairs, clean.outcome) == (0, "decided")
    assert {(pair.below, pair.above) for pair in clean.evidence} == {(0.0, 0.0)}
    weak = claim_of(closed, [doubted(one, 0.1, 0.05) for one in trials], populations)
    assert clean.single is not None and weak.single is not None
    assert weak.ratio.value == clean.ratio.value
    assert weak.weak_pairs == 8
    assert weak.single[0] == pytest.approx(clean.single[0] * 0.9 / 1.05)
    assert weak.single[1] == pytest.approx(clean.single[1] * 1.05 / 0.9)
    assert [pair.below for pair in weak.evidence] == pytest.approx([log(1.05) - log(0.9)] * 8)
    one = claim_of(closed, [doubted(one, 0.1, 0.0) if one.trial == "TC3.r2" else one for one in trials], populations)  # fmt: skip
    assert one.single is not None and one.weak_pairs == 1
    assert one.single[0] == pytest.approx(clean.single[0] * 0.9 ** (1 / 8)), "its mean over the pairs"
    assert "1 pair of 8 holds a WEAK number." in one.sentence
    gone = claim_of(closed, [doubted(one, 0.3, 0.3) for one in trials], populations)
    assert gone.outcome == "open", "no direction survives ± 30 % on both sides of 1.5"


def test_pooled_pairs_keep_the_order_in_which_they_ran(closed: Bench) -> None:
    trials, populations = run(2.0, (200, 200), 8, np.random.default_rng(1), few=True)
    second = {one.trial: (one.case == "TC3") != bool(one.block % 2) for one in trials}
    made = {one.trial: Made(0, 10.0 * one.block + second[one.trial]) for one in trials}
    (claim,) = judge_claims(lock_with(closed.lock, 8, P99), closed.configs, trials, made, populations=populations)  # fmt: skip
    assert [pair.treatment_first for pair in claim.evidence] == [bool(n % 2) for n in range(1, 9)]
    assert claim.pooled and claim.carry_over is not None


def test_a_pair_of_which_requests_were_left_out_is_not_pooled(closed: Bench) -> None:
    """Its pool would hold again what was left out of its number."""
    rng = np.random.default_rng(2)
    trials, populations = run(2.0, (4_000, 3_000), 8, rng, few=False)
    left = [doubted(one, 0.0, 0.0, left_out=0.1, as_measured=0.09) if one.trial == "TC3.r2" else one for one in trials]  # fmt: skip
    assert claim_of(closed, trials, populations).believed_of == (8, 8)
    claim = claim_of(closed, left, populations)
    assert claim.pooled and claim.believed_of == (7, 8)
    assert [(one.block, one.why) for one in claim.lost] == [(2, "no number")]
    assert "can't be pooled" in claim.lost[0].reason


def test_trials_as_listed_are_not_pooled(closed: Bench) -> None:
    trials, populations = run(2.0, (200, 200), 8, np.random.default_rng(1), few=True)
    lock = lock_with(closed.lock, 8, P99, order="as-listed")
    (claim,) = judge_claims(lock, closed.configs, trials, populations=populations)
    assert (claim.pooled, claim.evidence, claim.outcome) == (False, (), "open")
