"""Memory of the servers by case."""

from functools import partial

from svload.report.figures.usage import usage_figure

figure = partial(usage_figure, name="memory", metric="memory.max", what="largest resident memory")
