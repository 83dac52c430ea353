"""The table of cases for a terminal: always the numbers of comparisons and thresholds, others as they fit;
one row per step if there are scenarios. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from svload.model.results import CaseResult, Findings
from svload.model.visible import visible
from svload.report.wording.claimed import claimed
from svload.report.wording.criteria import threshold_key
from svload.report.wording.numbers import Number, Numbers, marks_rule, number_of, too_few_rule
from svload.report.wording.spelling import (
    GRADE_MARK,
    count_words,
    dimension_of,
    factor_levels,
    list_words,
    number_words,
    split_metric,
    traffic_owners,
)

_GAP = 2
_MOST_ROWS = 40
_LONGEST_NAME, _LONGEST_LEVELS = 72, 120
_WIDE_NAME, _NARROW_NAME, _SHORTEST_LEVELS = 24, 14, 16
_SEPARATOR = " · "
_SUCCESS = "ok"
_SPARED = ("server", "p99", _SUCCESS, "levels", "rate")
"""Columns dropped in this order before names and levels fold: most of their content is also in a note or in
the report. A number that is compared or has a threshold is never dropped."""
_NO_FAILURE, _FAILURES = "no failure", "failures"
_NONE_OK = "none ok"
_OF_NO_ANSWER = ("generator_lag", "slot_wait", "longest_silence", "recovery")
"""Times that a load has even without any answer."""
_STEP = "  └ "
_NUMBERS = (("response.p50", 8), ("response.p99", 3), ("throughput", 4), ("success_rate", 7))
"""The main group's numbers, and their priority."""
_KEPT = 10


@dataclass(frozen=True)
class Cell:
    """Text and its kind: a grade, a server's state, or "" (the printer chooses the colour)."""

    text: str
    kind: str = ""
    brief: str | None = None
    """the same without its interval, for a narrow terminal"""


@dataclass(frozen=True)
class Column:
    """A column: a higher `keep` means a higher priority; `folds` is the width at which its texts wrap."""

    heading: str
    cells: tuple[Cell, ...]
    keep: int
    right: bool = False
    folds: int | None = None

    @property
    def width(self) -> int:
        """Its width in cells of a terminal."""
        widest = max(cell_len(text) for text in (self.heading, *(cell.text for cell in self.cells)))
        return widest if self.folds is None else min(widest, self.folds)


@dataclass(frozen=True)
class CaseTable:
    """Columns that fit, and sentences on what is not shown as a row."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    """A case, or one step of its scenarios."""

    case: CaseResult
    step: str = ""


def case_table(findings: Findings, width: int) -> CaseTable:
    """Return the run cases with verdicts, the numbers that are asked for and the main group's in at most
    `width` columns."""
    numbers = Numbers(findings)
    ran = [case for case in findings.cases if case.excluded is None]
    steps = _steps(findings, numbers.group)
    shown = ran[: max(1, _MOST_ROWS // (1 + len(steps)))]
    rows = [row for case in shown for row in (_Row(case), *(_Row(case, step) for step in steps))]
    keys = _keys(findings, numbers.group)
    columns = fit(_columns(numbers, rows, keys), width)
    notes = _legend(numbers, rows, keys, [column.heading for column in columns])
    headings = {column.heading for column in columns}
    unseen = [_heading(key, numbers.group) for key, keep in keys.items() if keep == _KEPT]
    headings |= {_SUCCESS} if _all_ok(numbers, shown) else set()  # a note says so
    if unseen := [heading for heading in unseen if heading not in headings]:
        notes.append(f"no room for {list_words(unseen)}: a wider terminal or the report has it")
    if len(ran) > len(shown):
        notes.append(f"{count_words(len(ran) - len(shown), 'more case')} in the report")
    return CaseTable(tuple(columns), (*notes, *_excluded(findings)))


def _steps(findings: Findings, group: str) -> list[str]:
    return [
        owner.removeprefix(f"{group}.") for owner in traffic_owners(findings) if owner.startswith(f"{group}.")
    ]


def _keys(findings: Findings, group: str) -> dict[str, int]:
    """Return each full metric name with its column's priority, highest for what is compared or has a
    threshold. Percentiles of the main group's response are adjacent."""
    asked = [one.key for one in claimed(findings)]
    asked += [threshold_key(findings, one.that) for one in findings.thresholds]
    keys = {f"{group}.{name}": keep for name, keep in _NUMBERS} | {key: _KEPT for key in asked if key}
    head = f"{group}.response.p"
    percentiles = sorted(
        (key for key in keys if key.startswith(head)), key=lambda key: float(key.removeprefix(head))
    )
    return {key: keys[key] for key in dict.fromkeys([*percentiles, *keys])}


