"""Guards of comparisons by turns: each has a planted case that it must detect and a clean one."""

from __future__ import annotations

from math import inf, log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.claims.statistic import apart, effect_of
from svload.analysis.claims.turned import (
    CPU,
    Control,
    Guard,
    _used,
    _within_and_between,
    defers,
    drift_of,
    growth_in_turn,
    is_cold,
    rises,
    saturates,
    waits,
)
from svload.analysis.claims.turns import Requests, Turns, measured
from svload.analysis.readings import Series
from svload.model.results import TurnRecord

MS = 1_000_000
BEGIN = np.arange(10) * 1040 * MS
TURNS = Turns(BEGIN, BEGIN + 500 * MS, BEGIN + 520 * MS)
MARGIN = log(1.05)


def holds(guard: Guard | None, ratio: float) -> bool:
    """Return whether it holds back a gate "worse by more than 5 %" with an interval up to 1 % above this."""
    assert guard is not None
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
    response = 4 * MS * growth ** (place / (500 * MS)) * np.exp(0.2 * rng.standard_normal(len(due)))
    zeros = np.zeros_like(due)
    return Requests(due, due + response.astype(np.int64), response, zeros, zeros)


def grown(growth: float) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    blocks = [made(rng, growth) for _ in range(12)]
    return np.array([[growth_of(one) for one in blocks]])


def growth_of(requests: Requests) -> float:
    return growth_in_turn(requests, TURNS, measured(requests, TURNS, MS), MS)


def test_a_queue_that_grows_within_a_turn_is_reported() -> None:
    assert rises(grown(1.0), range(12)) is None
    found = rises(grown(1.5), range(12))
    assert found is not None
    assert found.why.startswith("late in a turn the mean response is 1.2")
    assert "order: trials" in found.why
    assert holds(found, 1.0)
    assert holds(found, 0.5), "its queue may go on growing"
    assert not holds(found, 0.05)


def test_the_side_whose_queue_grows_most_says_how_far_the_ratio_may_be_off() -> None:
    one = rises(np.concatenate([grown(1.5), 0 * grown(1.0)]), range(12))
    assert one is not None
    assert 10 * grown(1.5).mean() < one.off < 13 * grown(1.5).mean()


def queued(rng: np.random.Generator, used: float) -> Requests:
    """Simulate one server that is empty as each turn begins, with requests at random times."""
    due, response = [], []
    for begin in BEGIN:
        free = 0.0
        for at in np.sort(rng.uniform(0, 500 * MS, 200)):
            free = max(free, at) + rng.exponential(used * 500 * MS / 200)
            due.append(begin + at)
            response.append(free - at)
    at_ns, took = np.array(due).astype(np.int64), np.array(response)
    zeros = np.zeros_like(at_ns)
    return Requests(at_ns, at_ns + took.astype(np.int64), took, zeros, zeros)


def growths(used: float, seed: int = 4, blocks: int = 12) -> list[float]:
    rng = np.random.default_rng(seed)
    return [growth_of(queued(rng, used)) for _ in range(blocks)]


@pytest.mark.parametrize(("used", "expected"), [(0.5, False), (0.98, True)])
def test_a_queue_near_its_capacity_is_reported_and_one_at_half_is_not(used: float, expected: bool) -> None:
    assert (rises([growths(used)], range(12)) is not None) is expected


def test_a_queue_of_one_side_is_not_hidden_by_the_other() -> None:
    """The mean of both sides scatters because the other side's empty queue varies by chance."""
    calm, near = [0.15, -0.15] * 6, [0.05, 0.07] * 6
    assert rises([calm, near], range(12)) is not None
    assert rises([calm, calm], range(12)) is None
    assert not apart(effect_of([calm, near], range(12)), None, limits.TURN_RISES)


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_a_load_without_turns_is_no_further_off_than_the_guard_allows(p: float) -> None:
    """The same queue without idle time between two turns (M/M/1)."""
    rng = np.random.default_rng(4)
    blocks = [queued(rng, 0.98) for _ in range(12)]
    turns = np.concatenate([one.response_ns[measured(one, TURNS, MS)] for one in blocks])
    always = -log(1 - p) * 0.98 * 2.5 * MS / (1 - 0.98)
    guard = rises([growths(0.98)], range(12))
    assert guard is not None
    assert 0.5 < log(always / float(np.quantile(turns, p))) < guard.off


