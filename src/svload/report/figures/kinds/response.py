"""Median response by case: estimate, interval and every trial, on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.visible import visible
from svload.report.charts.strip import Replicate, strips_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, case_label, counted_words, sure_words, varying
from svload.report.told.spelling import list_words


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no case has a median."""
    key, told = f"{gathered.group}.response.p50", gathered.told
    cases = [case for case in gathered.findings.cases if case.excluded is None and key in case.metrics]
    points = {
        case.case: [
            Replicate(trial.trial, trial.replicate, value, told.of_trial(trial, key).grade)
            for trial in gathered.trials_of(case.case)
            if key in trial.metrics and (value := trial.metrics[key].value) is not None and value > 0
        ]
        for case in cases
    }
    if not any(points.values()):
        return

    def draw(width: float) -> str:
        rows = [
            (case_label(case, varying(gathered), width), points[case.case], None if told.of_case(case, key).refused else case.metrics[key])
            for case in cases
        ]  # fmt: skip
        return strips_chart(
            rows, "time_s", "median response, logarithmic", f"median response of {gathered.group}", width
        )

    models = " and ".join(
        dict.fromkeys(case.load_model[gathered.group] for case in cases if gathered.group in case.load_model)
    )
    caption = (
        f"Median response of {gathered.group} by case{f' ({models})' if models else ''}, from the intended "
        f"start, logarithmic. Lines: "
        f"geometric mean over trials; bars: its 95 % interval (t over per-run logarithms); dots: single trials, hollow if WEAK"
        f"{'; crosses: REFUSED trials, which do not count' if any(case.refused for case in cases) else ''}. "
        f"{counted_words(gathered, cases)}. {_missing(gathered, key)}{sure_words(gathered)}"
    )
    yield Figure("response", caption, draw)


def _missing(gathered: Gathered, key: str) -> str:
    """Return a sentence on the cases that ran and have no number."""
    names = [
        visible(case.case)
        for case in gathered.findings.cases
        if case.excluded is None and not any(key in one.metrics and one.metrics[key].value for one in gathered.trials_of(case.case))
    ]  # fmt: skip
    return f"No median: {list_words(names, 8)}. " if names else ""
