"""Warm-up cut, stalls, drift and waves on series whose true values are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, bench_of, check, with_readings, with_table
from tests.evolve import evolve
from tests.support import make_run

from svload.analysis import limits
from svload.analysis.judge import judge_trial, matched_cuts, trial_cut
from svload.analysis.series import (
    Cut,
    backlog_grows,
    backlog_growth,
    case_cut,
    drift,
    is_own_doing,
    is_stall,
    mser5,
    response_series,
)
from svload.analysis.server import of_cycles, wave_in
from svload.analysis.view import GroupView, Window, kept_window, look
from svload.drive.share import timeline
from svload.model.columns import HISTOGRAM_METRICS, bucket
from svload.model.results import Harm
from svload.model.study import CaseConfig
from svload.store import TrialData

SECOND = 1_000_000_000


def mser5_scores(x: np.ndarray, parts: float) -> list[float]:
    """Return MSER-5's score of each cut in this part of the series."""
    y = x[: len(x) // 5 * 5].reshape(-1, 5).mean(axis=1)
    return [((y[d:] - y[d:].mean()) ** 2).sum() / (len(y) - d) ** 2 for d in range(int(len(y) * parts) + 1)]


def test_a_window_has_as_many_intervals_as_mser5_needs() -> None:
    assert timeline.MSER_OBSERVATIONS == limits.MSER_OBSERVATIONS


@pytest.mark.parametrize("seed", range(5))
def test_mser5_is_its_definition(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(603) + 3 * np.exp(-np.arange(603) / 40)
    assert mser5(x)[0] == 5 * int(np.argmin(mser5_scores(x, 1 / 2)))


def normal(seed: int, mean: float | np.ndarray, sd: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, sd, 600)


@pytest.mark.parametrize(
    ("series", "found"),
    [
        (normal(2, 5 - 4 * np.arange(600) / 600, 0.1), True),
        # a warm-up that ends in the third quarter
        (normal(6, 1.0 + (np.arange(600) < 360), 0.3), True),
        (normal(6, 1.0 + (np.arange(600) < 420), 0.3), True),
        (normal(6, 1.0 + 0.2 * (np.arange(600) < 360), 0.3), False),
        (normal(6, 1.0 + (np.arange(600) < 510), 0.3), False),
        # a hiccup in an even series
        (np.where(np.arange(600) == 330, 20, normal(7, 32, 0.01)), False),
        (np.ones(12), False),
    ],
)
def test_mser5_says_when_the_first_half_was_not_enough(series: np.ndarray, found: bool) -> None:
    assert mser5(series)[1] is found


def test_a_steady_series_is_hardly_cut() -> None:
    rng = np.random.default_rng(3)
    found = [mser5(rng.standard_normal(600)) for _ in range(100)]
    assert sum(at_half for _, at_half in found) == 0
    assert np.median([cut for cut, _ in found]) < 30


@pytest.mark.parametrize("at", [0.05, 0.2, 0.4])
def test_a_stall_after_a_settled_start_is_no_warm_up(at: float) -> None:
    x = np.random.default_rng(8).exponential(1, 600) + 1
    x[int(600 * at) : int(600 * at) + 40] = 300
    dropped, _ = mser5(x)
    assert dropped >= int(600 * at) + 35, "MSER-5 alone drops it"
    assert is_stall(x, dropped)


def test_a_warm_up_is_no_stall() -> None:
    rng = np.random.default_rng(9)
    for scale in (10, 80):
        for rise in (0.5, 5.0, 100.0):
            x = rng.exponential(1, 600) + 1 + rise * np.exp(-np.arange(600) / scale)
            assert not is_stall(x, mser5(x)[0])
    slow_start = np.concatenate([np.full(40, 300.0), rng.exponential(1, 560)])
    assert not is_stall(slow_start, mser5(slow_start)[0]), "what stands still from the start warms up"
    steady = [np.exp(0.3 * autoregressive(rng, 600, 0.9)) for _ in range(100)]
    assert not any(is_stall(x, mser5(x)[0]) for x in steady)


def cut(cut_s: float, at_half: bool = False, method: str = "MSER-5") -> Cut:
    return Cut(round(cut_s * SECOND), at_half, method, "load")


HALF = cut(5, at_half=True)
CUTS = [cut(1), cut(3), cut(2), HALF]


@pytest.mark.parametrize(
    ("cuts", "least_s", "cut_s", "grades"),
    [
        # The largest of many would grow with their number: to 26 % of a steady series with twelve.
        (CUTS, 0, 2.5, "VALID VALID VALID WEAK"),
        (CUTS, 4, 4, "VALID VALID VALID WEAK"),
        (CUTS, 1, 2.5, "VALID VALID VALID WEAK"),
        ([cut(1), HALF, HALF, HALF], 0, 5, "REFUSED REFUSED REFUSED REFUSED"),
        ([cut(1), cut(1), HALF, HALF], 0, 3, "VALID VALID WEAK WEAK"),
        ([cut(5, True, "first cycle")], 0, 5, "REFUSED"),
        ([HALF], 0, 5, "WEAK"),
        ([cut(1)], 0, 1, "VALID"),
    ],
)
def test_one_cut_for_a_case_is_the_median_and_that_of_the_slowest_it_is_compared_with(
    cuts: list[Cut], least_s: int, cut_s: float, grades: str
) -> None:
    decided = case_cut(cuts, 10 * SECOND, least_s * SECOND)
    assert [one.grade for one in decided] == grades.split()
    assert {one.cut_ns for one in decided} == {round(cut_s * SECOND)}


def test_few_observations_lose_the_first_cycle_of_the_users(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    window = kept_window(trial.summary)
    probe = next(one for one in look(trial, closed.config(trial), window) if one.name == "probe")
    assert len(probe.rows) < 600
    found = trial_cut(trial, closed.config(trial))
    # Users start spread over their think time of 20 ms; a cycle is 20 ms and a response.
    median_ns = closed.run.truth.median_ns["TC4"]
    assert 40e6 < found.cut_ns < 40e6 + 3 * median_ns
    assert "first cycle" in found.method


def test_a_growing_backlog_has_no_warm_up(open_loop: Bench) -> None:
    trial = open_loop.trial("TC1.r1")
    assert trial_cut(trial, open_loop.config(trial)).cut_ns == 0
    background = look(trial, open_loop.config(trial), kept_window(trial.summary))[0]
    assert min(backlog_growth(background)) == pytest.approx(1 - 1 / 1.5, abs=0.06)
    assert backlog_grows(background)
    clean = open_loop.trial("TC0.r1")
    assert not backlog_grows(look(clean, open_loop.config(clean), kept_window(clean.summary))[0])


@pytest.mark.parametrize(("share", "grows"), [(0.045, False), (0.055, True)])
def test_a_backlog_grows_where_a_twentieth_of_what_was_due_is_left(share: float, grows: bool) -> None:
    due = np.full(100, 1000)
    done = due - round(1000 * share)
    spec: Any = SimpleNamespace(name="users", executor=SimpleNamespace(shape="constant", model="open loop"))
    nothing: Any = None
    cells = {"due": due, "completed_ok": done, "completed_failed": 0 * done}
    assert backlog_grows(GroupView(0, nothing, spec, Window(0, 100, 10**7), cells, None, {})) == grows


@pytest.mark.parametrize(("gap_s", "own"), [(0.18, False), (0.22, True)])
def test_a_cut_is_the_generators_own_doing_where_it_stood_still_for_a_fifth_of_it(
    gap_s: float, own: bool
) -> None:
    group: Any = SimpleNamespace(closed=True, window=Window(0, 1000, 10**7))
    assert is_own_doing([group], [(0.5e9, gap_s * 1e9)], SECOND) == own


@pytest.mark.parametrize(("share", "known"), [(0.45, True), (0.55, False)])
def test_a_server_that_fails_most_requests_has_no_state(closed: Bench, share: float, known: bool) -> None:
    trial = closed.trial("TC4.r1")
    table = trial.intervals
    mine = table["group"] == 0
    failed = np.where(mine, np.round(1000 * share), table["failed"]).astype(table["failed"].dtype)
    ok = np.where(mine, np.round(1000 * (1 - share)), table["ok"]).astype(table["ok"].dtype)
    planted = with_table(trial, "intervals", ok=ok, failed=failed)
    verdict = judge_trial(planted, closed.config(trial)).verdict
    assert ("of its requests failed" not in " ".join(verdict.reasons)) == known
    assert known or verdict.server == "UNKNOWN"


@pytest.mark.parametrize(("change", "unsteady"), [(0.09, False), (0.12, True), (-0.12, True), (0.0, False)])
def test_drift_needs_ten_percent(change: float, unsteady: bool) -> None:
    x = 1 + change * (np.arange(600) / 600 - 0.5) + np.random.default_rng(4).normal(0, 0.02, 600)
    found = drift(x)
    assert found.relative == pytest.approx(change, abs=0.01)
    assert found.unsteady is unsteady


def test_short_or_constant_series_have_no_drift() -> None:
    assert drift([1.0, 2.0]) is None
    assert drift(np.zeros(100)) is None


def test_a_late_minimum_counts_where_it_is_three_times_below() -> None:
    noise = np.random.default_rng(3).normal(0, 1, 1000)
    late = np.arange(1000) >= 600
    for clear, step in ((2.5, 2.25), (3.5, 2.7)):
        score = ratio_of_minima(10 + noise + step * late)
        assert score == pytest.approx(clear, rel=0.1)
        assert mser5(10 + noise + step * late)[1] == (clear > 3)


def ratio_of_minima(x: np.ndarray) -> float:
    """Return MSER-5's least value in the first half over that in the third quarter."""
    scores, half = mser5_scores(x, 3 / 4)[:-1], len(x) // 10 + 1
    return float(min(scores[:half]) / min(scores[half:]))


HICCUP = (200, 210, 50.0)


@pytest.mark.parametrize(
    ("spells", "stalls"),
    [
        # the first tenth is at the level that is kept
        ([(0, 11, 2.0), HICCUP], True),
        ([(0, 16, 2.0), HICCUP], False),
        # ten times above that level
        ([(200, 210, 9.0)], False),
        ([(200, 210, 11.0)], True),
        # which is the 95th percentile: 4 % of what is kept are higher, and the head lies above the rest
        ([(0, 300, 1.5), (300, 324, 2.0), HICCUP], False),
        ([(0, 300, 1.5), (300, 336, 2.0), HICCUP], True),
    ],
)
def test_a_stall_lies_above_the_level_that_is_kept_after_a_start_within_it(
    spells: list[tuple[int, int, float]], stalls: bool
) -> None:
    x = np.ones(900)
    for begin, end, level in spells:
        x[begin:end] = level
    assert is_stall(x, 300) == stalls


def autoregressive(rng: np.random.Generator, size: int, rho: float) -> np.ndarray:
    """Return a steady series of mean 0 and standard deviation 1, each value correlated with the next."""
    noise = rng.standard_normal(size) * np.sqrt(1 - rho**2)
    series = np.empty(size)
    series[0] = rng.standard_normal()
    for at in range(1, size):
        series[at] = rho * series[at - 1] + noise[at]
    return series


@pytest.mark.parametrize(
    ("size", "rho", "most"),
    [(30, 0.0, 0.12), (100, 0.5, 0.1), (100, 0.9, 0.15), (300, 0.9, 0.13), (600, 0.97, 0.1)],
)
def test_a_steady_series_seldom_drifts_however_correlated(size: int, rho: float, most: float) -> None:
    rng = np.random.default_rng(8)
    found = [drift(np.exp(0.5 * autoregressive(rng, size, rho))) for _ in range(200)]
    assert sum(one is not None and one.unsteady for one in found) / 200 <= most


@pytest.mark.parametrize("shape", ["line", "curve"])
@pytest.mark.parametrize("size", [100, 600])
def test_a_warm_up_is_still_found_in_a_correlated_series(shape: str, size: int) -> None:
    rng = np.random.default_rng(9)
    at = np.arange(size) / size
    level = 1 + 0.4 * (at - 0.5) if shape == "line" else 1 + 0.8 * np.exp(-4 * at)
    found = [drift(level * np.exp(0.1 * autoregressive(rng, size, 0.5))) for _ in range(60)]
    assert sum(one is not None and one.unsteady for one in found) >= 57


def test_compared_cases_are_read_over_one_window(closed: Bench) -> None:
    """The clean study compares nothing, and each of its cases has its own."""
    own = {"TC0": [cut(1), cut(1)], "TC1": [cut(2), cut(4)]}
    windows = dict.fromkeys(own, 10 * SECOND)
    for compared, expected in ((closed.lock.comparisons, {3}), ((), {1, 3})):
        lock = evolve(closed.lock, comparisons=compared)
        found = matched_cuts(own, windows, lock)
        assert {one.cut_ns // SECOND for cuts in found.values() for one in cuts} == expected


SIZE = 600
TURN = 2 * np.pi * np.arange(SIZE) / SIZE


def noise(rho: float, seed: int) -> np.ndarray:
    return autoregressive(np.random.default_rng(seed), SIZE, rho)


@pytest.mark.parametrize("cycles", [3, 5, 12, 25])
def test_a_wave_under_noise_is_seen(cycles: int) -> None:
    found = wave_in(10 * (1 + 0.2 * np.sin(cycles * TURN)) + 2 * noise(0.0, cycles))
    assert found.cycles == cycles
    assert found.amplitude == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.98])
def test_steady_series_are_no_waves(rho: float) -> None:
    seen = sum(wave_in(10 + 4 * noise(rho, seed)) is not None for seed in range(60))
    assert seen <= 3


SWING = 10 * (1 + 0.5 * np.sin(25 * TURN))


@pytest.mark.parametrize(
    ("series", "points", "seen"),
    [
        # noise makes such a wave once in a thousand: p 0.0011 and 0.0009
        (10 * (1 + 0.207 * np.sin(12 * TURN)) + 10 * noise(0.0, 12), (), False),
        (10 * (1 + 0.211 * np.sin(12 * TURN)) + 10 * noise(0.0, 12), (), True),
        # small waves, few cycles, short series
        (10 * (1 + 0.09 * np.sin(10 * TURN)), (), False),
        (10 * (1 + 0.12 * np.sin(10 * TURN)), (), True),
        (10 * (1 + 0.5 * np.sin(2 * TURN)), (), False),
        (np.ones(50), (), False),
        (np.zeros(SIZE), (), False),
        # the rhythm of a user's cycle: 25 and 50 in the window, seen on means of two each
        (SWING, (), True),
        (SWING, (25 // 2,), False),
        (10 * (1 + 0.5 * np.sin(50 * TURN)), (50 // 2,), False),
        # a line that climbs is drift
        (np.linspace(5, 15, SIZE) + 0.1 * noise(0.0, 1), (), False),
    ],
)
def test_a_wave_is_large_and_has_several_cycles(
    series: np.ndarray, points: tuple[int, ...], seen: bool
) -> None:
    assert (wave_in(series, *points) is not None) == seen


WINDOW_S, INTERVAL_S = 10.0, 0.02


def sleeping(cycle_s: float, apart: float) -> np.ndarray:
    """Simulate four users of a server that sleeps a fixed time, each this part of a cycle behind the last."""
    ends = np.arange(0, WINDOW_S + cycle_s, cycle_s)
    of_all = np.concatenate([ends + user * apart * cycle_s for user in range(4)])
    edges = np.linspace(0, WINDOW_S, round(WINDOW_S / INTERVAL_S) + 1)
    return np.histogram(of_all, edges)[0].astype(float)


@pytest.mark.parametrize("apart", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("cycle_s", [0.0102, 0.026, 0.0515, 0.06, 0.073, 0.13])
def test_users_of_a_server_that_sleeps_a_fixed_time_make_no_wave(cycle_s: float, apart: float) -> None:
    counts = sleeping(cycle_s, apart)
    assert wave_in(counts, *of_cycles(counts.sum() / 4)) is None


@pytest.mark.parametrize("cycles", [0.0, 3.0, 39.0, 40.0, 200.0, 600.0, 1e6])
def test_a_point_holds_as_many_cycles_as_make_its_edges_small(cycles: float) -> None:
    points, least = of_cycles(cycles)
    assert points <= 60
    assert least >= max(0.1, points / max(cycles, 1.0))
    assert (points >= 20) is (cycles >= 40), "too few points are none"
    assert (least == 0.1) is (cycles >= 200 or points == 0)


FIRST, EARLY, ACROSS_HALF = (0, 30), (150, 170), (290, 320)
"""Intervals of 10 ms in which nothing was done."""
LATE_NS = 200_000_000


@pytest.fixture(scope="module", params=["open", "closed"])
def long(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, TrialData, CaseConfig]:
    folder, load = tmp_path_factory.mktemp(request.param), request.param
    bench = bench_of(make_run(folder, cases=1, replicates=1, load=load, duration_s=6.0))
    trial = bench.trial("TC0.r1")
    return load, trial, bench.config(trial)


def stalled(trial: TrialData, *metrics: str, stop: tuple[int, int] = EARLY) -> TrialData:
    """Delay the background's answers due in the stop, in its histograms and its intervals."""
    inside = lambda table: (  # noqa: E731
        (table["group"] == 0) & (table["interval"] >= stop[0]) & (table["interval"] < stop[1])
    )

    def buckets(table: Any) -> Any:
        late = np.isin(table["metric"], [HISTOGRAM_METRICS.index(name) for name in ("response", *metrics)])
        return np.where(inside(table) & late, bucket(LATE_NS), table["bucket"])

    def sums(table: Any) -> Any:
        return np.where(inside(table), LATE_NS * (table["ok"] + table["failed"]), table["response_sum_ns"])

    trial = with_table(trial, "histograms", bucket=buckets)
    return with_table(trial, "intervals", response_sum_ns=sums)


def test_a_slow_start_is_cut_and_a_stalled_server_is_not(long: tuple[str, TrialData, CaseConfig]) -> None:
    _, trial, config = long
    slow = trial_cut(stalled(trial, stop=FIRST), config)
    assert (slow.method, slow.cut_ns >= 10_000_000 * (FIRST[1] - 10)) == ("MSER-5", True)
    stall = trial_cut(stalled(trial), config)
    assert (stall.cut_ns, "a stall after a settled start" in stall.method) == (0, True)
    assert "a stall" in check(stalled(trial), config, "warm-up").sentence
    across = stalled(trial, stop=ACROSS_HALF)
    assert (trial_cut(across, config).cut_ns, trial_cut(across, config).at_half) == (0, False)
    assert check(across, config, "warm-up").grade == "VALID"


def test_a_stopped_generator_is_not_cut(long: tuple[str, TrialData, CaseConfig]) -> None:
    load, trial, config = long
    stopped = stalled(trial, "generator_lag") if load == "open" else stalled(trial)
    if load == "closed":
        # The witness's next look reports the gap.
        gap = lambda at, old: np.where((at > 1.7) & (at <= 1.8), 0.4, old)  # noqa: E731
        stopped = with_readings(stopped, "generator", "hiccup_seconds", gap)
    own = trial_cut(stopped, config)
    assert (own.cut_ns, "generator's own" in own.method) == (0, True)
    assert "generator's own" in check(stopped, config, "warm-up").sentence
    across = trial_cut(stalled(trial, "generator_lag", stop=ACROSS_HALF), config)
    assert (across.cut_ns, across.at_half) == (0, False)


def late_p95(trial: TrialData, config: CaseConfig) -> Harm:
    """Return how far off the p95 of a trial is that settles after its first half."""
    found = check(trial, config, "warm-up")
    assert (found.grade, "had not settled in its first half" in found.sentence) == ("WEAK", True)
    (p95,) = [one for one in found.harms if one.number == "background.response.p95"]
    return p95


@pytest.mark.parametrize("slow_to", [0.55, 0.6, 0.7])
def test_range_of_a_late_settling_trial_reaches_the_level(
    long: tuple[str, TrialData, CaseConfig], slow_to: float
) -> None:
    _, trial, config = long
    p95 = late_p95(stalled(trial, stop=(0, round(600 * slow_to))), config)
    settled = check(trial, config, "warm-up")
    assert (p95.above, settled.grade, settled.harms) == (0.0, "VALID", ())
    level = float(np.mean(response_series(look(trial, config, kept_window(trial.summary))[0])[1]))
    assert p95.below == pytest.approx(1 - level / LATE_NS, rel=0.1)


def test_times_of_zero_are_judged_in_a_trial_that_settles_late(
    long: tuple[str, TrialData, CaseConfig],
) -> None:
    """JMeter writes 0 ms for a response below its resolution."""
    _, trial, config = long
    early = (trial.intervals["group"] == 0) & (trial.intervals["interval"] < 357)
    sums = np.where(early, 0, trial.intervals["response_sum_ns"])
    p95 = late_p95(with_table(trial, "intervals", response_sum_ns=sums), config)
    assert p95.below == 0.0 and p95.above is not None and 0.1 < p95.above < np.inf
