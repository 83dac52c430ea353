"""Memory of the servers by case."""

from __future__ import annotations

from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure
from svload.report.figures.usage import usage_figure


def figure(gathered: Gathered) -> Figure | None:
    """None where no service's memory was measured."""
    return usage_figure(gathered, "memory", "memory.max", "largest resident memory")
