"""A table's cell from an estimate: what is shown, what is told on hovering, what it is sorted by; and what a row is filtered by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svload.model.results import CaseResult, Estimate
from svload.report.words import dimension_of, short_reason, show_interval


def number(estimate: Estimate | None, key: str) -> dict[str, Any]:
    """Text, interval, tip, sort value and weakness of an estimate of the metric of that full name."""
    dimension = dimension_of(key)
    if estimate is None:
        return _no_number("–", "not measured")
    if estimate.value is None:
        return _no_number(short_reason(estimate.reason), estimate.reason)
    whole = show_interval(estimate, dimension)
    text, bracket, rest = whole.partition(" [")
    return {
        "text": text,
        "interval": bracket.strip() + rest,
        "tip": estimate.reason or ("few in the tail: weak" if estimate.weak else ""),
        "sort": f"{estimate.value:.9g}",
        "weak": estimate.weak or "grows" in estimate.reason,
    }


def _no_number(text: str, why: str) -> dict[str, Any]:
    return {"text": text, "interval": "", "tip": why, "sort": "", "weak": False}


def filter_text(factors: Mapping[str, Sequence[str]], case: CaseResult) -> str:
    """The numbers of the case's levels by factor (`-` for a factor it does not have), which the script's filters compare."""
    return " ".join(
        str(levels.index(case.levels[factor])) if factor in case.levels else "-"
        for factor, levels in factors.items()
    )
