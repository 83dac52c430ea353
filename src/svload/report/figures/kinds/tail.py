"""Percentile curves on a logarithmic tail, a line a case."""

from __future__ import annotations

import altair as alt

from svload.report.charts.scales import TAIL_STOPS, tail_position
from svload.report.charts.tail import curve_points
from svload.report.digest import merged_curve
from svload.report.figures.figure import (
    WIDTHS_PT,
    Figure,
    Row,
    case_label,
    counted_words,
    log_axis,
    sure_words,
    unit_of,
    varying,
)
from svload.report.gather import Gathered
from svload.report.palette import PALETTE
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
    by, colours = _colouring(gathered, list(curves))
    reach = max(ps[-1] for _, ps, _ in curves.values())
    stops = [p for p in TAIL_STOPS if p <= reach + 1e-9]
    scale, ticks = log_axis([value / factor for value in values], 6)

    def draw(width: float) -> alt.Chart:
        rows: list[Row] = [
            {"at": tail_position(p), "value": value / factor, "case": name, "colour": by[name]}
            for name, (_, ps, found) in curves.items()
            for p, value in zip(ps, found, strict=True)
            if value > 0
        ]
        labels = " : ".join(f"abs(datum.value - {tail_position(p)}) < 1e-6 ? '{100 * p:g}'" for p in stops)
        across = alt.Axis(values=[tail_position(p) for p in stops], labelExpr=f"{labels} : ''")
        chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.1, interpolate="step-after")
        lines = chart.encode(
            alt.X("at:Q", title="percentile (logarithmic tail)", axis=across, scale=alt.Scale(domain=[0, tail_position(reach)], nice=False)),
            alt.Y("value:Q", scale=scale, title=f"response ({unit})", axis=alt.Axis(values=ticks, format="~g")),
            alt.Color("colour:N", sort=colours, scale=alt.Scale(domain=colours, range=list(PALETTE)), legend=_legend(width) if len(colours) > 1 else None),
            alt.Detail("case:N"),
        )  # fmt: skip
        return lines.properties(width=width, height=_HEIGHT_PT[width > WIDTHS_PT["single"]])

    lines = "Lines: cases" + (f", coloured by {_factor(gathered)}" if len(curves) > len(PALETTE) else "")
    caption = (
        f"Distribution of the response of {group}, trials pooled (histograms merged; nearest rank, failures above every limit). {lines}. "
        f"Pooled curves are pictures: intervals are in the figure of medians. {counted_words([case for case, _, _ in curves.values()])}. "
        f"{sure_words(gathered)}"
    )
    return Figure("tail", caption, draw)


def _factor(gathered: Gathered) -> str:
    """The factor that colours: the first that is compared, else the one with the most levels that the palette holds."""
    compared = [one.factor for one in gathered.lock.comparisons if one.factor in gathered.factors]
    fitting = [
        (len(levels), factor) for factor, levels in gathered.factors.items() if len(levels) <= len(PALETTE)
    ]
    return ([*compared, max(fitting)[1]] if fitting else compared or ["case"])[0]


def _colouring(gathered: Gathered, names: list[str]) -> tuple[dict[str, str], list[str]]:
    """(case → what its colour stands for, all of these in order)."""
    cases = {case.case: case for case in gathered.findings.cases}
    if len(names) <= len(PALETTE):
        by = {name: case_label(cases[name], varying(gathered), 1e9) for name in names}
    else:
        factor = _factor(gathered)
        by = {name: visible(cases[name].levels.get(factor, "")) for name in names}
    return by, list(dict.fromkeys(by.values()))


def _legend(width: float) -> alt.Legend:
    columns = 4 if width > WIDTHS_PT["single"] else 2
    return alt.Legend(title=None, columns=columns, symbolType="stroke", labelLimit=width / columns - 30)
