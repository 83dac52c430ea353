"""CPU and memory of every service by case, as grouped bars with intervals."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.units import Dimension
from svload.report.charts.usage import usage_chart
from svload.report.data.gather import Gathered, usage_by_service
from svload.report.figures.figure import Figure, counted_words


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure of each resource that was measured in any service."""
    yield from _figure(gathered, "cpu", "cpu.mean", "count", "Busy cores")
    yield from _figure(gathered, "memory", "memory.max", "size_bytes", "Largest resident memory")


def _figure(gathered: Gathered, name: str, metric: str, dimension: Dimension, title: str) -> Iterator[Figure]:
    cases, bars = usage_by_service(gathered, metric)
    if not bars:
        return

    def draw(width: float) -> str:
        key = [(f"f{colour}", service) for service, colour, _ in bars]
        names = [case.case for case in cases]
        return usage_chart(names, bars, dimension, f"{title}, by case", width=width, key=key, axis=title)

    caption = (
        f"{title} of each service by case, under load; mean over trials with its 95 % interval; "
        f"hatched: REFUSED. {counted_words(gathered, cases)}."
    )
    yield Figure(name, caption, draw)
