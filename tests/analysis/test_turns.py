"""Sides that take turns: which requests count, rounds, blocks, and their weights."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from svload.analysis.claims.statistic import apart, effect_of, half_width
from svload.analysis.claims.turns import (
    Requests,
    Turns,
    block_effect,
    block_weights,
    by_turn,
    in_flight,
    measured,
    median_of,
    round_logs,
    too_short,
)
from svload.analysis.quantiles import Ranked, ranked_values

MS = 1_000_000
TURNS = Turns(*(np.array(one) * MS for one in ([0, 1000], [500, 1500], [520, 1520])))


def requests(*rows: tuple[float, float, int], failed: tuple[int, ...] = (), ended: bool = True) -> Requests:
    """Return requests from (due, response, connection), times in ms."""
    due, response, connection = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    answered = np.where(np.isin(np.arange(len(rows)), failed), np.nan, response) * MS
    done = (due + response) * MS if ended else np.full(len(rows), -1)
    return Requests(
        (due * MS).astype(np.int64),
        done.astype(np.int64),
        answered,
        connection.astype(np.int64),
        np.zeros(len(due), dtype=np.int64),
    )


def ranks(*values: list[float]) -> tuple[Ranked, ...]:
    return tuple(ranked_values(np.array(one)) for one in values)


def spread(rng: np.random.Generator, n: int, scale: float = 1.0) -> NDArray[np.float64]:
    return np.asarray(scale * np.exp(0.3 * rng.standard_normal(n)))


def side(rng: np.random.Generator, held: list[int], slow: float = 1.0) -> tuple[Ranked, ...]:
    """Return a side's turns with this many requests; every fourth turn is `slow` times as slow."""
    return tuple(
        ranked_values(spread(rng, n, slow if place % 4 == 3 else 1.0)) for place, n in enumerate(held)
    )


def test_head_tail_and_first_of_a_connection_do_not_count() -> None:
    due = (0, 29, 31, 100, 110, 489, 491, 1031, 1040, 1200)
    made = requests(
        *((at, 5, connection) for at, connection in zip(due, (1, 1, 1, 2, 2, 1, 1, 1, 1, 2), strict=True))
    )
    counted = [at for at, counts in zip(due, measured(made, TURNS, 10 * MS), strict=True) if counts]
    assert counted == [31, 110, 489, 1040], "100, 1031 and 1200 are the first of their connections"
    slower = [at for at, counts in zip(due, measured(made, TURNS, 20 * MS), strict=True) if counts]
    quicker = [at for at, counts in zip(due, measured(made, TURNS, 5 * MS), strict=True) if counts]
    assert quicker == [31, 110, 489, 491, 1040], "30 ms at least"
    assert slower == [110], "three times the p99 after the begin, one p99 before the end"


def test_what_counts_does_not_depend_on_answers() -> None:
    due = [(float(at), 1 + at % 3) for at in range(0, 500, 7)]
    quick, slow = (requests(*((at, took, one) for at, one in due)) for took in (1, 400))
    assert np.array_equal(measured(quick, TURNS, MS), measured(slow, TURNS, MS))


def test_failures_lie_above_every_response_of_their_turn() -> None:
    made = requests((40, 5, 1), (50, 5, 1), (60, 6, 1), (70, 9, 1), (1060, 4, 1), (1070, 4, 1), failed=(3,))
    first, second = by_turn(made, TURNS, measured(made, TURNS, MS))
    assert (first.total, first.finite, second.total) == (3, 2, 1)
    assert first.quantile(0.5) == 6 * MS
    assert first.quantile(0.99) is None


def test_requests_before_the_first_turn_belong_to_none() -> None:
    early = Turns(TURNS.begin_ns + 50 * MS, TURNS.end_ns + 50 * MS, TURNS.next_ns + 50 * MS)
    made = requests((0, 900, 1), (100, 5, 1), (120, 5, 1))
    assert not measured(made, early, MS)[0]
    assert not in_flight(made, early).any()


def test_requests_in_flight_as_the_next_turn_begins_are_counted() -> None:
    assert list(in_flight(requests((490, 29, 1), (1490, 31, 1)), TURNS)) == [False, True]
    assert list(in_flight(requests((490, 29, 1), ended=False), TURNS)) == [True, False]
    assert too_short([True] + [False] * 19) == ""
    text = too_short([True] + [False] * 18)
    assert text.startswith("windows too short: in 5.26 %") and text.endswith(
        "(order: trials in a study, svload load for a URL)"
    )
    assert too_short([]) == ""


def test_a_round_is_the_ratio_of_its_own_percentiles() -> None:
    a, b = ranks([1, 2, 3, 4, 5], [10, 20, 30]), ranks([2, 4, 6, 8, 10], [30, 60, 90])
    assert round_logs(a, b, 0.5) == pytest.approx([log(2), log(3)])


@pytest.mark.parametrize(
    ("held", "p", "rounds"),
    [(3, 0.5, 10), (2, 0.5, 5), (30, 0.95, 10), (29, 0.95, 5), (60, 0.99, 3), (10, 0.99, 1), (3, 0.05, 1), (30, 0.05, 10)],
)  # fmt: skip
def test_rounds_are_joined_until_they_hold_the_percentile(held: int, p: float, rounds: int) -> None:
    rng = np.random.default_rng(1)
    a, b = side(rng, [held] * 10), side(rng, [held] * 10)
    assert len(round_logs(a, b, p)) == rounds
    assert block_effect(a, b, p).few == (rounds < 5)


