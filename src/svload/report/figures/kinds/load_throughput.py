"""Throughput over the levels of a load."""

from __future__ import annotations

from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure
from svload.report.figures.load_figure import load_figure


def figure(gathered: Gathered) -> Figure | None:
    """None where no factor is a load."""
    return load_figure(gathered, "throughput")
