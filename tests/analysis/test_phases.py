"""A run's record of itself: where its time went, which rules judged it, and its stacks."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis import ANALYSIS_VERSION, outside_load, own_verdicts, phases_of
from svload.analysis.stacks import function_shares, most_inclusive
from svload.model.events import Event, EventKind


def at(second: float, kind: EventKind, **data: object) -> Event:
    return Event(kind, data, monotonic_ns=round(second * 1e9))


RUN = [
    at(100, "run-started"),
    at(100, "phase", name="up", state="begin"),
    at(104, "phase", name="up", state="end", seconds=4.0),
    at(130, "trial-sealed", trial="TC0.r1"),
]
"""Killed after its first trial."""
RESUMED = [
    at(5, "run-started"),
    at(8, "phase", name="up", state="end", seconds=3.0),
    at(30, "trial-sealed", trial="TC0.r2"),
    at(31, "run-ended", seconds=26.0),
    at(33, "phase", name="analyse", state="end", seconds=2.0),
]
TRIALS = [{"reset": 1.0, "load": 20.0, "warm-up": 2.0}, {"reset": 0.5, "load": 20.0, "settle": 1.0}]


def test_phases_add_up_to_all_of_it_over_a_kill_and_a_resume() -> None:
    found = phases_of([*RUN, *RESUMED], TRIALS)
    assert list(found) == ["up", "reset", "warm-up", "load", "settle", "analyse", "other", "total"]
    assert (found["up"], found["reset"], found["total"]) == (7.0, 1.5, 30.0 + 28.0)
    assert sum(found.values()) - found["total"] == pytest.approx(found["total"])
    outside = outside_load(found)
    assert (outside.seconds, outside.share) == pytest.approx((18.0, 18 / 58))
    assert phases_of([], [])["total"] == 0, "of a run whose journal is gone"


@pytest.mark.parametrize("phases", [{}, {"total": 5.0}, {"load": 5.0}, {"load": 5.0, "total": 0.0}])
def test_nothing_is_reported_of_a_run_whose_time_is_not_known(phases: dict[str, float]) -> None:
    assert outside_load(phases) is None


def sealed(trial: str, grade: str, version: int | None) -> Event:
    data: dict[str, Any] = {"trial": trial, "instrument": grade}
    return Event("trial-sealed", data if version is None else data | {"analysis_version": version})


def test_rules_of_another_version_are_reported() -> None:
    own = own_verdicts([sealed("a.r1", "VALID", 3), sealed("a.r2", "WEAK", 3), sealed("a.r2", "REFUSED", 3)])
    assert (own.version, own.trials) == (3, {"a.r1": "VALID", "a.r2": "REFUSED"})
    for same_or_unknown in (ANALYSIS_VERSION, None):
        assert own_verdicts([sealed("a.r1", "VALID", same_or_unknown)]) is None


FOLDED = {"s;main;a": 6, "s;main;b;a": 3, "s;main;b;b": 4, "s;main;b;x_[k]": 5, "t;b": 2}


def test_what_ran_itself_and_what_was_under_way_are_distinguished() -> None:
    shares = {one.name: (one.own, one.inclusive) for one in function_shares(FOLDED)}
    assert shares == {"a": (9, 9), "b": (6, 14), "x_[k]": (5, 5), "main": (0, 18)}
    assert [one.name for one in function_shares(FOLDED)] == ["a", "b", "x_[k]", "main"]


def test_what_begins_each_thread_and_the_kernel_are_not_named_as_the_most_inclusive() -> None:
    begun = {f"s;clone3;start_thread;{stack.partition(';')[2]}": count for stack, count in FOLDED.items()}
    assert [one.name for one in most_inclusive(function_shares(begun), 5)] == ["b", "a"]
    assert [one.name for one in most_inclusive(function_shares(begun), 1)] == ["b"]
