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

from svload.analysis.claims import judge_claims
from svload.analysis.claims.pooled import Pair, equal_n, pooled_effect
from svload.analysis.claims.statistic import half_width
from svload.model.results import Claim, Estimate, TrialResult, Verdict

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
