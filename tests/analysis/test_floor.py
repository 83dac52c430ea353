"""A/A runs: the floor comes from pairs, holds for its settings only, and is lower for a mean over units."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
import pytest
from tests.analysis.conftest import Bench, bench_of
from tests.analysis.test_compare import doubted
from tests.evolve import evolve
from tests.support import make_run

from svload import api
from svload.analysis import limits
from svload.analysis.floor import LabFloor, floors_of, load_of, one_case_a_load
from svload.analysis.judge import judge_run
from svload.analysis.settings import settings_digest
from svload.model.certificates import Floor
from svload.model.results import Findings, TrialResult

pytestmark = pytest.mark.slow

SIGMA = 0.03


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Run one case forty times: an A/A run of twenty pairs."""
    out = tmp_path_factory.mktemp("aa")
    return bench_of(make_run(out, cases=1, replicates=40, between_runs_sigma=SIGMA, duration_s=0.3))


@pytest.fixture(scope="module")
def judged(repeated: Bench) -> Findings:
    return judge_run(repeated.lock, repeated.configs, repeated.trials())


def floor_in(bench: Bench, trials: Sequence[TrialResult], metric: str) -> Floor:
    return next(one for one in floors_of(bench.configs, trials) if one.metric == metric)


def test_the_floor_is_the_quantile_of_pairs(repeated: Bench, judged: Findings) -> None:
    """Trials are log-normal: two of them differ by SIGMA·√2, so 95 % of pairs lie within 1.96 of that."""
    floor = floor_in(repeated, judged.trials, "background.response.p50")
    assert floor.pairs == 20
    assert floor.sd == pytest.approx(SIGMA * 2**0.5, rel=0.5)
    values = [trial.metrics["background.response.p50"].value or 0.0 for trial in judged.trials]
    ratios = sorted(abs(log(b / a)) for a, b in zip(values[::2], values[1::2], strict=True))
    assert floor.floor == pytest.approx(ratios[18])


def test_a_broken_trial_takes_its_pair(repeated: Bench, judged: Findings) -> None:
    first = judged.trials[0]
    assert floors_of(repeated.configs, (doubted(first, "steal"), *judged.trials[1:])) != ()
    assert floors_of(repeated.configs, (doubted(first, "manipulation"), *judged.trials[1:])) == ()


def test_calm_pairs_make_the_floor(repeated: Bench, judged: Findings) -> None:
    """The two sides of a pair beside which strangers had half of the machine differ a hundredfold."""
    calm = tuple(evolve(one, strangers=0.01) for one in judged.trials)
    far = {name: evolve(one, value=one.value and 100 * one.value) for name, one in calm[0].metrics.items()}
    hit = evolve(calm[0], strangers=0.9, metrics=far)

    def floor(*trials: TrialResult) -> Floor:
        return floor_in(repeated, trials, "probe.response.p50")

    assert floor(hit, *calm[1:]).floor <= max(floor(*calm).floor * 1.5, 0.3)
    assert floor(*(evolve(one, strangers=None) for one in (hit, *calm[1:]))).sd > 0.9


def test_the_maximum_of_fifty_nine_pairs_certifies_a_floor(repeated: Bench, judged: Findings) -> None:
    """0.95⁵⁹ < 0.05: it is unlikely that 59 pairs all lie below the true quantile."""
    assert limits.AA_PAIRS == api.AA_PAIRS, "what `svload aa` makes"
    assert 0.95**59 < 0.05 < 0.95**58
    first, p50 = judged.trials[0], "probe.response.p50"
    for pairs, certified in ((58, False), (59, True)):
        trials = []
        for n in range(1, 2 * pairs + 1):
            metrics = {p50: evolve(first.metrics[p50], value=1.0 if n % 2 else 1 + n / 1000)}
            trials.append(evolve(first, trial=f"TC0.r{n}", replicate=n, metrics=metrics))
        (floor,) = floors_of(repeated.configs, trials)
        assert (floor.pairs, floor.certified) == (pairs, certified)
        assert floor.floor == pytest.approx(log(1 + (2 * pairs if certified else 112) / 1000))


def test_settings_are_what_is_asked_of_the_lab(repeated: Bench) -> None:
    lock = repeated.lock
    same = evolve(lock, name="other", source={**lock.source, "compare": [], "question": "?"})
    assert settings_digest(same) == settings_digest(lock)
    for change in (
        {"source": {**lock.source, "lab": {"backend": {"kit": "nginx"}}}},
        {"source": {**lock.source, "traffic": {}}},
        {"measure": evolve(lock.measure, duration_ns=1)},
    ):
        assert settings_digest(lock.model_copy(update=change)) != settings_digest(lock)


def test_one_case_stands_for_each_load(closed: Bench, open_loop: Bench) -> None:
    assert one_case_a_load(closed.configs) == ("TC0",)
    both = {**closed.configs, "open": open_loop.configs["TC0"]}
    assert one_case_a_load(both) == ("TC0", "open")
    assert load_of(closed.configs["TC0"]) == load_of(closed.configs["TC5"])


@pytest.mark.parametrize("units", [3, 6, 12, 40])
def test_the_floor_of_a_mean_is_what_means_of_the_same_do_not_reach(units: int) -> None:
    """Twenty A/A pairs, then claims over means of equal things: one in twenty reaches the floor, for any
    number of units. None would reach the floor of a single pair, which would hide effects five times as
    large."""
    rng = np.random.default_rng(13)
    reached = beyond_one = 0
    for _ in range(2_000):
        drawn = rng.normal(0, SIGMA, 20)
        floor, sd = float(np.sort(np.abs(drawn))[18]), float(drawn.std(ddof=1))
        one = Floor(load="", metric="", pairs=20, floor=floor, sd=sd)
        mean = abs(float(rng.normal(0, SIGMA, units).mean()))
        reached += mean >= LabFloor(one).of_mean(units, units)
        beyond_one += mean >= one.floor
    assert 0.02 <= reached / 2_000 <= 0.07
    assert units < 6 or beyond_one / 2_000 < 0.005


def test_bring_ups_are_what_a_mean_is_over_where_pairs_had_their_own() -> None:
    """Twelve blocks in two bring-ups are only two draws of a server's memory layout."""
    one = Floor(load="", metric="", pairs=59, floor=0.08, sd=0.03, certified=True)
    restarted, kept = LabFloor(one, restarts=True), LabFloor(one)
    assert restarted.of_mean(12, 2) == pytest.approx(0.08 / 2**0.5)
    assert restarted.of_mean(6, 6) == pytest.approx(0.08 / 6**0.5)
    assert restarted.of_mean(12, 0) == restarted.of_mean(12, 1) == kept.of_mean(1, 12) == 0.08
    assert kept.of_mean(12, 1) == pytest.approx(0.08 / 12**0.5)
