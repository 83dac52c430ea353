"""The claims: each ratio with its interval on one logarithmic axis that includes 1."""

from __future__ import annotations

from collections.abc import Iterator

from svload.report.charts.forest import Ratio, ratios_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, sure_words
from svload.report.told.spelling import count_words, unique


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no comparison has a ratio."""
    claims = [claim for claim in gathered.findings.claims if claim.ratio.value]
    if not claims:
        return

    def draw(width: float) -> str:
        rows = [Ratio(claim.name, claim.ratio, claim.outcome) for claim in claims]
        return ratios_chart(rows, "ratio, treatment over baseline", "the comparisons", width)

    units = " or ".join(unique(claim.unit for claim in claims))
    counts = " or ".join(unique(count_words(claim.blocks, claim.unit) for claim in claims))
    metrics = unique(claim.metric for claim in claims)
    caption = (
        f"Ratios of {' and '.join(metrics)} over matched cases, logarithmic; left of 1 the treatment is "
        f"smaller. Bars: 95 % interval for all comparisons together (t, one {units} left out at a time), "
        f"widened by what the numbers may be off. Filled: decided after Holm's correction; hollow: not "
        f"decided by this run. n = {counts}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("comparisons", caption, draw)
