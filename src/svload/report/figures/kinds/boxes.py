"""Responses by case as boxes with Tukey's fences, for groups that keep rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.report.charts.boxes import FENCE, MOST_OUTSIDE, box_of, boxes_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, case_label, counted_words, sure_words, varying
from svload.store.load_time import responses_ns


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if the group kept no rows."""
    boxes = {name: box_of(values) for name, values in _responses_s(gathered).items() if len(values)}
    cases = [case for case in gathered.findings.cases if case.case in boxes]
    if not any(box.high > 0 for box in boxes.values()):
        return

    def draw(width: float) -> str:
        rows = [(case_label(case, varying(gathered), width), boxes[case.case]) for case in cases]
        return boxes_chart(rows, "response, logarithmic", f"responses of {gathered.group} by case", width)

    outside = sum(len(box.outside) for box in boxes.values())
    caption = (
        f"Responses of the ok requests of {gathered.group} that were due in the kept window, trials pooled, "
        f"logarithmic. Boxes: quartiles; ticks: "
        f"medians; lines: to the last value inside Tukey's fences ({FENCE:g} interquartile ranges beyond the "
        f"box); dots: values outside "
        f"({outside:,} in all, of each case the {MOST_OUTSIDE} most extreme). Pictures: the interval of a "
        f"median is in the figure of medians. "
        f"{counted_words(gathered, cases)}. {sure_words(gathered)}"
    )
    yield Figure("boxes", caption, draw)


def _responses_s(gathered: Gathered) -> dict[str, NDArray[Any]]:
    """Return, by case, the responses of its counted trials."""
    counted = {one.name for case in gathered.findings.cases for one in gathered.counted(case)}
    found: dict[str, list[NDArray[Any]]] = {}
    for result, data in gathered.read():
        names = [group.name for group in data.summary.groups]
        if result.trial not in counted or gathered.group not in names:
            continue
        samples, (low, high) = data.samples, data.summary.window_ns
        due = samples["due_ns"]
        mine = (samples["group"] == names.index(gathered.group)) & (samples["error"] == 0)
        mine &= (due >= low) & (due < high)
        found.setdefault(result.case, []).append(responses_ns(samples)[mine] / 1e9)
    return {case: np.concatenate(parts) for case, parts in found.items()}
