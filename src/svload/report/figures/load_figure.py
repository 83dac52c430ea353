"""Throughput or response over the levels of a load, with bounds, the Universal Scalability Law and N*."""

from __future__ import annotations

from typing import Literal

import altair as alt

from svload.model.load_curve import LoadCurve
from svload.model.units import Dimension
from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import WIDTHS_PT, Figure, Row, sure_words, unit_of
from svload.report.palette import INK, PALETTE
from svload.report.told.curve_rows import axis_of, caption_of, drawn_limits, lines_of, title_of, told_curves
from svload.report.told.spelling import unit_for

Side = Literal["throughput", "response"]
_HEIGHT_PT = {True: 190.0, False: 150.0}


def load_figure(gathered: Gathered, side: Side) -> Figure | None:
    """Return the figure of the first curve of the report's main group, else of any group; None if no factor
    is a load."""
    curves = told_curves(gathered.findings.curves)
    curve = next((one for one in curves if one.group == gathered.group), next(iter(curves), None))
    if curve is None:
        return None
    shown = curve

    def draw(width: float) -> alt.LayerChart:
        height = _HEIGHT_PT[width > WIDTHS_PT["single"]]
        return _panel(shown, side).properties(width=width, height=height)

    more = f" {len(curves) - 1} more curves stand in the report." if len(curves) > 1 else ""
    what = "Throughput" if side == "throughput" else "Mean response"
    caption = f"{what} of {visible(title_of(curve))}. {caption_of(curve)}{more} {sure_words(gathered)}"
    return Figure(f"load-{side}", caption, draw)


def _panel(curve: LoadCurve, side: Side) -> alt.LayerChart:
    lines, throughput = lines_of(curve), side == "throughput"
    dimension: Dimension = "rate_rps" if throughput else "time_s"
    values = [point.throughput_rps if throughput else point.response_s for point in curve.points]
    unit, factor = unit_of(values, dimension)
    what, x_dimension = axis_of(curve)
    x_unit, x_factor = unit_for(curve.points[-1].at, x_dimension)
    rows: list[Row] = [
        {
            "at": point.at / x_factor,
            "value": value / factor,
            "low": (low if low is not None else value) / factor,
            "high": (high if high is not None else value) / factor,
        }
        for point, value in zip(curve.points, values, strict=True)
        for low, high in [
            (point.throughput_low, point.throughput_high)
            if throughput
            else (point.response_low, point.response_high)
        ]
    ]
    top = 1.08 * max(row["high"] for row in rows)
    title = f"{what}{f' ({x_unit})' if x_unit else ''}"
    x = alt.X("at:Q", title=title, axis=alt.Axis(format=",.6~f", tickCount=7))
    y = alt.Y(
        "value:Q",
        title=f"{'throughput' if throughput else 'mean response'} ({unit})",
        scale=alt.Scale(domain=[0, top], clamp=True),
        axis=alt.Axis(format=",.6~f", tickCount=5),
    )
    base = alt.Chart(alt.InlineData(values=rows))
    layers = [_line(lines.most_rps if throughput else lines.least_s, x_factor, factor, top, x, y, 1, [4, 2])]
    if throughput:
        layers.append(_line(lines.scalability, x_factor, factor, top, x, y, 3, [1, 0]))
    for limit in drawn_limits(curve):
        rule = alt.Chart(alt.InlineData(values=[{"at": (limit.value or 0.0) / x_factor, "name": limit.name}]))
        layers.append(
            rule.mark_rule(
                color=INK, strokeWidth=0.8, strokeDash=[1, 0] if limit.state == "bracketed" else [3, 2]
            ).encode(x)
        )
        layers.append(
            rule.mark_text(align="left", dx=2, dy=4, baseline="top", fontSize=7, color=INK).encode(
                x, alt.Text("name:N"), y=alt.value(0)
            )
        )
    layers += [
        base.mark_line(strokeWidth=1.2, color=PALETTE[0]).encode(x, y),
        base.mark_rule(strokeWidth=1.0, color=INK).encode(x, alt.Y("low:Q"), alt.Y2("high:Q")),
        base.mark_circle(size=16, color=INK, opacity=1).encode(x, y),
    ]
    return alt.layer(*layers)


def _line(
    pairs: tuple[tuple[float, float], ...],
    x_factor: float,
    factor: float,
    top: float,
    x: alt.X,
    y: alt.Y,
    colour: int,
    dash: list[int],
) -> alt.Chart:
    """Draw a bound or a law, as far as the axis reaches."""
    rows = [{"at": at / x_factor, "value": value / factor} for at, value in pairs if value / factor <= top]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=0.9, color=PALETTE[colour], strokeDash=dash)
        .encode(x, y)
    )
