"""A search for the largest load: each trial at its load in the order in which they ran, and both ends of the
answer."""

from __future__ import annotations

import altair as alt

from svload.model.capacity import CapacityResult
from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import WIDTHS_PT, Figure, Row, log_axis, sure_words
from svload.report.palette import INK, PALETTE, REFUSED
from svload.report.told.search_rows import caption_of, limit_words, search_title

_HEIGHT_PT = {True: 190.0, False: 150.0}
_SHAPES = {"holds": "circle", "breaks": "cross", "no number": "circle"}


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if the run is no search, or has no trial."""
    found = gathered.findings.capacity
    if found is None or not found.trials:
        return None
    shown = found

    def draw(width: float) -> alt.LayerChart:
        height = _HEIGHT_PT[width > WIDTHS_PT["single"]]
        return _chart(shown).properties(width=width, height=height)

    caption = (
        f"The search for {visible(search_title(found))}: {visible(limit_words(found))}. "
        f"{caption_of(found)} {sure_words(gathered)}"
    )
    return Figure("search", caption, draw)


def _chart(found: CapacityResult) -> alt.LayerChart:
    scale, ticks = log_axis([float(one.load) for one in found.trials], 6)
    rows: list[Row] = [
        {
            "trial": number,
            "load": one.load,
            "outcome": one.outcome,
            "size": 9 if one.look else 22,
            "low": one.low,
            "high": one.high,
        }
        for number, one in enumerate(found.trials, 1)
    ]
    x = alt.X("trial:Q", title="trial, in the order they ran", axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(domain=[0, len(rows) + 1], nice=False))  # fmt: skip
    y = alt.Y("load:Q", title=found.over, scale=scale, axis=alt.Axis(values=ticks, format=",.6~f"))
    known = [row for row in rows if row["low"] and row["high"]]
    layers: list[alt.Chart] = []
    if known:
        layers.append(
            alt.Chart(alt.InlineData(values=known))
            .mark_area(opacity=0.2, color=PALETTE[0], interpolate="step-after")
            .encode(x, alt.Y("low:Q", scale=scale), alt.Y2("high:Q"))
        )
    for end, colour in ((found.low, PALETTE[2]), (found.high, PALETTE[1])):
        if end is not None:
            line = alt.Chart(alt.InlineData(values=[{"end": end}]))
            layers.append(
                line.mark_rule(color=colour, strokeWidth=0.9, strokeDash=[4, 2]).encode(
                    alt.Y("end:Q", scale=scale)
                )
            )
    for outcome, shape in _SHAPES.items():
        mine = [row for row in rows if row["outcome"] == outcome]
        if mine:
            dots = alt.Chart(alt.InlineData(values=mine)).mark_point(
                shape=shape,
                filled=outcome != "no number",
                color=REFUSED if outcome == "breaks" else INK,
                angle=45 if outcome == "breaks" else 0,
                opacity=1,
                strokeWidth=1,
            )
            layers.append(dots.encode(x, y, size=alt.Size("size:Q", scale=None, legend=None)))
    return alt.layer(*layers)
