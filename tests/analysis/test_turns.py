"""Sides that take turns: which requests count, rounds, blocks and weights, and guards of the comparison, each
with a planted case that it must detect and a clean one."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from svload.analysis import limits
from svload.analysis.claims.statistic import apart, effect_of, half_width
from svload.analysis.claims.turned import (
    CPU,
    Control,
    Guard,
    _used,
    _within_and_between,
    defers,
    growth_in_turn,
    rises,
    saturates,
    waits,
)
from svload.analysis.claims.turns import (
    Requests,
    Turns,
    block_effect,
    block_weights,
    by_turn,
    in_flight,
    measured,
    round_logs,
    too_short,
)
from svload.analysis.quantiles import Ranked, ranked_values
from svload.analysis.readings import Series
from svload.model.results import TurnRecord

MS = 1_000_000
TURNS = Turns(*(np.array(one) * MS for one in ([0, 1000], [500, 1500], [520, 1520])))
BEGIN = np.arange(10) * 1040 * MS
TEN = Turns(BEGIN, BEGIN + 500 * MS, BEGIN + 520 * MS)
MARGIN = log(1.05)
Values = NDArray[Any]


def requests(*rows: tuple[float, float, int], failed: tuple[int, ...] = (), ended: bool = True) -> Requests:
    """Return requests from (due, response, connection), times in ms."""
    due, response, connection = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    answered = np.where(np.isin(np.arange(len(rows)), failed), np.nan, response) * MS
    made = answering(due * MS, response * MS, connection.astype(np.int64))
    return replace(made, response_ns=answered, done_ns=made.done_ns if ended else np.full(len(rows), -1))


def answering(due: Values, response: Values, connection: NDArray[np.int64] | None = None) -> Requests:
    """Return requests with these responses in ns; none of them waited."""
    at_ns, zeros = due.astype(np.int64), np.zeros(len(due), dtype=np.int64)
    done = at_ns + response.astype(np.int64)
    own = zeros if connection is None else connection
    return Requests(at_ns, at_ns, done, response, own, own, zeros)


def ranks(*values: list[float]) -> tuple[Ranked, ...]:
    return tuple(ranked_values(np.array(one)) for one in values)


def side(rng: np.random.Generator, held: list[int], slow: float = 1.0) -> tuple[Ranked, ...]:
    """Return a side's turns with this many requests; every fourth turn is `slow` times as slow."""
    times = (slow if place % 4 == 3 else 1.0 for place in range(len(held)))
    return tuple(
        ranked_values(by * np.exp(0.3 * rng.standard_normal(n))) for n, by in zip(held, times, strict=True)
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


def test_the_opening_of_a_connection_counts_where_the_server_closed_the_last_one() -> None:
    """A slot's third request in a turn is the first of its next connection; its first one was idle before."""
    made = requests(
        (40, 5, 1), (50, 5, 1), (60, 5, 2), (70, 5, 2), (1040, 5, 2), (1050, 5, 2), (1060, 5, 3), (1070, 5, 3)
    )
    made = replace(made, slot=np.ones(8, dtype=np.int64))
    assert list(measured(made, TURNS, MS)) == [False, True, True, True, False, True, True, True]


def test_connections_of_two_generators_with_one_number_are_two() -> None:
    """Each generator numbers its connections from 0."""
    ms = np.array([40, 41, 50, 51]) * MS
    rows = {"due_ns": ms, "ready_ns": ms, "done_ns": ms + MS, "error": np.zeros(4)}
    rows |= {"connection": np.zeros(4), "vu": np.array([0, 1, 0, 1]), "share": np.array([0, 1, 0, 1])}
    assert list(measured(Requests.of_rows(rows, TURNS), TURNS, MS)) == [False, False, True, True]


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
    assert not in_flight(made, early, MS).any()


def test_requests_in_flight_while_the_next_turn_is_measured_are_counted() -> None:
    assert list(in_flight(requests((490, 59, 1), (1490, 71, 1)), TURNS, MS)) == [False, True]
    assert list(in_flight(requests((490, 71, 1), (1490, 131, 1)), TURNS, 30 * MS)) == [False, True]
    assert list(in_flight(requests((490, 29, 1), ended=False), TURNS, MS)) == [True, False]
    waited = requests((100, 20, 1), (480, 541, 2), (490, 1100, 3))
    waited = replace(waited, ready_ns=np.array([-1, 1010, 1010]) * MS)
    assert list(in_flight(waited, TURNS, MS)) == [False, True], (
        "only the third, in the turn in which it had a slot"
    )
    assert too_short([True] + [False] * 19) == ""
    text = too_short([True] + [False] * 18)
    assert text.startswith("windows too short: in 5.26 %") and text.endswith(
        "(order: trials in a study, svload load for a URL)"
    )
    assert too_short([]) == ""


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
    b = ranks([2.0], [2.0, 2.0], [3.0, 3.0, 3.0], [1e9])
    assert round_logs(a, b, 0.5) == pytest.approx([log(2), log(3)])
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
    ends = [500 * MS - 1, 500 * MS - 1, 500 * MS, 700 * MS, 999 * MS, 1000 * MS - 1]
    assert list(TURNS.load_ns(at)) == [-1, 0, 499 * MS, *ends]


def test_a_wait_beyond_a_turn_counts_in_load_time() -> None:
    """Due 10 ms before a turn's end, ready 20 ms into the next, done 5 ms later: the 500 ms don't count."""
    columns = {"due_ns": [490, 100, 110], "ready_ns": [1020, 103, -1], "done_ns": [1025, 108, -1]}
    columns |= {"error": [0, 0, 1], "connection": [1, 1, 0], "vu": [1, 1, 1], "share": [0, 0, 0]}
    rows = {name: np.array(one) * (MS if name.endswith("_ns") else 1) for name, one in columns.items()}
    found = Requests.of_rows(rows, TURNS)
    assert list(found.waited_ns) == [30 * MS, 3 * MS, 0]
    assert list(found.response_ns[:2]) == [35 * MS, 8 * MS]
    assert np.isnan(found.response_ns[2])
    assert not in_flight(found, TURNS, MS).any()


# Guards


def holds(guard: Guard | None, ratio: float) -> bool:
    """Return whether it holds back a gate "worse by more than 5 %" with an interval up to 1 % above this."""
    return guard.holds_back((log(ratio) - 0.01, log(ratio) + 0.01), None, MARGIN)


def test_a_guard_holds_back_what_it_may_move_beyond_a_margin() -> None:
    assert holds(Guard("by 10 %", log(1.1)), 1.0)
    assert not holds(Guard("by 10 %", log(1.1)), 0.9)
    assert holds(Guard("nobody knows"), 0.001)
    near, far = (log(0.97), log(0.99)), (log(1.2), log(1.3))
    assert Guard("by 3 %", 0.03).holds_back(near, -MARGIN, MARGIN), "it may reach the lower margin"
    assert not Guard("by 1 %", 0.01).holds_back(near, -MARGIN, MARGIN)
    assert Guard("by 3 %", 0.03).holds_back(far, -MARGIN, MARGIN)
    assert not Guard("by 3 %", 0.03).holds_back(far, MARGIN, None), "better by more than 5 % is far away"
    assert Guard("by 1 %", 0.01).holds_back(None, -MARGIN, MARGIN), "there is no interval"


def made(rng: np.random.Generator, growth: float = 1.0) -> Requests:
    """Return one request every 5 ms; at the end of a turn `growth` times as slow as at its begin."""
    place = np.tile(np.arange(0, 500, 5) * MS, 10)
    due = place + np.repeat(BEGIN, 100)
    return answering(
        due, 4 * MS * growth ** (place / (500 * MS)) * np.exp(0.2 * rng.standard_normal(len(due)))
    )


def grown(growth: float) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    blocks = [made(rng, growth) for _ in range(12)]
    return np.array([[growth_in_turn(one, TEN, measured(one, TEN, MS), MS) for one in blocks]])


def test_a_queue_that_grows_within_a_turn_is_reported() -> None:
    assert rises(grown(1.0), range(12)) is None
    found = rises(grown(1.5), range(12))
    assert found.why.startswith("late in a turn the mean response is 1.2")
    assert "order: trials" in found.why
    assert [holds(found, ratio) for ratio in (1.0, 0.5, 0.05)] == [True, True, False], "it may go on growing"


def test_the_side_whose_queue_grows_most_says_how_far_the_ratio_may_be_off() -> None:
    one = rises(np.concatenate([grown(1.5), 0 * grown(1.0)]), range(12))
    assert 10 * grown(1.5).mean() < one.off < 13 * grown(1.5).mean()


CALM, NEAR = [0.15, -0.15] * 6, [0.05, 0.07] * 6


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        # the mean of both sides scatters because the other side's empty queue varies by chance
        ([CALM, NEAR], True),
        ([CALM, CALM], False),
        # a small rise
        ([[0.02] * 12], False),
        ([[0.03] * 12], True),
        # one noisy block
        ([[0.3, 0.02, *[-0.02, 0.02] * 5]], False),
    ],
)
def test_a_rise_of_either_side_is_reported(sides: list[list[float]], expected: bool) -> None:
    assert (rises(sides, range(12)) is not None) is expected
    assert not apart(effect_of([CALM, NEAR], range(12)), None, limits.TURN_RISES)


