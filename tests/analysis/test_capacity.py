"""The search for the largest load: the bracket holds the truth, what can't be told stays open, and the
same trials give the same step."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import numpy as np
import pytest

from svload.analysis.capacity import knee as knees
from svload.analysis.capacity.budget import Budget
from svload.analysis.capacity.knee import Found, Knee, Throughput
from svload.analysis.capacity.level import (
    ALPHA,
    MOST,
    Judged,
    Margin,
    Replicate,
    Share,
    judge_level,
    sign_look,
)
from svload.analysis.capacity.search import Answer, Search, Step, next_step

Server = Callable[[int, int | None], Replicate]
BOUND = 400


def exactly(value: float) -> Margin:
    return Margin(value, value, value)


def of_queue(capacity: float, scatter: float, seed: int) -> Server:
    """A response of 100 ms / (1 − load/capacity'), whose limit of 200 ms is reached at `capacity` exactly."""
    rng = np.random.default_rng(seed)

    def measure(load: int, after: int | None) -> Replicate:
        full = 2 * capacity
        if load >= full:
            return Replicate(load, {"p95": Margin(-inf, -inf, -inf)}, after=after)
        response_s = 0.1 / (1 - load / full)
        return Replicate(
            load, {"p95": exactly(log(0.2 / response_s) + scatter * rng.standard_normal())}, after=after
        )

    return measure


def sought(search: Search, server: Server) -> tuple[Answer, list[Replicate]]:
    seen: list[Replicate] = []
    while len(seen) < BOUND:
        step = next_step(search, seen)
        if isinstance(step, Answer):
            return step, seen
        assert isinstance(step, Step)
        for load in step.loads:
            assert search.least <= load <= search.most
            seen.append(server(load, seen[-1].load if seen else None))
    raise AssertionError(f"no answer after {BOUND} trials")


@pytest.mark.parametrize("capacity", [3, 17, 64, 100, 777, 5000])
def test_the_bracket_holds_the_truth(capacity: int) -> None:
    wrong = 0
    for seed in range(40):
        answer, _ = sought(Search(1, 100_000, 8), of_queue(capacity, 0.03, seed))
        assert answer.kept is not None
        assert answer.broken is not None
        # within the indifference of 3 % of response, which is 3 % of what is left of the load
        wrong += not (answer.kept <= capacity * 1.04 and answer.broken >= capacity * 0.96)
        if not answer.why_wide:
            assert answer.broken - answer.kept <= 1 or answer.broken / answer.kept <= 1.05 + 1e-9
    assert wrong <= 2, "5 % of 40"


def test_a_server_that_keeps_it_everywhere_has_no_upper_end() -> None:
    answer, _ = sought(Search(1, 500, 8), of_queue(1e9, 0.01, 1))
    assert (answer.kept, answer.broken) == (500, None)


def test_a_server_that_breaks_it_at_once_has_no_lower_end() -> None:
    answer, _ = sought(Search(4, 500, 16), of_queue(1, 0.01, 1))
    assert (answer.kept, answer.broken) == (None, 4)


def test_a_refused_level_counts_neither_way() -> None:
    server = of_queue(100, 0.01, 1)

    def refused_at_64(load: int, after: int | None) -> Replicate:
        return Replicate(load, {"p95": None}, after=after) if load == 64 else server(load, after)

    answer, seen = sought(Search(1, 10_000, 8), refused_at_64)
    assert sum(one.load == 64 for one in seen) <= 1 + 3 + 3, (
        "a first look, three replicates asked, repeated three times at most"
    )
    assert answer.levels[64].outcome == "open"
    assert answer.kept is not None
    assert answer.broken is not None
    assert answer.kept <= 104 <= answer.broken * 1.08


def test_where_all_round_the_limit_is_refused_the_bracket_stays_wide_and_says_why() -> None:
    server = of_queue(100, 0.01, 1)

    def refused_between(load: int, after: int | None) -> Replicate:
        return Replicate(load, {"p95": None}, after=after) if 70 < load < 128 else server(load, after)

    answer, _ = sought(Search(1, 10_000, 8), refused_between)
    assert answer.kept is not None
    assert answer.kept <= 70
    assert answer.broken is not None
    assert answer.broken >= 128
    assert "REFUSED" in answer.why_wide


def test_a_server_that_does_not_come_back_from_overload_is_told() -> None:
    """After a load of 60 or more it takes only 30."""
    fresh, after_overload = of_queue(60, 0.005, 1), of_queue(30, 0.005, 2)

    def metastable(load: int, after: int | None) -> Replicate:
        return (
            after_overload(load, after)
            if after is not None and after > 60 and load <= 60
            else fresh(load, after)
        )

    answer, _ = sought(Search(1, 1000, 8), metastable)
    clean, _ = sought(Search(1, 1000, 8), fresh)
    assert answer.hysteresis
    assert not clean.hysteresis


def test_the_same_trials_give_the_same_step() -> None:
    search, server = Search(1, 10_000, 8), of_queue(100, 0.02, 3)
    _, seen = sought(search, server)
    for n in range(0, len(seen), 5):
        assert next_step(search, seen[:n]) == next_step(search, list(seen[:n]))


def test_a_budget_ends_the_search_with_what_is_known() -> None:
    answer, seen = sought(Search(1, 10_000, 8, budget=Budget(most_trials=7)), of_queue(100, 0.01, 1))
    assert len(seen) <= 9
    assert answer.kept is not None
    assert "time" in answer.why_wide


def test_success_needs_as_many_requests_as_its_limit_asks() -> None:
    def level(n: int, bad: int) -> str:
        shares = {"success_rate": Share(bad, n // 3, 0.001)}
        return judge_level([Replicate(5, {}, shares)] * 3).outcome

    assert level(2_994, 0) == "more"
    assert level(2_997, 0) == "kept"
    assert level(30_000, 100) == "broken"


def test_equal_replicates_are_not_believed_to_be_without_noise() -> None:
    near = [Replicate(5, {"p95": exactly(-0.001)})] * 3
    assert judge_level(near).outcome in ("more", "kept")


def test_false_decisions_at_the_limit_itself_are_rare() -> None:
    """A mean margin of −4 %, beyond the indifference: how often is it called kept?"""
    rng = np.random.default_rng(1)
    kept = 0
    for _ in range(400):
        replicates: list[Replicate] = []
        while len(replicates) < MOST:
            replicates.append(Replicate(5, {"p95": exactly(-0.04 + 0.05 * rng.standard_normal())}))
            if judge_level(replicates).outcome != "more":
                break
        kept += judge_level(replicates).outcome == "kept"
    assert kept <= 0.05 * 400


TWO_HEAPS = (-0.05, -3.0, -0.06, -3.2, -0.04, -3.1, -0.05, -2.9, -0.05, -3.0, -0.06, -3.1)
"""Margins that all break the limit, half of them by far: their mean is not surely apart from 0."""


def level_of(*margins: float) -> Judged:
    return judge_level([Replicate(5, {"p95": exactly(one)}) for one in margins])


def test_replicates_that_all_break_the_limit_break_it_though_their_mean_is_unsure() -> None:
    assert level_of(*TWO_HEAPS[:8]).outcome == "more"
    broken = level_of(*TWO_HEAPS[:9])
    assert (broken.outcome, broken.breaks, broken.replicates) == ("broken", 9, 9)
    assert broken.high is not None
    assert broken.high > 0, "the t interval straddles the limit"
    assert "sign test" in broken.why
    kept = level_of(*(-one for one in TWO_HEAPS[:9]))
    assert (kept.outcome, kept.breaks) == ("kept", 0)


def test_one_replicate_on_the_other_side_leaves_the_level_to_its_mean() -> None:
    for at in range(9):
        mixed = [*TWO_HEAPS]
        mixed[at] = 0.01
        assert level_of(*mixed[:9]).outcome == "more"
        assert level_of(*mixed).outcome == "open", "no sign of a later one is asked"


def test_a_replicate_whose_bounds_reach_the_limit_is_on_no_side() -> None:
    bounded = [Replicate(5, {"p95": Margin(one, one - 0.1, one + 0.1)}) for one in TWO_HEAPS[:9]]
    assert judge_level(bounded).outcome == "more"


def test_signs_decide_what_clear_margins_decide_too_and_no_sooner() -> None:
    clear = level_of(*([-0.3, -0.31, -0.29]))
    assert (clear.outcome, clear.why) == ("broken", "")


def test_the_sign_look_is_one_of_eleven() -> None:
    looks = MOST - 3 + 1 + 1
    n = sign_look(looks)
    assert 2 * 0.5**n <= ALPHA / looks < 2 * 0.5 ** (n - 1)


def test_a_level_at_its_limit_is_broken_wrongly_in_one_of_twenty_at_most() -> None:
    """Margins about 0 exactly: “kept” is right there, by the indifference zone."""
    rng = np.random.default_rng(7)
    broken = 0
    for _ in range(600):
        found: list[Replicate] = []
        while len(found) < MOST and judge_level(found).outcome == "more":
            found.append(Replicate(5, {"p95": exactly(0.5 * rng.standard_normal())}))
        broken += judge_level(found).outcome == "broken"
    assert broken <= 0.05 * 600


def test_the_end_of_the_time_is_said_with_what_is_needed_and_what_is_left() -> None:
    def server(load: int, after: int | None) -> Replicate:
        return of_queue(100, 0.01, 1)(load, after)

    tight = Search(1, 10_000, 8, budget=Budget(45, 4.0, 1.5))
    looks = [server(load, None) for load in (8, 16, 32, 64, 128)]
    answer = next_step(tight, looks)
    assert isinstance(answer, Answer)
    assert answer.why_wide == "the next 3 trials need about 4.5 s, and 4 s of the time of 45 s is left"
    roomy = next_step(Search(1, 10_000, 8, budget=Budget(45, 4.6, 1.5)), looks)
    assert isinstance(roomy, Step)
    assert roomy.loads == (64,) * 3


def throughput(knee_at: int, scatter: float, seed: int) -> Callable[[int], Throughput]:
    rng = np.random.default_rng(seed)
    return lambda load: Throughput(
        load, min(load, knee_at) * 10.0 * float(np.exp(scatter * rng.standard_normal()))
    )


@pytest.mark.parametrize("knee_at", [5, 40, 333])
def test_the_knee_is_the_first_step_without_gain(knee_at: int) -> None:
    server, knee = throughput(knee_at, 0.01, 1), Knee(1, 4000)
    seen: list[Throughput] = []
    while isinstance(step := knees.next_step(knee, seen), Step):
        seen += [server(load) for load in step.loads]
        assert len(seen) < BOUND
    assert isinstance(step, Found)
    assert step.flat is not None
    assert step.flat.low_load >= knee_at / 1.3
    assert step.flat.low_load <= knee_at * 1.3


def test_no_knee_within_the_range_is_said() -> None:
    server, knee = throughput(10**6, 0.01, 1), Knee(1, 100)
    seen: list[Throughput] = []
    while isinstance(step := knees.next_step(knee, seen), Step):
        seen += [server(load) for load in step.loads]
    assert isinstance(step, Found)
    assert step.flat is None
