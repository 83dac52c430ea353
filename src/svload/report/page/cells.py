"""A table's cell from a number: its text, its text on hovering, its sort value; and the filter value of a
row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svload.model.results import CaseResult
from svload.report.told.numbers import Number


def number_cell(one: Number) -> dict[str, Any]:
    """Return text, mark, interval, bound, tip, sort value and class of a number."""
    return {
        "text": one.text,
        "mark": one.mark,
        "interval": one.interval,
        "bound": one.bound,
        "tip": one.why_words,
        "sort": f"{one.value:.9g}" if one.value is not None else "",
        "css": "refused" if one.refused else "weak" if one.weak else "",
    }


def filter_text(factors: Mapping[str, Sequence[str]], case: CaseResult) -> str:
    """Return the numbers of the case's levels by factor (`-` for a factor it does not have), which the
    script's filters compare."""
    return " ".join(
        str(levels.index(case.levels[factor])) if factor in case.levels else "-"
        for factor, levels in factors.items()
    )
