"""A run that other rules judged when it ran says so beside the new verdicts; one that
today's rules judged says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis import ANALYSIS_VERSION, own_verdicts
from svload.model.events import Event


def sealed(trial: str, grade: str, version: int | None) -> Event:
    data: dict[str, Any] = {"trial": trial, "instrument": grade}
    return Event("trial-sealed", data if version is None else data | {"analysis_version": version})


def test_rules_of_another_version_are_told() -> None:
    own = own_verdicts([sealed("a.r1", "VALID", 3), sealed("a.r2", "WEAK", 3), sealed("a.r2", "REFUSED", 3)])
    assert (own.version, own.trials) == (3, {"a.r1": "VALID", "a.r2": "REFUSED"})


@pytest.mark.parametrize("version", [ANALYSIS_VERSION, None])
def test_the_same_rules_and_unknown_ones_are_not(version: int | None) -> None:
    assert own_verdicts([sealed("a.r1", "VALID", version)]) is None
