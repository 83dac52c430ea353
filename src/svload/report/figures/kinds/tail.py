"""Percentile curves on a logarithmic tail, one line per case."""

from __future__ import annotations

from math import log10

import altair as alt

from svload.model.visible import visible
from svload.report.charts.scales import TAIL_STOPS, apart, tail_position
from svload.report.charts.tail import curve_points
from svload.report.data.digest import merged_curve
from svload.report.data.gather import Gathered
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

_HEIGHT_PT = {True: 210.0, False: 180.0}
_POINTS = 60
_LABEL_PT = 34.0
"""Room at the right for the cases' names."""
_LINE_PT, _AROUND_PT = 6.5, 70.0
"""Height of a name, and the height of legend and axis."""


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if no request was ok."""
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

    def draw(width: float) -> alt.LayerChart:
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
        end = tail_position(reach)
        room = end * _LABEL_PT / (width - _LABEL_PT)
        height = _HEIGHT_PT[width > WIDTHS_PT["single"]]
        x = alt.X(
            "at:Q",
            title="percentile (logarithmic tail)",
            axis=across,
            scale=alt.Scale(domain=[0, end + room], nice=False),
        )
        y = alt.Y(
            "value:Q", scale=scale, title=f"response ({unit})", axis=alt.Axis(values=ticks, format=",.6~f")
        )
        colour, each = colours.channel(width), alt.Detail("case:N")
        chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.1, interpolate="step-after")
        ends = _ends(
            {name: (tail_position(ps[-1]), found[-1] / factor) for name, (_, ps, found) in curves.items()},
            scale,
            height,
        )
        told = [
            {"at": end + room / 3, "value": place, "case": visible(name), "colour": colours.by[name]}
            for name, (_, _, place) in ends.items()
        ]
        led = [
            {"at": at, "value": value, "case": visible(name), "colour": colours.by[name]}
            for name, (from_at, from_value, place) in ends.items()
            for at, value in ((from_at, from_value), (end, from_value), (end + room / 4, place))
        ]
        leaders = alt.Chart(alt.InlineData(values=led)).mark_line(strokeWidth=0.4, strokeDash=[1, 1])
        names = alt.Chart(alt.InlineData(values=told)).mark_text(align="left", baseline="middle", fontSize=6)
        layers = alt.layer(
            chart.encode(x, y, colour, each), leaders.encode(x, y, colour, each), names.encode(x, y, colour, alt.Text("case:N"))
        )  # fmt: skip
        return layers.properties(width=width, height=height)

    caption = (
        f"Distribution of the response of {group}, trials pooled (histograms merged; nearest rank, failures "
        f"above every limit). {colours.words}. "
        f"Pooled curves are pictures: intervals are in the figure of medians. "
        f"{counted_words(gathered, [case for case, _, _ in curves.values()])}. "
        f"{sure_words(gathered)}"
    )
    return Figure("tail", caption, draw)


def _ends(
    ends: dict[str, tuple[float, float]], scale: alt.Scale, height: float
) -> dict[str, tuple[float, float, float]]:
    """Return, by case, the end of its line (position, value), and the value at whose height its name is
    placed."""
    low, high = (log10(bound) for bound in scale.domain)
    least = (high - low) * _LINE_PT / (height - _AROUND_PT)
    places = apart([log10(max(value, 1e-12)) for _, value in ends.values()], least, low, high)
    return {name: (*end, 10.0**place) for (name, end), place in zip(ends.items(), places, strict=True)}
