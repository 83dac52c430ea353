"""What a journal tells later: where a run's wall time went, and which rules judged it."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis import ANALYSIS_VERSION, outside_load, own_verdicts, phases_of
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
TRIALS = [{"reset": 1.0, "load": 20.0}, {"reset": 0.5, "load": 20.0, "settle": 1.0}]


def test_phases_add_up_to_all_of_it_over_a_kill_and_a_resume() -> None:
    found = phases_of([*RUN, *RESUMED], TRIALS)
    assert list(found) == ["up", "reset", "load", "settle", "analyse", "other", "total"]
    assert found["up"] == 7.0
    assert found["reset"] == 1.5
    assert found["total"] == 30.0 + 28.0
    assert sum(found.values()) - found["total"] == pytest.approx(found["total"])


def test_what_is_no_load_is_told_with_its_share() -> None:
    outside = outside_load(phases_of([*RUN, *RESUMED], TRIALS))
    assert outside.seconds == pytest.approx(18.0)
    assert outside.share == pytest.approx(18 / 58)


@pytest.mark.parametrize("phases", [{}, {"total": 5.0}, {"load": 5.0}, {"load": 5.0, "total": 0.0}])
def test_nothing_is_told_of_a_run_whose_time_is_not_known(phases: dict[str, float]) -> None:
    assert outside_load(phases) is None


def test_a_run_whose_journal_is_gone_has_no_phases_but_its_trials():
    assert phases_of([], [])["total"] == 0


def sealed(trial: str, grade: str, version: int | None) -> Event:
    data: dict[str, Any] = {"trial": trial, "instrument": grade}
    return Event("trial-sealed", data if version is None else data | {"analysis_version": version})


def test_rules_of_another_version_are_told() -> None:
    own = own_verdicts([sealed("a.r1", "VALID", 3), sealed("a.r2", "WEAK", 3), sealed("a.r2", "REFUSED", 3)])
    assert (own.version, own.trials) == (3, {"a.r1": "VALID", "a.r2": "REFUSED"})


@pytest.mark.parametrize("version", [ANALYSIS_VERSION, None])
def test_the_same_rules_and_unknown_ones_are_not(version: int | None) -> None:
    assert own_verdicts([sealed("a.r1", "VALID", version)]) is None
