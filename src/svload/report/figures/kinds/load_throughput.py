"""Throughput over the levels of a load."""

from functools import partial

from svload.report.figures.load_figure import load_figure

figure = partial(load_figure, side="throughput")
