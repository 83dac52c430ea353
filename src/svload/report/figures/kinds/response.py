"""Median response by case: estimate, interval and every trial, on one logarithmic axis."""

from __future__ import annotations

import altair as alt

from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import (
    Figure,
    Row,
    case_label,
    counted_words,
    log_axis,
    scaled,
    sure_words,
    unit_of,
    varying,
)
from svload.report.palette import INK, PALETTE, REFUSED
from svload.report.told.spelling import list_words

_ROW_PT, _AXIS_PT = 12.0, 34.0


def figure(gathered: Gathered) -> Figure | None:
    """Return the figure; None if no case has a median."""
    key = f"{gathered.group}.response.p50"
    cases = [case for case in gathered.findings.cases if case.excluded is None and key in case.metrics]
    trials = [
        (case, trial, value)
        for case in cases
        for trial in gathered.trials_of(case.case)
        if key in trial.metrics and (value := trial.metrics[key].value) is not None and value > 0
    ]
    if not trials:
        return None
    unit, factor = unit_of([value for _, _, value in trials], "time_s")
    bounds = [
        bound / factor
        for case in cases
        for bound in (case.metrics[key].low, case.metrics[key].high)
        if bound is not None and bound > 0
    ]
    scale, ticks = log_axis([*(value / factor for _, _, value in trials), *bounds], 7)

    def draw(width: float) -> alt.LayerChart:
        names = {case.case: case_label(case, varying(gathered), width) for case in cases}
        dots: list[Row] = [
            {
                "case": names[case.case],
                "value": value / factor,
                "refused": gathered.told.of_trial(trial, key).refused,
            }
            for case, trial, value in trials
        ]
        means = [
            {"case": names[case.case], **scaled(one, factor)}
            for case in cases
            if (one := gathered.told.of_case(case, key)).value is not None and not one.refused
        ]
        y = alt.Y("case:N", sort=list(names.values()), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False))  # fmt: skip
        x = alt.X("value:Q", scale=scale, title=f"median response ({unit})", axis=alt.Axis(values=ticks, format=",.6~f"))  # fmt: skip
        points = alt.Chart(alt.InlineData(values=dots)).encode(x, y)
        counted = points.transform_filter("!datum.refused").mark_circle(size=12, opacity=0.45, color=PALETTE[0])  # fmt: skip
        refused = points.transform_filter("datum.refused").mark_point(
            shape="cross", angle=45, size=22, color=REFUSED, filled=True
        )
        interval = alt.Chart(alt.InlineData(values=[row for row in means if "low" in row])).mark_rule(strokeWidth=1.6, color=PALETTE[0])  # fmt: skip
        centre = alt.Chart(alt.InlineData(values=means)).mark_tick(thickness=1.4, size=8, color=INK)
        layers = alt.layer(
            interval.encode(alt.X("low:Q", scale=scale), y, x2="high:Q"),
            counted,
            refused,
            centre.encode(x, y),
        )
        return layers.properties(width=width, height=_ROW_PT * len(cases) + _AXIS_PT)

    models = " and ".join(
        dict.fromkeys(case.load_model[gathered.group] for case in cases if gathered.group in case.load_model)
    )
    caption = (
        f"Median response of {gathered.group} by case{f' ({models})' if models else ''}, from the intended "
        f"start, logarithmic. Ticks: "
        f"geometric mean over trials; bars: its 95 % interval (t over per-run logarithms); dots: single trials"
        f"{'; crosses: REFUSED trials, which do not count' if any(case.refused for case in cases) else ''}. "
        f"{counted_words(gathered, cases)}. {_missing(gathered, key)}{sure_words(gathered)}"
    )
    return Figure("response", caption, draw)


def _missing(gathered: Gathered, key: str) -> str:
    """Return a sentence on the cases that ran and have no number."""
    names = [
        visible(case.case)
        for case in gathered.findings.cases
        if case.excluded is None and not any(key in one.metrics and one.metrics[key].value for one in gathered.trials_of(case.case))
    ]  # fmt: skip
    return f"No median: {list_words(names, 8)}. " if names else ""
