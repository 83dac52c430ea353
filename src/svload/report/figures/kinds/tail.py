"""Percentile curves on a logarithmic tail, a line a case."""

from __future__ import annotations

import altair as alt

from svload.report.charts.scales import TAIL_STOPS, tail_position
from svload.report.charts.tail import curve_points
from svload.report.digest import merged_curve
from svload.report.figures.colouring import colouring
from svload.report.figures.figure import (
    WIDTHS_PT,
    Figure,
    Row,
    counted_words,
    log_axis,
    sure_words,
    unit_of,
)
from svload.report.gather import Gathered
from svload.report.words import visible

_HEIGHT_PT = {True: 210.0, False: 180.0}
_POINTS = 60


def figure(gathered: Gathered) -> Figure | None:
    """None where no request was ok."""
    group = gathered.group
    curves = {}
    for case in gathered.findings.cases:
        digests = [one.groups[group] for one in gathered.counted(case) if group in one.groups]
        merged = merged_curve([one.response for one in digests])
        if case.instrument != "REFUSED" and len(merged.values_s):
            curves[case.case] = (case, *curve_points(merged, _POINTS))
    values = [value for _, _, found in curves.values() for value in found if value > 0]
    if not values:
        return None
    unit, factor = unit_of(values, "time_s")
    colours = colouring(gathered, list(curves))
    reach = max(ps[-1] for _, ps, _ in curves.values())
    stops = [p for p in TAIL_STOPS if p <= reach + 1e-9]
    scale, ticks = log_axis([value / factor for value in values], 6)

    def draw(width: float) -> alt.Chart:
        rows: list[Row] = [
            {
                "at": tail_position(p),
                "value": value / factor,
                "case": visible(name),
                "colour": colours.by[name],
            }
            for name, (_, ps, found) in curves.items()
            for p, value in zip(ps, found, strict=True)
            if value > 0
        ]
        labels = " : ".join(f"abs(datum.value - {tail_position(p)}) < 1e-6 ? '{100 * p:g}'" for p in stops)
        across = alt.Axis(values=[tail_position(p) for p in stops], labelExpr=f"{labels} : ''")
        chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.1, interpolate="step-after")
        lines = chart.encode(
            alt.X("at:Q", title="percentile (logarithmic tail)", axis=across, scale=alt.Scale(domain=[0, tail_position(reach)], nice=False)),
            alt.Y("value:Q", scale=scale, title=f"response ({unit})", axis=alt.Axis(values=ticks, format=",.6~f")),
            colours.channel(width),
            alt.Detail("case:N"),
        )  # fmt: skip
        return lines.properties(width=width, height=_HEIGHT_PT[width > WIDTHS_PT["single"]])

    caption = (
        f"Distribution of the response of {group}, trials pooled (histograms merged; nearest rank, failures above every limit). {colours.words}. "
        f"Pooled curves are pictures: intervals are in the figure of medians. {counted_words([case for case, _, _ in curves.values()])}. "
        f"{sure_words(gathered)}"
    )
    return Figure("tail", caption, draw)
