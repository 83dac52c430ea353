"""Each law on planted and clean numbers whose answer follows by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benches.laws import COVERAGE_MIN, coverage, judge, models, rows_of
from scipy import stats
from tests.evolve import evolve

from svload.analysis.laws.every import Laws, balance, laws_of
from svload.analysis.laws.levels import Kind, Limit, Resource, Run, levels_of, placed
from svload.analysis.laws.n_star import Station as Shared
from svload.analysis.laws.n_star import mean_values, n_star
from svload.analysis.laws.ramp import What, _better, breakpoint_of
from svload.analysis.laws.throughput import agree, flat_levels, n_break, n_peak, scalability, two_segments
from svload.analysis.laws.utilisation import demand_of

CPU = Resource("CPU", "cpu", 2.0)
DEMAND_S, ALONE_S, THINK_S = 0.02, 0.05, 0.25
N_STAR = (ALONE_S + THINK_S) / (DEMAND_S / 2)
"""30 users, 100 requests a second."""


def server(
    users: float, block: int = 0, think_s: float = THINK_S, rest: float = 0.0, noise: float = 0.01
) -> Run:
    """Return a run on a server that follows its asymptotes; two cores."""
    draw = np.random.default_rng([int(users), block, round(1e3 * think_s)])
    throughput = min(users / (ALONE_S + think_s), 2 / DEMAND_S) * (1 + noise * draw.standard_normal())
    response = max(users / throughput - think_s, 1e-3)
    uses = {"CPU": throughput * DEMAND_S * (1 + noise * draw.standard_normal()) + rest}
    return Run(throughput, response, users=users, think_s=think_s, block=block, uses=uses)


def study(*users: float, blocks: int = 5, **how: float) -> list[Run]:
    return [server(n, block, **how) for n in users for block in range(blocks)]


def users_laws(*users: float, cpu: Resource | None = CPU) -> Laws:
    return laws_of(study(*users), (cpu,) if cpu else (), "users")


AROUND = (3, 6, 12, 24, 48, 96)


# Little

FACTORIAL = [(1.0, 0.0, 0.22345, 223.80), (1.0, 0.1, 0.11064, 243.50), (1.0, 0.2, 0.02237, 223.65)]
"""A paper's table: CPUs, think time, mean response, throughput; 50 users."""


def test_too_short_a_window_says_nothing() -> None:
    run = Run(10, 0.5, users=10, think_s=0.5, window_s=19.99, longest_cycle_s=2.0)
    assert balance(run) is None
    assert balance(replace(run, window_s=20.01)) is not None
    longer = balance(replace(run, window_s=100.0))
    assert longer.edge == pytest.approx(0.02)


# Demand


def test_demand_and_use_at_rest_by_regression() -> None:
    found = demand_of(CPU, study(3, 6, 12, 24, 30, 60, rest=0.3))
    assert found.demand_s == pytest.approx(DEMAND_S, rel=0.02)
    assert found.at_rest == pytest.approx(0.3, rel=0.1)
    assert found.rest_is_sure
    assert found.low < DEMAND_S < found.high
    assert found.free == pytest.approx(2 - found.at_rest)


def test_a_use_that_does_not_grow_is_somebody_elses() -> None:
    rng = np.random.default_rng(4)
    runs = [replace(run, uses={"CPU": 0.4 + 0.02 * rng.standard_normal()}) for run in study(3, 6, 12, 24)]
    assert demand_of(CPU, runs) is None


def test_the_scatter_of_a_full_server_cannot_separate_rest_from_demand() -> None:
    """50 users at 11 requests a second, any think time: single runs differ by a third, their levels don't."""
    rng = np.random.default_rng(2)
    runs = [
        Run(throughput_rps=x, response_s=50 / x - think_s, users=50, think_s=think_s, block=block, uses={"CPU": 1.96})
        for think_s in (0.0, 0.1, 0.2)
        for block, x in enumerate(11 * (1 + 0.12 * rng.standard_normal(6)))
    ]  # fmt: skip
    assert max(run.throughput_rps for run in runs) > 1.25 * min(run.throughput_rps for run in runs)
    found = demand_of(CPU, runs)
    assert found.one_throughput
    assert found.demand_s == pytest.approx(1.96 / 11, rel=0.1)
    laws = laws_of(runs, (CPU,), "think")
    assert laws.limit.value == pytest.approx(50 / 11, rel=0.15), "only with pauses of seconds is it not full"


