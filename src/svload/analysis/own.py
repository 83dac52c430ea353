"""What a run's trials were called when they were sealed, where other rules judge them now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from svload.analysis.limits import ANALYSIS_VERSION
from svload.model.events import Event
from svload.model.results import OwnVerdicts


def own_verdicts(events: Iterable[Event]) -> OwnVerdicts | None:
    """Of a run's journal; None where today's rules judged, or where it does not say which did."""
    sealed: dict[str, dict[str, Any]] = {
        str(event.data["trial"]): event.data
        for event in events
        if event.kind == "trial-sealed" and "analysis_version" in event.data
    }
    versions = {data["analysis_version"] for data in sealed.values()} - {ANALYSIS_VERSION}
    if not versions:
        return None
    return OwnVerdicts(
        version=max(versions), trials={trial: data["instrument"] for trial, data in sealed.items()}
    )