def _legend(table: Numbers, rows: Sequence[_Row], keys: Iterable[str], headings: Sequence[str]) -> list[str]:
    """Return the meaning of cells that need an explanation, if there are any."""
    shown = [key for key in keys if _heading(key, table.group) in headings]
    cases = [row.case for row in rows if not row.step]
    of_cases = [table.of_case(case, key) for case in cases for key in shown]
    of_steps = [
        table.of_case(row.case, key)
        for row in rows
        for key in (_step_key(table, row.step, key) for key in shown if row.step)
        if key in row.case.metrics
    ]
    numbers = [*of_cases, *of_steps]
    found = [rule] if (rule := marks_rule(numbers)) else []
    if "n" in headings and any(one.believed < one.made for one in of_cases):
        found.append("n: trials that count, of those that were made")
    if cases and _SUCCESS not in headings and _all_ok(table, cases):
        found.append("ok: 100 % in every case")
    found = ["; ".join(found)] if found else []
    return [*found, rule] if (rule := too_few_rule(numbers)) else found


def _excluded(findings: Findings) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for case in findings.cases:
        if case.excluded is not None:
            by_reason.setdefault(case.excluded, []).append(_cut(visible(case.case), _LONGEST_NAME))
    return [
        f"excluded: {', '.join(names[:8])}{' …' if len(names) > 8 else ''} ({visible(reason)})"
        for reason, names in by_reason.items()
    ]


def _heading(key: str, group: str) -> str:
    """Return `probe p50`, then `p99`, `rate`, `ok` of the same group; others with their owner."""
    owner, name, _ = split_metric(key)
    if owner != group or (name == "response" and key.endswith(".p50")):
        return visible(number_words(key))
    return number_words(key.removeprefix(f"{group}."))


def _columns(numbers: Numbers, rows: Sequence[_Row], keys: dict[str, int]) -> list[Column]:
    group = numbers.group
    vary = [factor for factor, levels in factor_levels(numbers.findings).items() if len(levels) > 1]

    def column(
        heading: str, keep: int, cells: Iterator[Cell], right: bool = True, folds: int | None = None
    ) -> Column:
        return Column(heading, tuple(cells), keep, right, folds)

    names = (
        Cell(_cut(visible(f"{_STEP}{row.step}" if row.step else row.case.case), _LONGEST_NAME))
        for row in rows
    )
    levels = (Cell("" if row.step else _levels(row.case, vary)) for row in rows)
    found = [
        column("case", _KEPT + 1, names, False, _WIDE_NAME),
        *([column("levels", 6, levels, False, _LONGEST_LEVELS)] if vary else []),
        column("verdict", 9, (_grade(row) for row in rows), False),
        column("server", 2, (_server(row) for row in rows), False),
    ]
    median = f"{group}.response.p50"
    with_interval = {median, *(one.key for one in claimed(numbers.findings))}
    for key, keep in keys.items():
        cells = (_number(numbers, row, key, key in with_interval) for row in rows)
        found.append(column(_heading(key, group), keep, cells))
    counted = (Cell("" if row.step else numbers.of_case(row.case, median).counted) for row in rows)
    return [*found, column("n", 5, counted)]


def _levels(case: CaseResult, vary: Sequence[str]) -> str:
    return _cut(visible(_SEPARATOR.join(case.levels.get(factor, "") for factor in vary)), _LONGEST_LEVELS)


