"""Charts over all cases: where a request's time goes, and its cost to the servers in CPU and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svload.model.results import CaseResult
from svload.model.units import Dimension
from svload.report.charts.anatomy import anatomy_chart
from svload.report.charts.usage import usage_chart
from svload.report.data.gather import Gathered, anatomy_by_case, usage_by_service
from svload.report.page.data import Table
from svload.report.told.spelling import GRADE_MARK

_MOST_BARS = 300


@dataclass(frozen=True)
class OverallChart:
    """One chart with its permanent id, its words and its numbers."""

    place: str
    title: str
    drawing: str
    caption: str
    table: Table


def _shown(case: CaseResult) -> str:
    """Return a case's name in a chart: a REFUSED one has its mark."""
    return f"{case.case} {GRADE_MARK['REFUSED']}" if case.instrument == "REFUSED" else case.case


def anatomy_overall(gathered: Gathered, group: str) -> OverallChart | None:
    """Return the parts of a request of the main group in every case on one scale; None without any."""
    bars, rows = [], []
    found = anatomy_by_case(gathered, group)
    for case in gathered.findings.cases:
        if parts := found.get(case.case):
            bars.append((_shown(case), parts))
            rows += [(case.case, part, spent) for part, spent in parts.items()]
    if not bars:
        return None
    title = f"where a request of {group} spends its time, by case"
    return OverallChart(
        place="anatomy-chart",
        title=title,
        drawing=anatomy_chart(bars[:_MOST_BARS], title),
        caption=f"{group}, mean of the ok requests in the kept window, mean over the trials that count. "
        "Waiting for a slot is the server's doing, generator lag the instrument's.",
        table=Table(("case", "part", "mean_s"), tuple(rows)),
    )


_USAGE: Sequence[tuple[str, str, Dimension, str, str]] = (
    ("cpu-chart", "cpu.mean", "count", "CPU, cores busy on average", "One is one core."),
    ("memory-chart", "memory.max", "size_bytes", "Memory, largest resident size", "Largest sum over a service's processes; pages that several share count in each."),
)  # fmt: skip


def usage_charts(gathered: Gathered) -> Iterator[OverallChart]:
    """Yield CPU and memory by service and case, if there is any number."""
    for place, metric, dimension, title, caption in _USAGE:
        cases, bars = usage_by_service(gathered, metric)
        drawing = usage_chart([case.case for case in cases], bars, dimension, f"{title}, by case")
        if drawing:
            rows = tuple(
                (case.case, service, one.value, one.low, one.high)
                for service, _, numbers in bars
                for case, one in zip(cases, numbers, strict=True)
                if one.value is not None
            )
            words = (
                f"{caption} Mean over the trials that count, with 95 % intervals; hatched: broken (REFUSED)."
            )
            yield OverallChart(
                place, title, drawing, words, Table(("case", "service", metric, "low", "high"), rows)
            )