def test_requests_that_wait_for_slots_are_reported_from_the_first_turn_above_one_in_twenty() -> None:
    rng = np.random.default_rng(2)
    calm = made(rng)
    assert not waits(calm, TEN).any()
    late = replace(calm, waited_ns=np.where(calm.due_ns >= BEGIN[8], 9, 0))
    assert list(np.flatnonzero(waits(late, TEN))) == [8, 9]
    never = replace(calm, ready_ns=np.where(calm.due_ns >= BEGIN[9], -1, calm.due_ns))
    assert list(np.flatnonzero(waits(never, TEN))) == [9]
    assert saturates([[True] + [False] * 19]) is None
    for waited, share in (([True] * 3 + [False] * 47, "6 %"), ([True, True] + [False] * 18, "10 %")):
        found = saturates([[False] * 50, waited])
        assert found.why.startswith(f"in {share} of the turns requests waited for a slot")
        assert holds(found, 0.001), "nobody knows how long they would wait"


@pytest.mark.parametrize(
    ("used", "what", "why", "least"),
    [
        # The side that defers most is reported; the work costs as much CPU again if a core is free for it.
        ([(0.5, 0.0), (0.5, 0.1)], CPU, "its use of CPU between turns is 20 % of that within", 0.2),
        ([(0.5, 0.03)], CPU, "", 0.9),
        # no core was free
        ([(0.9, 0.06)], CPU, "", 0.001),
        ([(1.9, 0.15)], CPU, "", 0.001),
        ([(1.01, 0.06)], CPU, "", 0.001),
        # the other side puts off more, but has a core for it
        ([(0.5, 0.1), (0.9, 0.06)], CPU, "its use of CPU between turns is 6.67 % of that within", 0.001),
        ([(0.0, 0.2)], CPU, "", 0.001),
        ([(1e6, 2e5)], "the disk", "", 0.001),
        ([(0.0, 3e5)], "the disk", "its use of the disk between turns is all of it", 0.001),
    ],
)
def test_work_that_is_put_off_is_reported(
    used: list[tuple[float, float]], what: str, why: str, least: float
) -> None:
    found = defers(used, what)
    assert found.why.startswith(why)
    assert holds(found, least)
    assert least == 0.001 or not holds(found, 0.01)


