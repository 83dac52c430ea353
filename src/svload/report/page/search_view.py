"""The page's section of a search: the drawing, one row per level or step, and the gate."""

from __future__ import annotations

from dataclasses import dataclass

from svload.model.capacity import CapacityResult
from svload.report.charts.search_chart import search_chart
from svload.report.data.gather import Gathered
from svload.report.page.anchors import Anchors
from svload.report.page.data import Table
from svload.report.told.search_rows import (
    GATE_MARKS,
    LevelRow,
    StepRow,
    caption_of,
    level_rows,
    limit_words,
    search_title,
    step_rows,
)


@dataclass(frozen=True)
class SearchView:
    """The search as the template lays it out."""

    found: CapacityResult
    place: str
    title: str
    answer: str
    gate_mark: str
    drawing: str
    caption: str
    levels: tuple[LevelRow, ...]
    steps: tuple[StepRow, ...]
    table: Table


def search_view(gathered: Gathered, anchors: Anchors) -> SearchView | None:
    """Return the section; None if the run is no search."""
    found = gathered.findings.capacity
    if found is None:
        return None
    title = search_title(found)
    return SearchView(
        found=found,
        place=anchors("the search"),
        title=title,
        answer=limit_words(found),
        gate_mark=GATE_MARKS[found.gate.outcome] if found.gate else "",
        drawing=search_chart(found, f"search for {title}"),
        caption=caption_of(found),
        levels=tuple(level_rows(gathered.findings)),
        steps=tuple(step_rows(found)),
        table=_table(found),
    )


def _table(found: CapacityResult) -> Table:
    heading = ("number", "trial", "load", "first_look", "outcome", "low", "high")
    rows = (
        (number, one.trial, one.load, int(one.look), one.outcome, one.low, one.high)
        for number, one in enumerate(found.trials, 1)
    )
    return Table(heading, tuple(rows))