def _grade(row: _Row) -> Cell:
    if row.step:
        return Cell("")
    grade = row.case.instrument or "no trial"
    return Cell(f"{GRADE_MARK.get(grade, ' ')} {grade}", grade)


def _server(row: _Row) -> Cell:
    state = "" if row.step else row.case.server or ""
    return Cell(state, state)


def _number(numbers: Numbers, row: _Row, key: str, whole: bool) -> Cell:
    """Return a number with its own mark; of a step its own number, if it is a traffic group's."""
    if row.step:
        key = _step_key(numbers, row.step, key)
        if key not in row.case.metrics:
            return Cell("")
    if row.case.trials and _none_ok(numbers, row.case, key):
        return Cell(_NONE_OK, _FAILURES)
    found = numbers.of_case(row.case, key) if row.case.trials else number_of(key, None, 0, 0)
    kind: str = "" if found.grade == "VALID" else found.grade
    if split_metric(key)[1] == "success_rate":
        kind = _NO_FAILURE if _ok(found) else kind or _FAILURES
    brief = found.marked if row.case.trials else "–"
    text = f"{found.whole} {found.mark}".rstrip() if whole and row.case.trials else brief
    return Cell(text, kind, brief)


def _step_key(numbers: Numbers, step: str, key: str) -> str:
    """Return a step's own metric; "" for one of a service, or of another group."""
    owner = split_metric(key)[0]
    return f"{owner}.{step}{key.removeprefix(owner)}" if owner == numbers.group else ""


def _none_ok(numbers: Numbers, case: CaseResult, key: str) -> bool:
    """Return whether it is a time of answers without any answer: it would be the timeout or nothing."""
    owner, name, _ = split_metric(key)
    success = f"{owner}.success_rate"
    of_answers = dimension_of(key) == "time_s" and name not in _OF_NO_ANSWER
    return of_answers and success in case.metrics and numbers.of_case(case, success).value == 0


def _all_ok(numbers: Numbers, cases: Sequence[CaseResult]) -> bool:
    return all(_ok(numbers.of_case(case, f"{numbers.group}.success_rate")) for case in cases)


def _ok(found: Number) -> bool:
    return found.value == 1


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split()) if not text.startswith(_STEP) else text
    return flat if cell_len(flat) <= most else set_cell_size(flat, most - 1).rstrip() + "…"


def fit(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit: first drop or shorten spare ones, then fold levels and names, drop
    intervals, and drop the lowest priority."""
    kept = list(columns)
    for heading in _SPARED:
        if _total(kept) > width:
            kept = [
                one
                for column in kept
                for one in (
                    _given_way(column)
                    if column.heading == heading and (column.keep < _KEPT or heading == _SUCCESS)
                    else (column,)
                )
            ]
    kept = _folded(kept, "levels", width, _SHORTEST_LEVELS)
    kept = _folded(kept, "case", width, _NARROW_NAME)
    if _total(kept) > width:
        kept = [_brief(column) for column in kept]
    while _total(kept) > width and len(kept) > 1:
        kept.remove(min(reversed(kept), key=lambda column: column.keep))
    return kept


def _folded(columns: Sequence[Column], heading: str, width: int, least: int) -> list[Column]:
    """Narrow the column of that heading as far as needed for all to fit, but not below `least`."""
    over = max(0, _total(columns) - width)
    return [
        replace(one, folds=max(min(least, one.width), one.width - over))
        if over and one.heading == heading
        else one
        for one in columns
    ]


def _given_way(column: Column) -> tuple[Column, ...]:
    """Return what remains of a spare column: levels with less space between them, success if a request
    failed, else nothing."""
    if column.heading == "levels":
        cells = tuple(replace(cell, text=cell.text.replace(_SEPARATOR, "·")) for cell in column.cells)
        return (replace(column, cells=cells),)
    if column.heading == _SUCCESS and any(cell.kind not in (_NO_FAILURE, "") for cell in column.cells):
        return (column,)
    return ()


def _brief(column: Column) -> Column:
    return replace(
        column,
        cells=tuple(cell if cell.brief is None else replace(cell, text=cell.brief) for cell in column.cells),
    )


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)