def test_little_work_is_not_put_off() -> None:
    assert defers([(0.5, 0.025), (0.0, 0.0)], CPU) is None


def written(within: float, at_end: float, between: float) -> tuple[float, float] | None:
    """Read a counter every 100 ms and in the middle of each pause; it grows by this much in each turn, in
    the 10 ms after it, and then until the next one."""
    at = np.sort(np.concatenate([np.arange(0, 10_400, 100) * MS, BEGIN + 510 * MS]))
    turn, place = np.divmod(at, 1040 * MS)
    grown = within * np.minimum(place / (500 * MS), 1)
    grown += at_end * np.clip((place - 500 * MS) / (10 * MS), 0, 1)
    grown += between * np.clip((place - 510 * MS) / (530 * MS), 0, 1)
    return _within_and_between(Series(at, turn * (within + at_end + between) + grown), TEN, 100_000.0)


@pytest.mark.parametrize(
    ("within", "at_end", "between", "put_off"),
    [(0, 2e6, 0, 18e6), (1e6, 0, 0, 0), (1e6, 2e4, 0, 0), (1e6, 0, 1e6, 9e6), (0, 0, 2e4, 0)],
)
def test_what_is_written_at_once_as_a_turn_ends_was_put_off(
    within: float, at_end: float, between: float, put_off: float
) -> None:
    """The first reading after a turn is only taken in the middle of the pause."""
    found = written(within, at_end, between)
    assert found == (pytest.approx(10 * within), pytest.approx(put_off, rel=0.1))
    two_looks = Series(BEGIN[:2], np.array([0.0, 9.0]))
    assert _within_and_between(two_looks, TEN, 0.0) is None, "no look lies wholly on one side"


