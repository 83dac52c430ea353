"""CPU of the servers by case."""

from functools import partial

from svload.report.figures.usage import usage_figure

figure = partial(usage_figure, name="cpu", metric="cpu.mean", what="busy cores", unit="cores")
