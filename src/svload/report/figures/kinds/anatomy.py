"""Where a request spends its time: stacked parts by case."""

from __future__ import annotations

import altair as alt

from svload.model.units import show_duration
from svload.report.data.digest import SEGMENTS
from svload.report.data.gather import Gathered, anatomy_by_case
from svload.report.figures.figure import (
    WIDTHS_PT,
    Figure,
    Row,
    case_label,
    counted_words,
    unit_of,
    varying,
)
from svload.report.palette import INK, SEGMENT_COLOURS

_ROW_PT, _AXIS_PT = 12.0, 64.0


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if no request was ok."""
    bars = anatomy_by_case(gathered, gathered.group)
    cases = [case for case in gathered.findings.cases if case.case in bars]
    if not bars:
        return None
    refused = {case.case for case in cases if case.instrument == "REFUSED"}
    unit, factor = unit_of([sum(parts.values()) for parts in bars.values()], "time_s")
    present = [part for part in SEGMENTS if any(parts.get(part, 0.0) > 0 for parts in bars.values())]

    def draw(width: float) -> alt.LayerChart:
        names = {case.case: case_label(case, varying(gathered), width) for case in cases}
        rows: list[Row] = [
            {
                "case": names[case],
                "part": part,
                "order": order,
                "counts": case not in refused,
                "spent": parts.get(part, 0.0) / factor,
            }
            for case, parts in bars.items()
            for order, part in enumerate(present)
        ]
        colours = [SEGMENT_COLOURS[SEGMENTS.index(part)] for part in present]
        legend = alt.Legend(
            title=None, columns=len(present) if width > WIDTHS_PT["single"] else 3, symbolType="square"
        )
        longest = max(sum(parts.values()) for parts in bars.values()) / factor
        room = longest * (1.2 if width <= WIDTHS_PT["single"] else 1.1)  # for the sums after the bars
        chart = alt.Chart(alt.InlineData(values=rows)).mark_bar(size=7.5)
        bars_drawn = chart.encode(
            alt.X("spent:Q", stack="zero", scale=alt.Scale(domain=[0, room], nice=False), title=f"mean time of an ok request ({unit})", axis=alt.Axis(tickCount=6, format=",.6~f")),
            alt.Y("case:N", sort=list(names.values()), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False)),
            alt.Color("part:N", sort=present, scale=alt.Scale(domain=present, range=colours), legend=legend),
            alt.Order("order:Q"),
            opacity=alt.condition("datum.counts", alt.value(1), alt.value(0.3)),
        )  # fmt: skip
        sums = [
            {
                "case": names[case],
                "sum": sum(parts.values()) / factor,
                "told": show_duration(sum(parts.values())),
            }
            for case, parts in bars.items()
        ]
        told = alt.Chart(alt.InlineData(values=sums)).mark_text(align="left", dx=3, fontSize=6.5, color=INK)
        totals = told.encode(alt.X("sum:Q"), alt.Y("case:N", sort=list(names.values())), alt.Text("told:N"))
        return alt.layer(bars_drawn, totals).properties(width=width, height=_ROW_PT * len(cases) + _AXIS_PT)

    caption = (
        f"Where a request of {gathered.group} spends its time by case: means over the ok requests of the kept "
        f"window, from the intended start "
        f"to the last byte; the parts add up to the mean response. Means over trials, no interval. "
        f"{'Pale: REFUSED. ' if refused else ''}{counted_words(gathered, cases)}."
    )
    return Figure("anatomy", caption, draw)
