"""The course of a trial: median response over time, one line per case."""

from __future__ import annotations

from collections.abc import Iterator

from svload.report.charts.axes import NARROW
from svload.report.charts.timeline import Line, Panel, timeline
from svload.report.data.gather import Gathered
from svload.report.data.resources import Series
from svload.report.figures.figure import Figure, colouring, counted_words, sure_words

_HEIGHT = {True: 240.0, False: 180.0}
_POINTS = 600


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no case has a response over time."""
    group = gathered.group
    found = {}
    for case in gathered.findings.cases:
        digests = [one.groups[group] for one in gathered.counted(case) if group in one.groups]
        series = [_known(one.series["p50"]) for one in digests]
        if case.instrument != "REFUSED" and any(len(one.at_s) for one in series):
            found[case.case] = series
    if not found:
        return
    cases = [case for case in gathered.findings.cases if case.case in found]
    colours = colouring(gathered, list(found))
    end_s = max(float(one.at_s[-1]) for series in found.values() for one in series if len(one.at_s))

    def draw(width: float) -> str:
        lines = [Line(name, colours.css(name).split()[0], series) for name, series in found.items()]
        panel = Panel(f"median response of {group}", "time_s", lines, zero=False, log=True)
        whole = (0.0, end_s)
        return timeline(
            [panel], end_s, whole, whole, f"{group} over time", points=_POINTS, replicates=0,
            panel_px=_HEIGHT[width > NARROW], width=width, key=colours.key,
        )  # fmt: skip

    caption = (
        f"Median response of {group} over the time of a trial, of the requests due then; the middle one of "
        f"the trials. {colours.words}. Ramps and "
        f"warm-up are in it. No interval: single seconds of a trial depend on each other. "
        f"{counted_words(gathered, cases)}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("course", caption, draw)


def _known(series: Series) -> Series:
    """Return the moments with a value above 0: a line joins them over those without."""
    known = series.values > 0
    return Series(series.at_s[known], series.values[known])