# N*


@pytest.mark.parametrize(("share", "limits_it"), [(0.1, False), (0.75, False), (0.85, True)])
def test_a_resource_that_is_free_for_a_fifth_where_throughput_is_flat_is_no_bottleneck(
    share: float, limits_it: bool
) -> None:
    """The bottleneck is one that nobody read; throughput shows where it is."""
    laws = users_laws(*AROUND, cpu=Resource("CPU", "cpu", 2 / share))
    assert (laws.ground.bottleneck is not None) == limits_it
    if not limits_it:
        assert laws.limit.value == pytest.approx(N_STAR, rel=0.1)
        assert "none of" in laws.limit.reason


@pytest.mark.parametrize(("used", "sound"), [(1.05, True), (1.3, False), (2.0, False)])
def test_a_capacity_that_was_exceeded_says_nothing(used: float, sound: bool) -> None:
    most = 16 / (ALONE_S + THINK_S) * DEMAND_S
    laws = users_laws(2, 4, 8, 16, cpu=Resource("CPU", "cpu", most / used))
    assert (laws.limit.value is not None) == sound
    assert laws.limit.reason


def test_the_interval_is_widened_by_half_of_the_waiting_that_was_subtracted() -> None:
    """Two users of one core: 10 ms of it per request, and 90 ms of think time."""
    alone_s, think_s = 0.01, 0.09
    runs = [
        Run(rate, took_s, users=users, think_s=think_s, block=block, uses={"CPU": rate * alone_s})
        for users in (2, 4, 8, 16, 32)
        for found in [mean_values([Shared(alone_s)], think_s, users)]
        for rate, took_s in [(float(found.throughput_rps[-1]), float(found.response_s[-1]))]
        for block in range(3)
    ]
    waiting_s = runs[0].response_s - alone_s
    found, _ = n_star(runs, (Resource("CPU", "cpu", 1.0),))
    assert found.value == pytest.approx(10, rel=1e-6)
    share = waiting_s / 2 / (alone_s + think_s)
    assert (found.low, found.high) == (pytest.approx(10 * (1 - share)), pytest.approx(10 * (1 + share)))


def test_without_any_resource_and_without_a_plateau_there_is_no_limit() -> None:
    laws = users_laws(2, 4, 8, 16, cpu=None)
    assert (laws.limit.value, laws.bounds) == (None, None)


def test_saturation_think_time() -> None:
    many, few = (
        laws_of([server(users, block, s) for s in pauses_s for block in range(5)], (CPU,), "think").limit
        for users, pauses_s in ((60, (0.0, 0.1, 0.3, 0.8, 1.6)), (4, (0.0, 0.1, 0.3)))
    )
    assert many.value == pytest.approx(60 * DEMAND_S / 2 - ALONE_S, rel=0.05)
    assert (many.state, few.value) == ("bracketed", None)
    assert "can't saturate" in few.reason


def test_a_rate_is_full_where_the_first_resource_is() -> None:
    def at(rate: float, block: int) -> Run:
        made, response_s = min(rate, 100), 0.05 if rate < 100 else 1.0 + rate / 100
        return Run(made, response_s, rate_rps=rate, block=block, uses={"CPU": made * DEMAND_S})

    laws = laws_of([at(rate, block) for rate in (20, 40, 80, 120, 160) for block in range(3)], (CPU,), "rate")
    assert laws.limit.value == pytest.approx(100)
    assert laws.limit.state == "bracketed"
    assert laws.bounds.at(laws.levels[-1], "rate")[0] == pytest.approx(100)


