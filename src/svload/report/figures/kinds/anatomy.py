"""Where a request spends its time: its parts by case."""

from __future__ import annotations

from collections.abc import Iterator

from svload.report.charts.anatomy import anatomy_chart
from svload.report.charts.axes import rows_span
from svload.report.data.digest import SEGMENTS
from svload.report.data.gather import Gathered, anatomy_by_case
from svload.report.figures.figure import Figure, case_label, counted_words, varying
from svload.report.told.spelling import GRADE_MARK

_MOST_NAMES = 0.35
"""The share of the width that the cases' names may take."""


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no request was ok."""
    bars = anatomy_by_case(gathered, gathered.group)
    cases = [case for case in gathered.findings.cases if case.case in bars]
    if not bars:
        return
    refused = {case.case for case in cases if case.instrument == "REFUSED"}
    key = [
        (f"a{number}", part)
        for number, part in enumerate(SEGMENTS)
        if any(parts.get(part, 0.0) > 0 for parts in bars.values())
    ]

    def draw(width: float) -> str:
        rows = [
            (case_label(case, varying(gathered), width) + (f" {GRADE_MARK['REFUSED']}" if case.case in refused else ""), bars[case.case])
            for case in cases
        ]  # fmt: skip
        left, _ = rows_span([name for name, _ in rows], width, _MOST_NAMES)
        return anatomy_chart(
            rows, f"where a request of {gathered.group} spends its time", left, width=width, key=key
        )

    caption = (
        f"Where a request of {gathered.group} spends its time by case: means over the ok requests of the kept "
        f"window, from the intended start "
        f"to the last byte; the parts add up to the mean response. Means over trials, no interval. "
        f"{'✗: REFUSED. ' if refused else ''}{counted_words(gathered, cases)}."
    )
    yield Figure("anatomy", caption, draw)
