"""The verdicts that a run's trials had when they were sealed, where other rules judge them now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from svload.analysis.limits import ANALYSIS_VERSION
from svload.model.events import Event
from svload.model.results import Grade, OwnVerdicts


def own_verdicts(events: Iterable[Event]) -> OwnVerdicts | None:
    """Return the verdicts in a run's journal; None where today's rules judged, or where the journal does not
    name the rules."""
    trials: dict[str, Any] = {}
    versions = set()
    for event in events:
        grade, version = event.text("instrument"), event.data.get("analysis_version")
        if event.kind == "trial-sealed" and grade in get_args(Grade) and isinstance(version, int):
            trials[event.text("trial")] = grade
            versions.add(version)
    versions.discard(ANALYSIS_VERSION)
    return OwnVerdicts(version=max(versions), trials=trials) if versions else None
