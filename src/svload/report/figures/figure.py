"""A figure, and the style shared by all: the report page's colours and type, at sizes that journals print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from svload.model.results import CaseResult, Estimate
from svload.model.units import Dimension
from svload.model.visible import visible
from svload.report.charts.scales import linear_ticks, log_ticks
from svload.report.data.gather import Gathered
from svload.report.palette import DIM, INK, LINE, PALETTE
from svload.report.told.numbers import Number
from svload.report.told.spelling import count_words, list_words, unit_for

Row = dict[str, Any]

WIDTHS_PT = {"single": 252.0, "double": 516.0}
"""Column widths in points (1/72 inch): 3.5 and 7.16 inches, as IEEE and ACM set them."""
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_LONGEST_LABEL = 48


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its files; `draw` takes the whole width in points; `caption` states what is
    shown, n and the interval."""

    name: str
    caption: str
    draw: Callable[[float], alt.LayerChart | alt.Chart]


@alt.theme.register("svload", enable=False)  # type: ignore[untyped-decorator]  # altair is not followed
def theme() -> alt.theme.ThemeConfig:
    """Return the theme: type of 7 to 8 points, hairline grids, no frame; the given size is that of the whole
    picture."""
    text = {"font": _FONT, "labelFont": _FONT, "titleFont": _FONT}
    return {
        "background": "white",
        "padding": 2,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {**text, "labelFontSize": 7, "titleFontSize": 8, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK, "gridColor": LINE,
                     "gridWidth": 0.5, "domainColor": DIM, "domainWidth": 0.5, "tickColor": DIM, "tickWidth": 0.5, "tickSize": 3, "labelLimit": 220, "titlePadding": 4},
            "legend": {**text, "labelFontSize": 7, "titleFontSize": 7, "titleFontWeight": "normal", "labelColor": INK, "titleColor": DIM, "symbolSize": 40,
                       "orient": "top", "padding": 0, "offset": 4, "columnPadding": 8, "rowPadding": 1, "labelLimit": 180},
            "range": {"category": list(PALETTE)},
        },
    }  # fmt: skip


def case_label(case: CaseResult, factors: Sequence[str], width: float) -> str:
    """Return a case's name, with its levels of `factors` if there is room."""
    levels = " · ".join(case.levels[factor] for factor in factors if factor in case.levels)
    text = visible(f"{case.case}  {levels}" if levels and width > WIDTHS_PT["single"] else case.case)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def varying(gathered: Gathered) -> list[str]:
    """Return the factors with more than one level."""
    return [factor for factor, levels in gathered.factors.items() if len(levels) > 1]


def unit_of(values: Sequence[float], dimension: Dimension) -> tuple[str, float]:
    """Return (unit, its size in base units) in which the middle value is easiest to read."""
    ordered = sorted(values)
    return unit_for(ordered[len(ordered) // 2] if ordered else 1.0, dimension)


def log_axis(values: Sequence[float], most: int) -> tuple[alt.Scale, list[float]]:
    """Return a logarithmic scale with a margin around `values` (all above 0), and its ticks."""
    low, high = min(values), max(values)
    if high / low < 1.2:
        low, high = low / 1.2, high * 1.2
    air = (high / low) ** 0.04
    low, high = low / air, high * air
    ticks = log_ticks(low, high, most) if high / low > 3 else linear_ticks(low, high, most)
    return alt.Scale(type="log", domain=[low, high], nice=False), ticks


def scaled(estimate: Estimate | Number, factor: float) -> Row:
    """Return an estimate's value and interval, if it has them, in units of `factor`."""
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: value / factor for name, value in ends.items() if value is not None}


def counted_words(gathered: Gathered, cases: Sequence[CaseResult]) -> str:
    """Return `n = 4 trials a case`, or the number of each case."""
    key = f"{gathered.group}.response.p50"
    counts = {case.case: gathered.told.of_case(case, key).believed for case in cases}
    if not counts:
        return "n = 0"
    usual = max(set(counts.values()), key=list(counts.values()).count)
    odd = [f"{visible(name)}: {count}" for name, count in counts.items() if count != usual]
    text = f"n = {count_words(usual, 'trial')} a case"
    return f"{text} ({list_words(odd, 8)})" if odd else text


def sure_words(gathered: Gathered) -> str:
    """Return the certainty of the figure's numbers, worded as on the page."""
    return f"{gathered.findings.floor[:1].upper()}{gathered.findings.floor[1:]}."
