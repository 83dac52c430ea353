"""On the page: resource use at N* compared with half of it, and what limited each case of two factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from svload.model.evidence import CaseEvidence, LimitState
from svload.model.load_curve import LoadCurve
from svload.model.results import CaseResult, Findings
from svload.report.charts.limit_grid import GridCell, limit_grid
from svload.report.page.anchors import Anchors
from svload.report.page.data import Table
from svload.report.told.at_limit import AtLimit, at_limit, limiting
from svload.report.told.evidence import STATE_MARK
from svload.report.told.spelling import factor_levels

_MOST_ROWS, _MOST_COLUMNS = 24, 16


@dataclass(frozen=True)
class UseLine:
    """A resource at both loads, in words."""

    what: str
    half: str
    at: str
    state: LimitState
    mark: str
    own: bool


@dataclass(frozen=True)
class UseTable:
    """The table under a load curve; `reason` explains why it has no lines."""

    caption: str
    half: str
    at: str
    lines: tuple[UseLine, ...]
    reason: str


def use_table(curve: LoadCurve, findings: Findings) -> UseTable | None:
    """Return what was in use at N* and at half of it; None if the load is not a number of users."""
    if curve.kind != "users":
        return None
    found = at_limit(curve, evidence_of(findings))
    if isinstance(found, str):
        return UseTable("", "", "", (), f"What was in use at N* against half of it can't be told: {found}.")
    return UseTable(_caption(found), found.half.level, found.at.level, tuple(_lines(found)), "")


def evidence_of(findings: Findings) -> dict[str, CaseEvidence]:
    """Return the evidence of each case that was run."""
    return {case.case: case.evidence for case in findings.cases if case.excluded is None}


def _caption(found: AtLimit) -> str:
    limit = found.limit
    star = f"{limit.name} = {limit.value:.3g}" + ("" if limit.state == "bracketed" else " (not bracketed)")
    return (
        f"How much of each limit was in use, and how much was turned away, at {found.at.level}, the first level at or "
        f"above {star}, and at "
        f"{found.half.level}, the nearest to half of it. What grows with the load and is full limits it; evidence, no proof."
    )


def _lines(found: AtLimit) -> Iterator[UseLine]:
    for use in found.uses:
        half = "not read" if use.half is None else f"{100 * use.half:.3g} %"
        yield UseLine(use.what, half, f"{100 * use.at:.3g} %", use.state, STATE_MARK[use.state], use.own)
    for one in found.turned:
        state: LimitState = "reached" if one.own and one.at > 0 else "clear"
        yield UseLine(
            one.what, f"{one.half:,.3g} a trial", f"{one.at:,.3g} a trial", state, STATE_MARK[state], one.own
        )


@dataclass(frozen=True)
class GridView:
    """The chart of what limited each case."""

    place: str
    title: str
    drawing: str
    table: Table


def grid_views(findings: Findings, anchors: Anchors) -> list[GridView]:
    """Return one chart for each factor that is a load, if there is another factor."""
    levels = factor_levels(findings)
    factors = dict.fromkeys(curve.factor for curve in findings.curves if curve.kind != "think" and curve.when)
    return [view for factor in factors if (view := _grid(findings, levels, factor, anchors)) is not None]


def _grid(
    findings: Findings, levels: Mapping[str, Sequence[str]], factor: str, anchors: Anchors
) -> GridView | None:
    columns = levels.get(factor, ())
    others = [name for name in levels if name != factor and len(levels[name]) > 1]
    combinations = [
        dict(zip(others, one, strict=True)) for one in product(*(levels[name] for name in others))
    ]
    if not others or len(combinations) > _MOST_ROWS or not 1 < len(columns) <= _MOST_COLUMNS:
        return None
    cases = {_levels(case, (factor, *others)): case for case in findings.cases if case.excluded is None}
    stars = _first_at_n_star(findings, factor)
    rows: list[tuple[str, list[GridCell | None]]] = []
    for row in combinations:
        cells = [_cell(cases.get((level, *row.values())), stars) for level in columns]
        if any(cells):
            rows.append((" ".join(row.values()), cells))
    title = f"what limited each case, by {' × '.join(others)} and {factor}"
    drawing = limit_grid(rows, columns, factor, title)
    data = tuple(
        (name, column, cell.resource, "gave way" if cell.gave_way else "nearest", cell.tip)
        for name, cells in rows
        for column, cell in zip(columns, cells, strict=True)
        if cell is not None
    )
    place = anchors(f"limited {factor}")
    return GridView(
        place, title, drawing, Table((" ".join(others), factor, "resource", "state", "told"), data)
    )


def _levels(case: CaseResult, factors: Sequence[str]) -> tuple[str, ...]:
    return tuple(case.levels.get(name, "") for name in factors)


def _first_at_n_star(findings: Findings, factor: str) -> set[str]:
    """Return the cases that are the first at or above N* of their curve."""
    evidence = evidence_of(findings)
    found = (at_limit(curve, evidence) for curve in findings.curves if curve.factor == factor)
    return {one.at.case for one in found if isinstance(one, AtLimit)}


def _cell(case: CaseResult | None, stars: set[str]) -> GridCell | None:
    if case is None:
        return None
    found = limiting(case.evidence)
    refused = case.instrument == "REFUSED"
    doubt = " REFUSED: broken, not used." if refused else ""
    if found is None:
        return GridCell("–", False, f"{case.case}: no limit was read.{doubt}", refused, case.case in stars)
    later = f"; then {'; '.join(found.others)}" if found.others else ""
    how = "first" if found.state == "gave way" else "nearest, nothing gave way"
    tip = f"{case.case}: {found.what} ({how}){later}.{doubt}"
    return GridCell(found.resource, found.state == "gave way", tip, refused, case.case in stars)
