"""The course of a trial: median response over time, one line per case."""

from __future__ import annotations

import altair as alt
import numpy as np

from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.data.resources import Series
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

_HEIGHT_PT = {True: 190.0, False: 165.0}


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if no case has a response over time."""
    group = gathered.group
    lines = {}
    for case in gathered.findings.cases:
        series = [one.groups[group].series["p50"] for one in gathered.counted(case) if group in one.groups]
        middle = _middle(series)
        if case.instrument != "REFUSED" and middle is not None:
            lines[case.case] = (case, middle)
    values = [value for _, line in lines.values() for value in line.values.tolist() if value > 0]
    if not values:
        return None
    unit, factor = unit_of(values, "time_s")
    scale, ticks = log_axis([value / factor for value in values], 6)
    colours = colouring(gathered, list(lines))

    def draw(width: float) -> alt.Chart:
        rows: list[Row] = [
            {"at": at, "value": value / factor, "case": visible(name), "colour": colours.by[name]}
            for name, (_, line) in lines.items()
            for at, value in zip(line.at_s.tolist(), line.values.tolist(), strict=True)
            if value > 0
        ]
        chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.0)
        drawn = chart.encode(
            alt.X("at:Q", title="time from the load's start (s)", axis=alt.Axis(tickCount=6, format=",.6~f")),
            alt.Y("value:Q", scale=scale, title=f"median response ({unit})", axis=alt.Axis(values=ticks, format=",.6~f")),
            colours.channel(width),
            alt.Detail("case:N"),
        )  # fmt: skip
        return drawn.properties(width=width, height=_HEIGHT_PT[width > WIDTHS_PT["single"]])

    caption = (
        f"Median response of {group} over the time of a trial, of the requests due then; the middle one of "
        f"the trials. {colours.words}. Ramps and "
        f"warm-up are in it. No interval: single seconds of a trial depend on each other. "
        f"{counted_words(gathered, [case for case, _ in lines.values()])}. "
        f"{sure_words(gathered)}"
    )
    return Figure("course", caption, draw)


def _middle(series: list[Series]) -> Series | None:
    """Return the median over trials at each moment, using those as long as the first; None without any."""
    alike = [one for one in series if len(one.at_s) == len(series[0].at_s)]
    if not alike:
        return None
    stacked = np.stack([one.values for one in alike])
    known = ~np.isnan(stacked).all(axis=0)
    values = np.full(stacked.shape[1], np.nan)
    values[known] = np.nanmedian(stacked[:, known], axis=0)
    return Series(alike[0].at_s, values)