@pytest.mark.parametrize(
    ("limit", "state"),
    [
        ((5, 4, 6), "bracketed"),
        ((5, 1, 6), "edge"),
        ((1, 0.5, 1.5), "edge"),
        ((0.5, 0.2, 0.9), "below"),
        ((20, 15, 30), "above"),
    ],
)
def test_bracketed_only_with_its_whole_interval(limit: tuple[float, float, float], state: str) -> None:
    assert placed(Limit(*limit), [1, 2, 4, 8]).state == state


# Flat


FULL = [Run(92 + 0.3 * block, n / 92, users=n, block=block) for n in (16, 32, 64) for block in range(3)]
FASTER = [Run(92, 0.05, users=n, block=block) for n in (16, 32) for block in range(3)]
PAUSES = [Run(x, r, users=50, think_s=z) for _, z, r, x in FACTORIAL]


@pytest.mark.parametrize(
    ("runs", "factor", "flat"),
    [
        (study(6, 12, 24, 40, 60, 90), "users", [40, 60, 90]),
        (study(3, 6, 12, 24), "users", []),
        (FULL, "users", [16, 32, 64]),  # every level is above the limit
        (FASTER, "users", []),
        (PAUSES, "think", [0.2, 0.1, 0.0]),  # a longer pause is less load
    ],
)
def test_users_beyond_the_limit_bring_only_waiting(runs: list[Run], factor: Kind, flat: list[float]) -> None:
    assert [level.at for level in flat_levels(levels_of(runs, factor), factor)] == flat


@pytest.mark.parametrize(
    ("load", "throughput", "response", "flat"),
    [
        # a load that is larger by a quarter
        (12.0, 1.0, 1.5, False),
        (13.0, 1.0, 1.5, True),
        # d ln X / d ln load below 0.1
        (13.0, 1.3**0.09, 1.5, True),
        (13.0, 1.3**0.11, 1.5, False),
        # throughput that grows by at most 5 %, the response of single runs by more
        (40.0, 1.045, 1.5, True),
        (40.0, 1.055, 1.5, False),
        (40.0, 1.0, 1.045, False),
        (40.0, 1.0, 1.055, True),
    ],
)
def test_levels_are_flat_within_their_limits(
    load: float, throughput: float, response: float, flat: bool
) -> None:
    runs = [Run(100, 0.1, users=10), Run(100 * throughput, 0.1 * response, users=load)]
    assert bool(flat_levels(levels_of(runs, "users"), "users")) == flat


# N_break and N_peak


def test_two_segments_meet_where_they_were_planted() -> None:
    load = np.array([2.0, 4, 8, 16, 32, 64])
    assert two_segments(load, np.minimum(load, 20.0)) == pytest.approx(20, rel=0.02)
    assert two_segments(load, load) == pytest.approx(64)
    assert two_segments(load, np.full(6, 9.0)) == pytest.approx(2)
    falling = np.where(load <= 16, load, 16 - 0.1 * (load - 16))
    assert two_segments(load, falling) == pytest.approx(16, rel=0.03)


def test_a_break_needs_two_levels_beyond_it() -> None:
    assert n_break(study(3, 6, 12, 24, 40), "users").state != "bracketed"
    assert n_break(study(3, 6, 12, 24, 40, 60), "users").state == "bracketed"


def test_limits_agree_within_a_quarter() -> None:
    first = Limit(20, 19, 21, "bracketed")
    near, far, edge = ((24.9, "bracketed"), (25.1, "bracketed"), (25.1, "edge"))
    assert [agree(first, Limit(at, 24, 26, state)) for at, state in (near, far, edge)] == [True, False, None]


def scaled(crosstalk: float, users: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)) -> list[Run]:
    rng = np.random.default_rng(9)
    each = ((n, block, 1 + 0.03 * (n - 1) + crosstalk * n * (n - 1)) for n in users for block in range(4))
    return [
        Run(100 * n / slower * (1 + 0.01 * rng.standard_normal()), 0.01, users=n, block=block)
        for n, block, slower in each
    ]


