"""CPU and memory of every service by case, as grouped bars with intervals."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.units import Dimension
from svload.report.charts.usage import Bars, usage_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, counted_words
from svload.report.told.spelling import services_of

_METRICS: tuple[tuple[str, str, Dimension, str], ...] = (
    ("cpu", "cpu.mean", "count", "Busy cores"),
    ("memory", "memory.max", "size_bytes", "Largest resident memory"),
)


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure of each resource that was measured in any service."""
    cases = [case for case in gathered.findings.cases if case.excluded is None and case.trials]
    names = [case.case for case in cases]
    for name, metric, dimension, title in _METRICS:
        bars: Bars = [
            (service, gathered.colours[service], [gathered.told.of_case(case, f"{service}.{metric}") for case in cases])
            for service in services_of(gathered.findings)
        ]  # fmt: skip
        bars = [one for one in bars if any(number.shown is not None for number in one[2])]
        if not bars:
            continue

        def draw(
            width: float, bars: Bars = bars, dimension: Dimension = dimension, title: str = title
        ) -> str:
            key = [(f"f{colour}", service) for service, colour, _ in bars]
            return usage_chart(names, bars, dimension, title, width=width, key=key, axis=title)

        caption = (
            f"{title} of each service by case, under load; mean over trials with its 95 % interval; "
            f"hatched: REFUSED. {counted_words(gathered, cases)}."
        )
        yield Figure(name, caption, draw)