@pytest.mark.parametrize(
    ("metric", "what", "rate", "idle"),
    [
        ("cpu_seconds_total", CPU, 0.009, True),
        ("cpu_seconds_total", CPU, 0.011, False),
        ("written_bytes_total", "the disk", 90_000.0, True),
        ("written_bytes_total", "the disk", 110_000.0, False),
    ],
)
def test_an_idle_server_puts_nothing_off(metric: str, what: str, rate: float, idle: bool) -> None:
    """A hundredth of a core, 100 kB a second."""
    at = np.arange(0, 10_400, 10) * MS
    names = {"service": "web", "monitor": "process", "entity": "", "metric": metric}
    table: Any = {name: np.array([word] * len(at), dtype=object) for name, word in names.items()}
    table |= {"offset_ns": at, "value": rate * at / 1e9}
    record = TurnRecord(
        turns_ns=tuple((begin, begin + 500 * MS) for begin in BEGIN.tolist()),
        next_ns=tuple((BEGIN + 520 * MS).tolist()), p99_ns=1, pause_ns=20 * MS, sides=("a", "b"), warm_ns=0, settled=True,
    )  # fmt: skip
    trial: Any = SimpleNamespace(summary=SimpleNamespace(turns=record), monitors=table)
    config: Any = SimpleNamespace(services=(SimpleNamespace(name="web"),))
    within, between = _used(trial, config)[what]
    assert within == pytest.approx(rate)
    assert (between == 0) == idle


ANSWER = effect_of([[0.0, 0.01, 0.02]], range(3))
SMALL = [0.004, 0.006, 0.005, 0.004, 0.006, 0.005]
UNSURE = [0.2, -0.1, 0.06, -0.04, 0.1, -0.04]
SURE = np.array([-1e-4, 1e-4, 0, 1e-4, -1e-4, 0])


@pytest.mark.parametrize(
    ("effects", "margin", "prefers", "fits"),
    [
        (SMALL, MARGIN, False, 1),
        ([10 * one for one in SMALL], MARGIN, True, 2),
        ([10 * one for one in SMALL], log(1.25), False, 1),
        # small within a quarter of the margin
        (0.23 * MARGIN + SURE, MARGIN, False, 1),
        (0.3 * MARGIN + SURE, MARGIN, True, 2),
        (UNSURE, MARGIN, False, 2),
    ],
)
def test_a_control_is_small_or_unsure_or_prefers_a_side(
    effects: list[float], margin: float, prefers: bool, fits: int
) -> None:
    """Surely not none, and too small to matter, it changes nothing; an unsure one widens the answer."""
    control = Control(effect_of([effects], range(6)))
    plain, *taken_off = control.fits([ANSWER], margin)
    assert (control.prefers_a_side(margin), len(taken_off) + 1, plain) == (prefers, fits, ANSWER)
    for one in taken_off:
        assert float(one.mean) == pytest.approx(float(ANSWER.mean) - np.mean(effects))
        assert one.se == ANSWER.se
