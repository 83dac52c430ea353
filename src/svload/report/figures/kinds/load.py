"""Throughput and response over the levels of a load, with bounds, the Universal Scalability Law and N*."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from svload.model.visible import visible
from svload.report.charts.load_chart import SIDES, levels_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, sure_words
from svload.report.told.curve_rows import caption_of, title_of, told_curves


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield a figure for each side of the first curve of the report's main group, else of any group; nothing
    if no factor is a load."""
    curves = told_curves(gathered.findings.curves)
    curve = next((one for one in curves if one.group == gathered.group), next(iter(curves), None))
    if curve is None:
        return
    more = f" {len(curves) - 1} more curves stand in the report." if len(curves) > 1 else ""
    for side, name in SIDES.items():
        title = f"{name[:1].upper()}{name[1:]} of {title_of(curve)}"
        caption = f"{visible(title)}. {caption_of(curve)}{more} {sure_words(gathered)}"
        yield Figure(f"load-{side}", caption, partial(levels_chart, curve, title, (side,)))
