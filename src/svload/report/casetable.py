"""The table of cases for a terminal: what does not fit is left out, the least needed first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from svload.model.results import CaseResult, Findings
from svload.report.words import (
    COUNTED,
    GRADE_MARK,
    counted_of_made,
    factor_levels,
    main_group,
    short_reason,
    show_interval,
    show_value,
    too_few_rule,
    visible,
)

_GAP = 2
_MOST_ROWS = 60
_LONGEST = {"case": 14, "levels": 44}
_SHORTEST_LEVELS = 16
_SEPARATOR = " · "
_SPARED = ("server", "p99", "ok", "levels", "rate")
"""What gives way in turn before levels are cut, as far as `_given_way` lets it: most of it stands in a note or in the report."""
_NO_FAILURE = "no failure"


@dataclass(frozen=True)
class Cell:
    """Text and what it stands for: a grade, a server's state, or "" (how it is coloured is the printer's business)."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Column:
    """A column: `keep` is higher the more it is needed."""

    heading: str
    cells: tuple[Cell, ...]
    keep: int
    right: bool = False

    @property
    def width(self) -> int:
        """Cells of a terminal that the widest entry takes."""
        return max(cell_len(text) for text in (self.heading, *(cell.text for cell in self.cells)))


@dataclass(frozen=True)
class CaseTable:
    """Columns that fit, and sentences on what is not shown as a row."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def case_table(findings: Findings, width: int) -> CaseTable:
    """The run cases with verdicts and the main group's headline numbers in at most `width` columns."""
    ran = [case for case in findings.cases if case.excluded is None]
    shown = ran[:_MOST_ROWS]
    columns = fit(_columns(findings, shown), width)
    notes = _legend(findings, shown, [column.heading for column in columns])
    if len(ran) > len(shown):
        notes.append(f"{len(ran) - len(shown)} more cases stand in the report")
    return CaseTable(tuple(columns), (*notes, *_excluded(findings)))


def _legend(findings: Findings, cases: Sequence[CaseResult], headings: Sequence[str]) -> list[str]:
    """What the cells mean that do not speak for themselves, if there are such cells."""
    group = main_group(findings)
    stats = ["p50", *(["p99"] if "p99" in headings else [])]
    rule = too_few_rule(case.metrics.get(f"{group}.response.{stat}") for case in cases for stat in stats)
    refused = "n" in headings and any(case.refused for case in cases)
    found = [COUNTED] if refused else []
    if cases and "ok" not in headings and all(_ok(case, group).kind == _NO_FAILURE for case in cases):
        found.append("ok: 100 % in every case")
    return [*found, rule] if rule else found


def _excluded(findings: Findings) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for case in findings.cases:
        if case.excluded is not None:
            by_reason.setdefault(case.excluded, []).append(_cut(visible(case.case), _LONGEST["case"]))
    return [
        f"excluded: {', '.join(names[:8])}{' …' if len(names) > 8 else ''} ({visible(reason)})"
        for reason, names in by_reason.items()
    ]


def _columns(findings: Findings, cases: Sequence[CaseResult]) -> list[Column]:
    group = main_group(findings)
    vary = [factor for factor, levels in factor_levels(findings).items() if len(levels) > 1]

    def column(heading: str, keep: int, cells: list[Cell], right: bool = True) -> Column:
        return Column(heading, tuple(cells), keep, right)

    def metric(case: CaseResult, name: str) -> str:
        estimate = case.metrics.get(f"{group}.{name}")
        return (
            "–"
            if estimate is None
            else show_value(estimate.value, "time_s")
            if estimate.value is not None
            else short_reason(estimate.reason)
        )

    found = [
        column("case", 9, [Cell(_cut(visible(case.case), _LONGEST["case"])) for case in cases], right=False),
        column(
            "levels",
            6,
            [
                Cell(
                    _cut(
                        visible(_SEPARATOR.join(case.levels.get(factor, "") for factor in vary)),
                        _LONGEST["levels"],
                    )
                )
                for case in cases
            ],
            right=False,
        ),
        column("verdict", 9, [_grade(case) for case in cases], right=False),
        column("server", 2, [Cell(case.server or "", case.server or "") for case in cases], right=False),
        column(f"{_cut(visible(group), 16)} p50", 8, [Cell(_median(case, group)) for case in cases]),
        column("p99", 3, [Cell(metric(case, "response.p99")) for case in cases]),
        column("rate", 4, [Cell(_number(case, f"{group}.throughput", "rate_rps")) for case in cases]),
        column("ok", 7, [_ok(case, group) for case in cases]),
        column("n", 5, [Cell(counted_of_made(case)) for case in cases]),
    ]
    return [one for one in found if one.heading != "levels" or vary]


def _grade(case: CaseResult) -> Cell:
    grade = case.instrument or "no trial"
    return Cell(f"{GRADE_MARK.get(grade, ' ')} {grade}", grade)


def _median(case: CaseResult, group: str) -> str:
    estimate = case.metrics.get(f"{group}.response.p50")
    if estimate is None:
        return "–"
    return show_interval(estimate, "time_s") if estimate.value is not None else short_reason(estimate.reason)


def _number(case: CaseResult, key: str, dimension: str) -> str:
    estimate = case.metrics.get(key)
    return (
        "–"
        if estimate is None
        else show_value(estimate.value, "ratio" if dimension == "ratio" else "rate_rps")
    )


def _ok(case: CaseResult, group: str) -> Cell:
    key = f"{group}.success_rate"
    found = case.metrics.get(key)
    whole = found is not None and found.value == 1
    return Cell(_number(case, key, "ratio"), _NO_FAILURE if whole else "")


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if cell_len(flat) <= most else set_cell_size(flat, most - 1).rstrip() + "…"


def fit(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit: spare ones give way first, then levels shrink, then the least needed go. Servers that are all steady need no column."""
    kept = list(columns)
    if all(
        cell.text in ("", "STEADY", "UNKNOWN")
        for column in kept
        if column.heading == "server"
        for cell in column.cells
    ):
        kept = [column for column in kept if column.heading != "server"]
    for heading in _SPARED:
        if _total(kept) > width:
            kept = [
                one
                for column in kept
                for one in (_given_way(column) if column.heading == heading else (column,))
            ]
    while _total(kept) > width and len(kept) > 1:
        spare = min(kept, key=lambda column: column.keep)
        levels = next((at for at, column in enumerate(kept) if column.heading == "levels"), None)
        over = _total(kept) - width
        if levels is not None and kept[levels].width - over >= _SHORTEST_LEVELS:
            kept[levels] = _narrowed(kept[levels], kept[levels].width - over)
            break
        kept.remove(spare)
    return kept


def _given_way(column: Column) -> tuple[Column, ...]:
    """Nothing, or what is left of it: levels stand closer together, and success keeps its column where a request failed."""
    if column.heading == "levels":
        cells = tuple(Cell(cell.text.replace(_SEPARATOR, "·"), cell.kind) for cell in column.cells)
        return (Column(column.heading, cells, column.keep, column.right),)
    if column.heading == "ok" and any(cell.kind != _NO_FAILURE for cell in column.cells):
        return (column,)
    return ()


def _narrowed(column: Column, width: int) -> Column:
    return Column(
        column.heading,
        tuple(Cell(_cut(cell.text, width), cell.kind) for cell in column.cells),
        column.keep,
        column.right,
    )


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)
