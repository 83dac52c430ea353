"""A search's loads, or steps, as a table for a terminal: replaces the table of cases, since each level is a
case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from svload.model.capacity import CapacityResult
from svload.model.results import Findings
from svload.model.visible import visible
from svload.report.terminal.search_live import STYLES
from svload.report.told.search_rows import level_rows, nearest, step_rows
from svload.report.told.spelling import count_words

_MOST_LEVELS = 14


def search_lines(findings: Findings) -> Iterator[Text | Table]:
    """Yield the table, and the number of levels left out; nothing if the run is no search."""
    found = findings.capacity
    if found is None:
        return
    yield _steps(found) if found.gain is not None else _levels(findings, found)
    left = len(found.levels) - _MOST_LEVELS
    if left > 0:
        yield Text(f"{count_words(left, 'more load')} in the report", style="dim")


def _levels(findings: Findings, found: CapacityResult) -> Table:
    rows = nearest(level_rows(findings), found, _MOST_LEVELS)
    servers = {case.case: case.server or "" for case in findings.cases}
    criteria = list(dict.fromkeys(row.by for row in rows if row.by))
    one = len(criteria) == 1  # then it is the heading
    table = _table(
        (
            found.over,
            "",
            criteria[0] if one else "measured",
            *([] if one else ["by"]),
            "throughput",
            "server",
            "trials",
        )
    )
    for row in rows:
        style = STYLES[row.level.outcome]
        cells = (
            f"{row.level.load:,}",
            f"{row.mark} {row.level.outcome}",
            f"{row.measured} ({row.interval})" if row.interval else row.measured,
            *([] if one else [row.by]),
            row.throughput,
            servers.get(row.level.case, ""),
            row.trials,
        )
        table.add_row(*(Text(visible(text), style=style if at == 1 else "") for at, text in enumerate(cells)))
    return table


def _steps(found: CapacityResult) -> Table:
    table = _table((found.over, "to", "gain", "throughput"))
    for row in sorted(step_rows(found), key=lambda one: one.step.low_load)[:_MOST_LEVELS]:
        cells = (
            f"{row.step.low_load:,}",
            f"{row.step.high_load:,}",
            row.gain,
            row.throughput,
        )
        table.add_row(*map(Text, cells))
    return table


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, heading in enumerate(headings):
        table.add_column(Text(visible(heading)), justify="right" if at == 0 else "left", overflow="fold")
    return table