@pytest.mark.parametrize(("growth", "expected"), [(0.02, False), (0.03, True)])
def test_a_small_rise_is_not_reported(growth: float, expected: bool) -> None:
    assert (rises([[growth] * 6], range(6)) is not None) is expected


def test_one_noisy_block_is_no_rise() -> None:
    assert rises([[0.3, *[-0.02, 0.02] * 5]], range(11)) is None


def test_requests_that_wait_for_slots_are_reported_from_the_first_turn_above_one_in_twenty() -> None:
    rng = np.random.default_rng(2)
    calm = made(rng)
    assert not waits(calm, TURNS).any()
    late = Requests(
        calm.due_ns, calm.done_ns, calm.response_ns, calm.connection, np.where(calm.due_ns >= BEGIN[8], 9, 0)
    )
    assert list(np.flatnonzero(waits(late, TURNS))) == [8, 9]
    assert saturates([[True] + [False] * 19]) is None
    for waited, share in (([True] * 3 + [False] * 47, "6 %"), ([True, True] + [False] * 18, "10 %")):
        found = saturates([[False] * 50, waited])
        assert found is not None
        assert found.why.startswith(f"in {share} of the turns requests waited for a slot")
        assert holds(found, 0.001), "nobody knows how long they would wait"


def test_work_that_is_put_off_is_reported() -> None:
    """The side that defers most is reported; the work costs as much CPU again if a core is free for it."""
    assert defers([(0.5, 0.025), (0.0, 0.0)], CPU) is None
    found = defers([(0.5, 0.0), (0.5, 0.1)], CPU)
    assert found is not None
    assert found.why.startswith("what it uses of CPU between its turns is 20 % of that within")
    assert holds(found, 1.0)
    assert holds(found, 0.2)
    assert not holds(found, 0.01)
    assert defers([(0.5, 0.03)], CPU) is not None


@pytest.mark.parametrize(("within", "outside"), [(0.9, 0.06), (1.9, 0.15), (1.01, 0.06), (0.0, 0.2)])
def test_work_that_a_server_had_no_cores_for_may_cost_anything(within: float, outside: float) -> None:
    found = defers([(within, outside)], CPU)
    assert found is not None
    assert found.off == inf or holds(found, 0.001)


def test_writes_that_are_put_off_may_cost_anything() -> None:
    found = defers([(1e6, 2e5)], "the disk")
    assert found is not None
    assert holds(found, 0.001)
    nothing_else = defers([(0.0, 3e5)], "the disk")
    assert nothing_else is not None
    assert nothing_else.why.startswith("what it uses of the disk between its turns is all that it has")


def written(within: float, at_end: float, between: float) -> tuple[float, float] | None:
    """Read a counter every 100 ms and in the middle of each pause; it grows by this much in each turn, in
    the 10 ms after it, and then until the next one."""
    at = np.sort(np.concatenate([np.arange(0, 10_400, 100) * MS, BEGIN + 510 * MS]))
    turn, place = np.divmod(at, 1040 * MS)
    grown = within * np.minimum(place / (500 * MS), 1)
    grown += at_end * np.clip((place - 500 * MS) / (10 * MS), 0, 1)
    grown += between * np.clip((place - 510 * MS) / (530 * MS), 0, 1)
    return _within_and_between(Series(at, turn * (within + at_end + between) + grown), TURNS, 100_000.0)


