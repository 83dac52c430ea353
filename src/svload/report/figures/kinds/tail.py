"""Percentile curves on a logarithmic tail, one line per case."""

from __future__ import annotations

from collections.abc import Iterator

from svload.report.charts.axes import NARROW
from svload.report.charts.tail import TailLine, tail_chart
from svload.report.data.digest import merged_curve
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, colouring, counted_words, sure_words

_HEIGHT = {True: 340.0, False: 280.0}


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no request was ok."""
    group = gathered.group
    curves = {}
    for case in gathered.findings.cases:
        digests = [one.groups[group] for one in gathered.counted(case) if group in one.groups]
        merged = merged_curve([one.response for one in digests])
        if case.instrument != "REFUSED" and (merged.values_s > 0).any():
            curves[case.case] = (case, merged)
    if not curves:
        return
    colours = colouring(gathered, list(curves))

    def draw(width: float) -> str:
        lines = [TailLine(curve, colours.css(name), name, name) for name, (_, curve) in curves.items()]
        return tail_chart(
            lines, [], f"{group}: response by percentile",
            width=width, height=_HEIGHT[width > NARROW], key=colours.key, name=f"response of {group}",
        )  # fmt: skip

    caption = (
        f"Distribution of the response of {group}, trials pooled (histograms merged; nearest rank, failures "
        f"above every limit). {colours.words}. "
        f"Pooled curves are pictures: intervals are in the figure of medians. "
        f"{counted_words(gathered, [case for case, _ in curves.values()])}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("tail", caption, draw)