def test_a_peak_is_found_where_it_was_planted() -> None:
    runs = scaled(0.002)
    fit = scalability(runs)
    assert fit.serial == pytest.approx(0.03, abs=0.01)
    assert fit.crosstalk == pytest.approx(0.002, rel=0.1)
    found = n_peak(runs, fit)
    assert found.value == pytest.approx((0.97 / 0.002) ** 0.5, rel=0.1)
    assert found.low < found.value < found.high
    assert found.state == "bracketed"
    unsure = n_peak(runs, evolve(fit, crosstalk_low=0.0001))
    assert (unsure.high > 64, unsure.state) == (True, "edge"), "its interval reaches beyond the levels"


def test_a_peak_that_is_not_there_is_not_reported() -> None:
    flat, short, few = scaled(0.0), scaled(0.002, (1, 2, 3, 4, 6, 8)), scaled(0.002, (1, 8, 32, 64, 128))
    for runs in (flat, short):
        found = n_peak(runs, scalability(runs))
        assert found.value is None
        assert "no peak in range" in found.reason
    assert scalability(few) is None
    assert "6 levels" in n_peak(few, None).reason


# Breakpoint of a ramp


def ramp(at: float, points: int = 200, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a load from 0 to 100, with a response of 10 ms that doubles every 10 beyond `at`, and errors
    that rise to 20 % beyond it."""
    load = np.linspace(0.5, 100, points)
    rng = np.random.default_rng(int(at))
    response = 0.01 * (1 + np.maximum(load - at, 0) / 10) * np.exp(noise * rng.standard_normal(points))
    errors = rng.binomial(200, 0.2 * np.maximum(load - at, 0) / (100 - at)) / 200
    return load, response, errors


@pytest.mark.parametrize("at", [25.0, 60.0, 80.0])
def test_a_ramp_breaks_where_it_was_planted(at: float) -> None:
    load, response, errors = ramp(at)
    for what, values in (("response", response), ("errors", errors)):
        found = breakpoint_of(load, values, what)
        assert found.at == pytest.approx(at, abs=5)
        assert found.low <= at <= found.high


def test_a_ramp_that_does_not_break_says_so() -> None:
    load, _, _ = ramp(50.0)
    rng = np.random.default_rng(1)
    level = 0.01 * np.exp(0.3 * rng.standard_normal(len(load)))
    rising = 0.01 * (1 + load / 100) * np.exp(0.1 * rng.standard_normal(len(load)))
    for values in (level, rising):
        found = breakpoint_of(load, values, "response")
        assert found.at is None
        assert "did not leave" in found.reason
    assert breakpoint_of(load, np.zeros(len(load)), "errors").at is None
    assert "fewer than" in breakpoint_of(load[:10], level[:10], "response").reason


@pytest.mark.parametrize(("p", "better"), [(0.0009, True), (0.0011, False)])
def test_a_second_piece_is_the_better_fit_where_chance_makes_it_so_once_in_a_thousand(
    p: float, better: bool
) -> None:
    """The F test has 3 and 195 degrees of freedom with 200 points."""
    assert _better(1 + 3 / 195 * float(stats.f.isf(p, 3, 195)), 1.0, 200) == better


@pytest.mark.parametrize(
    ("what", "end", "breaks"),
    [("response", 0.22, False), ("response", 0.28, True), ("errors", 0.009, False), ("errors", 0.011, True)],
)
def test_a_ramp_breaks_where_its_end_matters(what: What, end: float, breaks: bool) -> None:
    """It is a quarter above the line that the response followed, or has one error in a hundred."""
    load = np.linspace(0.5, 100, 200)
    beyond = end * np.maximum(load - 60, 0) / 40
    noise = np.random.default_rng(5).standard_normal(len(load))
    values = 0.01 * (1 + beyond) * (1 + 0.002 * noise) if what == "response" else beyond + 1e-5 * noise
    assert (breakpoint_of(load, values, what).at is not None) == breaks


def test_every_cell_keeps_its_limits() -> None:
    rows = rows_of(judge(list(models())[::10]))
    assert [f"{row.cell.name}: {expected}" for row in rows for expected in row.missed] == []
    held = sum(len(row.inside) for row in rows if row.cell.held)
    assert held >= 15
    assert coverage(rows) >= stats.binom.ppf(0.001, held, COVERAGE_MIN) / held
