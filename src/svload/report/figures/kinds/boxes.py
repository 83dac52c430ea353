"""Responses by case as boxes with Tukey's fences, for groups that keep rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from svload.report.data.gather import Gathered
from svload.report.figures.figure import (
    Figure,
    Row,
    case_label,
    counted_words,
    log_axis,
    sure_words,
    unit_of,
    varying,
)
from svload.report.palette import INK, PALETTE
from svload.store.load_time import responses_ns

FENCE = 1.5
"""Tukey, Exploratory Data Analysis (1977): values beyond the box by more than this many interquartile ranges
are outside."""
MOST_OUTSIDE = 100
"""Maximum number of values drawn outside the fences of a case: the extreme ones."""
_ROW_PT, _AXIS_PT = 14.0, 34.0


class Box(NamedTuple):
    """Quartiles, the last values inside the fences, and all values outside."""

    low: float
    p25: float
    p50: float
    p75: float
    high: float
    outside: tuple[float, ...]


def box_of(values: NDArray[Any]) -> Box:
    """Return the box of one or more values."""
    p25, p50, p75 = (float(one) for one in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = FENCE * (p75 - p25)
    inside = (values >= p25 - reach) & (values <= p75 + reach)
    return Box(
        float(values[inside].min()),
        p25,
        p50,
        p75,
        float(values[inside].max()),
        tuple(np.sort(values[~inside]).tolist()),
    )


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if the group kept no rows."""
    boxes = {name: box_of(values) for name, values in _responses_s(gathered).items() if len(values)}
    cases = [case for case in gathered.findings.cases if case.case in boxes]
    if not cases:
        return None
    everything = [value for box in boxes.values() for value in (*box[:5], *box.outside) if value > 0]
    if not everything:
        return None
    unit, factor = unit_of([box.p50 for box in boxes.values()], "time_s")
    scale, ticks = log_axis([value / factor for value in everything], 7)

    def draw(width: float) -> alt.LayerChart:
        names = {case.case: case_label(case, varying(gathered), width) for case in cases}
        rows: list[Row] = [
            {
                "case": names[name],
                **_lines(box, factor),
            }
            for name, box in boxes.items()
            if name in names
        ]
        dots = [
            {"case": names[name], "value": value / factor}
            for name, box in boxes.items()
            for value in _extreme(box)
            if name in names and value > 0
        ]
        y = alt.Y("case:N", sort=list(names.values()), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False))  # fmt: skip
        axis = alt.Axis(values=ticks, format=",.6~f")

        def across(field: str) -> alt.X:
            return alt.X(f"{field}:Q", scale=scale, title=f"response ({unit})", axis=axis)

        chart = alt.Chart(alt.InlineData(values=rows))
        layers = alt.layer(
            chart.mark_rule(strokeWidth=0.8, color=INK).encode(across("low"), y, x2="high:Q"),
            chart.mark_bar(size=8, color=PALETTE[0], opacity=0.6).encode(across("p25"), y, x2="p75:Q"),
            chart.mark_tick(thickness=1.4, size=8, color=INK).encode(across("p50"), y),
            alt.Chart(alt.InlineData(values=dots))
            .mark_circle(size=6, opacity=0.5, color=INK)
            .encode(across("value"), y),
        )
        return layers.properties(width=width, height=_ROW_PT * len(cases) + _AXIS_PT)

    outside = sum(len(box.outside) for box in boxes.values())
    caption = (
        f"Responses of the ok requests of {gathered.group} that were due in the kept window, trials pooled, "
        f"logarithmic. Boxes: quartiles; ticks: "
        f"medians; lines: to the last value inside Tukey's fences ({FENCE:g} interquartile ranges beyond the "
        f"box); dots: values outside "
        f"({outside:,} in all, of each case the {MOST_OUTSIDE} most extreme). Pictures: the interval of a "
        f"median is in the figure of medians. "
        f"{counted_words(gathered, cases)}. {sure_words(gathered)}"
    )
    return Figure("boxes", caption, draw)


def _lines(box: Box, factor: float) -> Row:
    """Return the positions of the box's lines, in units of `factor`; a logarithmic axis has no 0."""
    ends = {"low": box.low, "p25": box.p25, "p50": box.p50, "p75": box.p75, "high": box.high}
    return {name: max(value, 1e-9) / factor for name, value in ends.items()}


def _extreme(box: Box) -> tuple[float, ...]:
    """Return the outside values to draw."""
    above = [value for value in box.outside if value > box.p75]
    below = [value for value in box.outside if value < box.p25]
    return (*below[:MOST_OUTSIDE], *above[-MOST_OUTSIDE:])


def _responses_s(gathered: Gathered) -> dict[str, NDArray[Any]]:
    """Return, by case, the responses of its counted trials."""
    counted = {one.name for case in gathered.findings.cases for one in gathered.counted(case)}
    found: dict[str, list[NDArray[Any]]] = {}
    for result, data in gathered.read():
        names = [group.name for group in data.summary.groups]
        if result.trial not in counted or gathered.group not in names:
            continue
        samples, (low, high) = data.samples, data.summary.window_ns
        due = samples["due_ns"]
        mine = (samples["group"] == names.index(gathered.group)) & (samples["error"] == 0)
        mine &= (due >= low) & (due < high)
        found.setdefault(result.case, []).append(responses_ns(samples)[mine] / 1e9)
    return {case: np.concatenate(parts) for case, parts in found.items()}
