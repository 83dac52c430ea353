"""Grouped bars with intervals: one resource of every service, by case."""

from __future__ import annotations

import altair as alt

from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import (
    Figure,
    Row,
    case_label,
    counted_words,
    scaled,
    unit_of,
)
from svload.report.palette import INK, PALETTE
from svload.report.told.spelling import dimension_of, services_of

_HEIGHT_PT = 150.0


def usage_figure(gathered: Gathered, name: str, metric: str, what: str, unit: str = "") -> Figure | None:
    """Return the figure of `metric` (such as `cpu.mean`) of every service; `unit` if it is not the
    dimension's own. None if no service has it."""
    cases = [case for case in gathered.findings.cases if case.excluded is None and case.trials]
    found = {
        (case.case, service): estimate
        for case in cases
        for service in services_of(gathered.findings)
        if (estimate := gathered.told.of_case(case, f"{service}.{metric}")).value is not None
        and not estimate.refused
    }
    if not found:
        return None
    values = [estimate.value for estimate in found.values() if estimate.value is not None]
    own, factor = (unit, 1.0) if unit else unit_of(values, dimension_of(f"x.{metric}"))
    colours = {visible(service): PALETTE[gathered.colours[service]] for _, service in found}
    services = list(colours)

    def draw(width: float) -> alt.LayerChart:
        names = {case.case: case_label(case, (), width) for case in cases}
        rows: list[Row] = [
            {"case": names[case], "service": visible(service), **scaled(estimate, factor)}
            for (case, service), estimate in found.items()
        ]
        x = alt.X("case:N", sort=list(names.values()), title=None, axis=alt.Axis(labelAngle=-90 if len(cases) > 8 else 0, ticks=False))  # fmt: skip
        beside = alt.XOffset("service:N", sort=services)
        y = alt.Y("value:Q", title=f"{what} ({own})", axis=alt.Axis(tickCount=5, format=",.6~f"))
        colour = alt.Color("service:N", sort=services, scale=alt.Scale(domain=services, range=list(colours.values())), legend=alt.Legend(title=None, symbolType="square"))  # fmt: skip
        bars = alt.Chart(alt.InlineData(values=rows)).mark_bar().encode(x, beside, y, colour)
        known = alt.Chart(alt.InlineData(values=[row for row in rows if "low" in row]))
        spans = known.mark_rule(strokeWidth=0.7, color=INK).encode(x, beside, alt.Y("low:Q"), alt.Y2("high:Q"))  # fmt: skip
        return alt.layer(bars, spans).properties(width=width, height=_HEIGHT_PT)

    caption = (
        f"{what[:1].upper()}{what[1:]} of each service by case, under load; mean over trials with its 95 % "
        f"interval, REFUSED numbers left out. "
        f"{counted_words(gathered, cases)}."
    )
    return Figure(name, caption, draw)
