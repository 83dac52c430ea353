"""A flame graph: functions by their share of the sampled CPU, callers below their callees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from svload.analysis.stacks import Frame
from svload.model.stacks import KERNEL
from svload.report.charts.drawing import Drawing, fitting

WIDTH = 960
ROW = 16
LEAST_WIDTH = 0.8
"""Points; narrower functions are left out, with all that they called."""
MOST_ROWS = 60
_LEAST_NAMED = 25.0
"""Narrower boxes have no name."""


class Box(NamedTuple):
    """One function in one place: left end and width as shares of all samples, and its depth."""

    name: str
    left: float
    width: float
    depth: int
    samples: int
    own: int


def boxes(root: Frame, least: float = LEAST_WIDTH / WIDTH) -> Iterator[Box]:
    """Yield all functions that are wide enough, the root first; those called by one function are in order of
    their names."""
    waiting: list[tuple[Frame, int, int]] = [(root, 0, 0)]
    while waiting:
        frame, left, depth = waiting.pop()
        if frame.samples < least * root.samples or depth >= MOST_ROWS:
            continue
        yield Box(
            frame.name, left / root.samples, frame.samples / root.samples, depth, frame.samples, frame.own
        )
        for name in sorted(frame.called):
            waiting.append((frame.called[name], left, depth + 1))
            left += frame.called[name].samples


def flame_graph(root: Frame, title: str, least: float = LEAST_WIDTH / WIDTH) -> str:
    """Draw the graph from below: callers under their callees, so that the running function is on top.
    Functions of less than `least` of all samples are left out. "" without samples."""
    if not root.samples:
        return ""
    found = list(boxes(root, least))
    height = (max(box.depth for box in found) + 1) * ROW + 2
    drawing = Drawing(WIDTH, height, title)
    for box in found:
        x, y = box.left * WIDTH, height - (box.depth + 1) * ROW - 1
        width = box.width * WIDTH
        drawing.rect(x, y, max(width - 0.5, 0.4), ROW - 1, _colour(box), tip(box))
        if width >= _LEAST_NAMED:
            drawing.text(x + 3, y + ROW - 5, fitting(box.name.removesuffix(KERNEL), width - 6), "frame")
    return drawing.render("chart wide flame")


def tip(box: Box) -> str:
    """Return the text shown on hovering."""
    own = f"; itself {100 * box.own / box.samples * box.width:.1f} %" if box.own else ""
    kind = ", kernel" if box.name.endswith(KERNEL) else ""
    return f"{box.name.removesuffix(KERNEL)}{kind}: {100 * box.width:.1f} % of the samples ({box.samples:,}){own}"


def _colour(box: Box) -> str:
    """Return the colour class of the service's own code, the kernel's, or the root."""
    if box.depth < 2:
        return "k-all"
    return "k-kernel" if box.name.endswith(KERNEL) else "k-user"