def test_what_is_left_after_joining_goes_to_the_last_round() -> None:
    a = ranks([1.0], [1.0, 1.0], [1.0, 1.0, 1.0], [1.0])
    b = ranks([2.0], [2.0, 2.0], [2.0, 2.0, 2.0], [1e9])
    assert round_logs(a, b, 0.5) == pytest.approx([log(2), log(2)])
    assert not len(round_logs(ranks([], []), b[:2], 0.5)), "one side asked for nothing"


def test_a_side_that_fails_is_worse_than_any_number() -> None:
    good, bad = ranked_values(np.ones(5)), ranked_values(np.ones(1), 5)
    assert list(round_logs((good, bad, bad), (bad, good, bad), 0.5)) == [inf, -inf]
    mostly = block_effect((good,) * 5, (good, good, good, bad, bad), 0.5)
    assert mostly.effect == 0.0
    assert np.isnan(block_effect((good,) * 3, (bad,) * 3, 0.5).effect)


def test_one_bad_round_in_four_is_in_the_pooled_ratio() -> None:
    """A median of rounds would hide it: every fourth turn is ten times as slow."""
    rng, held = np.random.default_rng(2), [40] * 12
    calm, slow = (
        [block_effect(side(rng, held), side(rng, held, times), 0.95) for _ in range(8)] for times in (1, 10)
    )
    assert np.median([one.effect for one in slow]) < log(1.3)
    alike = [effect_of([[one.pooled for one in some]], range(8)) for some in (calm, slow)]
    assert [bool(apart(one, None, log(1.05))) for one in alike] == [False, True]


def test_the_error_of_a_median_is_that_of_normal_rounds() -> None:
    rng = np.random.default_rng(3)
    medians, errors = zip(*(median_of(0.1 * rng.standard_normal(20)) for _ in range(4000)), strict=True)
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.05)
    assert median_of(np.array([0.2])) == (0.2, 0.0)


def test_the_variance_between_blocks_is_that_of_paule_and_mandel() -> None:
    rng = np.random.default_rng(4)
    error = rng.uniform(0.01, 0.2, 14)
    effect = 0.3 * rng.standard_normal(14) + error * rng.standard_normal(14)
    own = np.maximum(error, np.median(error)) ** 2

    def excess(between: float) -> float:
        w = 1 / (between + own)
        return float((w * (effect - (w * effect).sum() / w.sum()) ** 2).sum() - 13)

    between = optimize.brentq(excess, 0, 1)
    assert between > 0.01
    expected = 1 / (between + own)
    assert block_weights(effect, error) == pytest.approx(expected / expected.max(), rel=1e-6)


def test_a_block_that_looks_calm_weighs_no_more_than_the_median_one() -> None:
    weight = block_weights([0.0, 0.1, -0.1, 0.05, -0.05], [1e-6, 0.05, 0.05, 0.05, 5.0])
    assert weight[0] == weight[1] == weight[2] == 1
    assert weight[4] < 0.01
    assert list(block_weights([0.1, np.nan, 0.2], [0.05, np.nan, 0.05])) == [1, 0, 1]
    assert list(block_weights([np.nan], [np.nan])) == [0]


def test_sets_of_blocks_are_weighed_each_for_itself() -> None:
    rng = np.random.default_rng(5)
    effects, errors = 0.1 * rng.standard_normal((50, 1, 9)), rng.uniform(0.01, 0.3, (50, 1, 9))
    errors[7, 0, 3] = effects[7, 0, 3] = np.nan
    together = block_weights(effects, errors)
    assert all(np.allclose(block_weights(e, s), w) for e, s, w in zip(effects, errors, together, strict=True))


def test_the_interval_is_t_over_blocks_left_out() -> None:
    rng = np.random.default_rng(6)
    effects, errors = 0.1 * rng.standard_normal(12), rng.uniform(0.01, 0.3, 12)
    w = block_weights(effects, errors)
    left = np.array([np.average(np.delete(effects, one), weights=np.delete(w, one)) for one in range(12)])
    half = stats.t.ppf(0.975, 11) * sqrt(11 / 12 * ((left - left.mean()) ** 2).sum())
    found = effect_of(effects[None], range(12), w[None])
    assert float(found.mean) == pytest.approx(np.average(effects, weights=w))
    assert float(half_width(found)) == pytest.approx(half)


def test_load_time_stands_still_between_turns() -> None:
    at = np.array([-1, 0, 499, 500, 519, 1000, 1200, 1499, 1501]) * MS
    assert list(TURNS.load_ns(at)) == [
        -1,
        0,
        499 * MS,
        500 * MS - 1,
        500 * MS - 1,
        500 * MS,
        700 * MS,
        999 * MS,
        1000 * MS - 1,
    ]


def test_a_wait_beyond_a_turn_counts_in_load_time() -> None:
    """Due 10 ms before a turn's end, ready 20 ms into the next, done 5 ms later: the 500 ms don't count."""
    columns = {
        "due_ns": [490, 100, 110],
        "ready_ns": [1020, 103, -1],
        "done_ns": [1025, 108, -1],
        "error": [0, 0, 1],
        "connection": [1, 1, 0],
    }
    rows = {name: np.array(one) * (MS if name.endswith("_ns") else 1) for name, one in columns.items()}
    found = Requests.of_rows(rows, TURNS)
    assert list(found.waited_ns) == [30 * MS, 3 * MS, 0]
    assert list(found.response_ns[:2]) == [35 * MS, 8 * MS]
    assert np.isnan(found.response_ns[2])
    assert list(in_flight(found, TURNS)) == [True, False]