@pytest.mark.parametrize(
    ("within", "at_end", "between", "put_off"),
    [(0, 2e6, 0, 18e6), (1e6, 0, 0, 0), (1e6, 2e4, 0, 0), (1e6, 0, 1e6, 9e6), (0, 0, 2e4, 0)],
)
def test_what_is_written_at_once_as_a_turn_ends_was_put_off(
    within: float, at_end: float, between: float, put_off: float
) -> None:
    """The first reading after a turn is only taken in the middle of the pause."""
    found = written(within, at_end, between)
    assert found is not None
    assert found == (pytest.approx(10 * within), pytest.approx(put_off, rel=0.1))


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


def test_a_ratio_that_still_moves_is_not_warm() -> None:
    rng = np.random.default_rng(3)
    steady = [[drift_of(0.02 * rng.standard_normal(10)) for _ in range(12)]]
    moving = [[drift_of(np.linspace(0.1, 0, 10) + 0.02 * rng.standard_normal(10)) for _ in range(12)]]
    assert is_cold(steady, range(12), MARGIN) is None
    found = is_cold(moving, range(12), MARGIN)
    assert found is not None
    assert found.why.endswith("not warm")
    assert holds(found, 1.0)
    assert holds(found, 0.8)
    assert not holds(found, 0.01), "no drift brings it to the margin"
    assert np.isnan(drift_of(np.zeros(2)))


def held_back(scatter: float, moves: float) -> float:
    """Return the share of 400 runs of 12 blocks that are called not warm; the ratio changes by `moves`
    from the first to the last third."""
    rng = np.random.default_rng(6)
    line = moves * (np.arange(10) - 4.5) / 7
    runs = ([[drift_of(line + scatter * rng.standard_normal(10)) for _ in range(12)]] for _ in range(400))
    return float(np.mean([is_cold(one, range(12), MARGIN) is not None for one in runs]))


def test_a_run_that_is_warm_is_held_back_in_at_most_one_of_twenty() -> None:
    assert held_back(0.06, 0.0) < 0.06
    assert held_back(0.1, 0.0) < 0.065, "as many by the medians of the thirds at p < 0.1 were 10 %"


def test_a_ratio_that_moves_by_the_margin_is_held_back_as_often_as_before() -> None:
    assert held_back(0.06, 0.05) > 0.84, "by the thirds at p < 0.1 it was 88 %"
    assert held_back(0.03, 0.05) == 1.0


ANSWER = effect_of([[0.0, 0.01, 0.02]], range(3))


def control(effects: list[float]) -> Control:
    return Control(effect_of([effects], range(len(effects))))


def test_a_control_that_shows_nothing_changes_nothing() -> None:
    small = control([0.004, 0.006, 0.005, 0.004, 0.006, 0.005])
    assert not small.prefers_a_side(MARGIN), "surely not none, and too small to matter"
    assert len(small.fits([ANSWER], MARGIN)) == 1
    assert small.sentence("main") == "main against itself: 0.5 % (+0.41 to +0.6)"


def test_a_setup_that_prefers_a_side_decides_nothing() -> None:
    assert control([0.04, 0.05, 0.045, 0.042, 0.048, 0.046]).prefers_a_side(MARGIN)
    assert not control([0.04, 0.05, 0.045, 0.042, 0.048, 0.046]).prefers_a_side(log(1.25))


@pytest.mark.parametrize(("share", "prefers"), [(0.23, False), (0.3, True)])
def test_a_control_is_small_within_a_quarter_of_the_margin(share: float, prefers: bool) -> None:
    sure = control([share * MARGIN + one for one in (-1e-4, 1e-4, 0, 1e-4, -1e-4, 0)])
    assert sure.prefers_a_side(MARGIN) is prefers
    assert (len(sure.fits([ANSWER], MARGIN)) == 1) is not prefers


def test_an_unsure_control_widens_the_answer() -> None:
    unsure = control([0.2, -0.1, 0.06, -0.04, 0.1, -0.04])
    assert not unsure.prefers_a_side(MARGIN)
    plain, taken_off = unsure.fits([ANSWER], MARGIN)
    assert plain == ANSWER
    assert float(taken_off.mean) == pytest.approx(float(ANSWER.mean) - 0.03)
    assert taken_off.se == ANSWER.se
