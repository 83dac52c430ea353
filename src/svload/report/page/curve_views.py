"""The page's section of load curves: a drawing of each, tables of its limits and demands, its sentences."""

from __future__ import annotations

from dataclasses import dataclass

from svload.model.load_curve import DemandFound, LoadCurve
from svload.report.charts.load_chart import levels_chart
from svload.report.data.gather import Gathered
from svload.report.page.anchors import Anchors
from svload.report.page.data import Table
from svload.report.page.limited import UseTable, use_table
from svload.report.told.curve_rows import (
    LimitRow,
    caption_of,
    demand_rows,
    limit_rows,
    title_of,
    told_curves,
)

_MOST = 40


@dataclass(frozen=True)
class CurveView:
    """One curve as the template lays it out."""

    place: str
    title: str
    drawing: str
    caption: str
    sentences: tuple[str, ...]
    limits: tuple[LimitRow, ...]
    demands: tuple[tuple[DemandFound, str, str], ...]
    table: Table
    uses: UseTable | None


def curve_views(gathered: Gathered, anchors: Anchors) -> list[CurveView]:
    """Return the curves of the run, up to a maximum number."""
    return [
        _view(curve, anchors(f"load {title_of(curve)}"), gathered)
        for curve in told_curves(gathered.findings.curves)[:_MOST]
    ]


def _view(curve: LoadCurve, place: str, gathered: Gathered) -> CurveView:
    title = title_of(curve)
    return CurveView(
        place=place,
        title=title,
        drawing=levels_chart(curve, f"throughput and response of {title}"),
        caption=caption_of(curve),
        sentences=curve.sentences,
        limits=tuple(limit_rows(curve)),
        demands=tuple(demand_rows(curve)),
        table=_table(curve),
        uses=use_table(curve, gathered.findings),
    )


def _table(curve: LoadCurve) -> Table:
    heading = (
        "case",
        "level",
        "at",
        "throughput_rps",
        "throughput_low",
        "throughput_high",
        "response_s",
        "response_low",
        "response_high",
        "most_rps",
        "least_s",
        "accounted",
    )
    return Table(heading, tuple(tuple(getattr(point, name) for name in heading) for point in curve.points))
