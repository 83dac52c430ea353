"""The claims: each ratio with its interval on one logarithmic axis that includes 1."""

from __future__ import annotations

import altair as alt

from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import (
    WIDTHS_PT,
    Figure,
    Row,
    log_axis,
    scaled,
    sure_words,
)
from svload.report.palette import DIM, PALETTE
from svload.report.told.spelling import count_words, unique

_ROW_PT, _AXIS_PT = 14.0, 34.0
_LONGEST = {True: 56, False: 34}


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if no comparison has a ratio."""
    claims = [claim for claim in gathered.findings.claims if claim.ratio.value]
    if not claims:
        return None
    bounds = [bound for claim in claims for bound in (claim.ratio.value, claim.ratio.low, claim.ratio.high) if bound]  # fmt: skip
    scale, ticks = log_axis([*bounds, 1 / 1.1, 1.1], 7)

    def draw(width: float) -> alt.LayerChart:
        names = _names([claim.name for claim in claims], _LONGEST[width > WIDTHS_PT["single"]])
        rows: list[Row] = [
            {"claim": name, "decided": claim.outcome == "decided", **scaled(claim.ratio, 1.0)}
            for name, claim in zip(names, claims, strict=True)
        ]
        y = alt.Y("claim:N", sort=names, title=None, axis=alt.Axis(grid=False, domain=False, ticks=False, labelLimit=width * 0.55))  # fmt: skip
        x = alt.X("value:Q", scale=scale, title="ratio, treatment over baseline", axis=alt.Axis(values=ticks, format=",.6~f"))  # fmt: skip
        one = alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(color=DIM, strokeWidth=0.8).encode(alt.X("one:Q", scale=scale))  # fmt: skip
        known = alt.Chart(alt.InlineData(values=[row for row in rows if "low" in row]))
        span = known.mark_rule(strokeWidth=1.4, color=PALETTE[0]).encode(alt.X("low:Q", scale=scale), y, x2="high:Q")  # fmt: skip
        dots = alt.Chart(alt.InlineData(values=rows)).mark_point(size=34, strokeWidth=1.2, color=PALETTE[0], filled=True)  # fmt: skip
        fill = alt.condition("datum.decided", alt.value(PALETTE[0]), alt.value("white"))
        marks = dots.encode(x, y, fill=fill, stroke=alt.value(PALETTE[0]))
        return alt.layer(one, span, marks).properties(width=width, height=_ROW_PT * len(rows) + _AXIS_PT)

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
    return Figure("comparisons", caption, draw)


def _names(names: list[str], longest: int) -> list[str]:
    """Cut names to `longest` and keep them unique."""
    cut = [name if len(name) <= longest else name[: longest - 1] + "…" for name in map(visible, names)]
    return [
        f"{name} ({number})" if cut.count(name) > 1 else name
        for number, name in enumerate(cut, 1)
    ]  # fmt: skip
