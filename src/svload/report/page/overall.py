"""The page's charts over all cases: where a request's time goes, the servers' CPU and memory, load curves,
the search, and what limited each case (docs/method.md §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from typing import Literal

from svload.analysis.evidence import first_to_fail, holder, owner, what_failed
from svload.model.capacity import CapacityResult
from svload.model.declared import Resource
from svload.model.evidence import CaseEvidence, CaseLimit, CaseRefusal, LimitState
from svload.model.load_curve import DemandFound, LoadCurve, LoadLimit, LoadPoint
from svload.model.results import CaseResult, Findings
from svload.model.units import Dimension, rounded
from svload.report.charts.bars import anatomy_chart, usage_chart
from svload.report.charts.loads import GridCell, levels_chart, limit_grid, search_chart
from svload.report.data.gather import Gathered, anatomy_by_case, usage_by_service
from svload.report.page.data import Anchors, Table
from svload.report.wording.curve_rows import (
    LimitRow,
    curve_caption,
    demand_rows,
    drawable_curves,
    limit_rows,
    title_of,
)
from svload.report.wording.evidence import STATE_MARK
from svload.report.wording.search_rows import (
    GATE_MARKS,
    LevelRow,
    StepRow,
    level_rows,
    limit_words,
    search_caption,
    search_title,
    step_rows,
)
from svload.report.wording.spelling import GRADE_MARK, factor_levels, show_share

_MOST_BARS = 300


@dataclass(frozen=True)
class OverallChart:
    """One chart with its permanent id, its words and its numbers."""

    place: str
    title: str
    drawing: str
    caption: str
    table: Table


def _shown(case: CaseResult) -> str:
    """Return a case's name in a chart: a REFUSED one has its mark."""
    return f"{case.case} {GRADE_MARK['REFUSED']}" if case.instrument == "REFUSED" else case.case


def anatomy_overall(gathered: Gathered, group: str) -> OverallChart | None:
    """Return the parts of a request of the main group in every case on one scale; None without any."""
    bars, rows = [], []
    found = anatomy_by_case(gathered, group)
    for case in gathered.findings.cases:
        if parts := found.get(case.case):
            bars.append((_shown(case), parts))
            rows += [(case.case, part, spent) for part, spent in parts.items()]
    if not bars:
        return None
    title = f"where a request of {group} spends its time, by case"
    return OverallChart(
        place="anatomy-chart",
        title=title,
        drawing=anatomy_chart(bars[:_MOST_BARS], title),
        caption=f"{group}, mean of the ok requests in the kept window, mean over the trials that count. "
        "The server causes waiting for a slot, the instrument causes generator lag.",
        table=Table(("case", "part", "mean_s"), tuple(rows)),
    )


_USAGE: Sequence[tuple[str, str, Dimension, str, str]] = (
    ("cpu-chart", "cpu.mean", "count", "CPU, cores busy on average", "One is one core."),
    ("memory-chart", "memory.max", "size_bytes", "Memory, largest resident size", "Largest sum over a service's processes; pages that several share count in each."),
)  # fmt: skip


def usage_charts(gathered: Gathered) -> Iterator[OverallChart]:
    """Yield CPU and memory by service and case, if there is any number."""
    for place, metric, dimension, title, caption in _USAGE:
        cases, bars = usage_by_service(gathered, metric)
        drawing = usage_chart([case.case for case in cases], bars, dimension, f"{title}, by case")
        if drawing:
            rows = tuple(
                (case.case, service, one.value, one.low, one.high)
                for service, _, numbers in bars
                for case, one in zip(cases, numbers, strict=True)
                if one.value is not None
            )
            words = (
                f"{caption} Mean over the trials that count, with 95 % intervals; hatched: broken (REFUSED)."
            )
            yield OverallChart(
                place, title, drawing, words, Table(("case", "service", metric, "low", "high"), rows)
            )


_MOST_CURVES = 40


@dataclass(frozen=True)
class CurveView(OverallChart):
    """A load curve with its sentences, limits and demands. `uses`: what was in use at N* and at half of it,
    or why that is not known; None if the load is not a number of users."""

    sentences: tuple[str, ...]
    limits: tuple[LimitRow, ...]
    demands: tuple[tuple[DemandFound, str, str], ...]
    uses: AtLimit | str | None


def curve_views(gathered: Gathered, anchors: Anchors) -> list[CurveView]:
    """Return the curves of the run, up to a maximum number."""
    return [
        _curve_view(curve, anchors(f"load {title_of(curve)}"), gathered)
        for curve in drawable_curves(gathered.findings.curves)[:_MOST_CURVES]
    ]


def _curve_view(curve: LoadCurve, place: str, gathered: Gathered) -> CurveView:
    title = title_of(curve)
    return CurveView(
        place=place,
        title=title,
        drawing=levels_chart(curve, f"throughput and response of {title}"),
        caption=curve_caption(curve),
        sentences=curve.sentences,
        limits=tuple(limit_rows(curve)),
        demands=tuple(demand_rows(curve)),
        table=_curve_table(curve),
        uses=at_limit(curve, evidence_of(gathered.findings)) if curve.kind == "users" else None,
    )


def _curve_table(curve: LoadCurve) -> Table:
    heading = (
        "case",
        "level",
        "at",
        "throughput_rps",
        "throughput_low",
        "throughput_high",
        "response_s",
        "response_low",
        "response_high",
        "most_rps",
        "least_s",
        "accounted",
    )
    return Table(heading, tuple(tuple(getattr(point, name) for name in heading) for point in curve.points))


@dataclass(frozen=True)
class SearchView(OverallChart):
    """The search with one row per level or step."""

    found: CapacityResult
    answer: str
    gate_mark: str
    levels: tuple[LevelRow, ...]
    steps: tuple[StepRow, ...]


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
        caption=search_caption(found),
        levels=tuple(level_rows(gathered.findings)),
        steps=tuple(step_rows(found)),
        table=_search_table(found),
    )


def _search_table(found: CapacityResult) -> Table:
    heading = ("number", "trial", "load", "first_look", "outcome", "low", "high")
    rows = (
        (number, one.trial, one.load, int(one.look), one.outcome, one.low, one.high)
        for number, one in enumerate(found.trials, 1)
    )
    return Table(heading, tuple(rows))


_MOST_ROWS, _MOST_COLUMNS = 24, 16


def evidence_of(findings: Findings) -> dict[str, CaseEvidence]:
    """Return the evidence of each case that was run."""
    return {case.case: case.evidence for case in findings.cases if case.excluded is None}


def grid_views(findings: Findings, anchors: Anchors) -> list[OverallChart]:
    """Return one chart for each factor that is a load, if there is another factor."""
    levels = factor_levels(findings)
    factors = dict.fromkeys(curve.factor for curve in findings.curves if curve.kind != "think" and curve.when)
    return [view for factor in factors if (view := _grid(findings, levels, factor, anchors)) is not None]


def _grid(
    findings: Findings, levels: Mapping[str, Sequence[str]], factor: str, anchors: Anchors
) -> OverallChart | None:
    columns = levels.get(factor, ())
    others = [name for name in levels if name != factor and len(levels[name]) > 1]
    combinations = [
        dict(zip(others, one, strict=True)) for one in product(*(levels[name] for name in others))
    ]
    if not others or len(combinations) > _MOST_ROWS or not 1 < len(columns) <= _MOST_COLUMNS:
        return None
    cases = {_levels_of(case, (factor, *others)): case for case in findings.cases if case.excluded is None}
    stars = _first_at_n_star(findings, factor)
    rows: list[tuple[str, list[GridCell | None]]] = []
    for row in combinations:
        cells = [_grid_cell(cases.get((level, *row.values())), stars) for level in columns]
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
    head = (" ".join(others), factor, "resource", "state", "words")
    return OverallChart(place, title, drawing, "", Table(head, data))


def _levels_of(case: CaseResult, factors: Sequence[str]) -> tuple[str, ...]:
    return tuple(case.levels.get(name, "") for name in factors)


def _first_at_n_star(findings: Findings, factor: str) -> set[str]:
    evidence = evidence_of(findings)
    found = (at_limit(curve, evidence) for curve in findings.curves if curve.factor == factor)
    return {one.at.case for one in found if isinstance(one, AtLimit)}


def _grid_cell(case: CaseResult | None, stars: set[str]) -> GridCell | None:
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


NEAR_HALF = 1.6
"""A level counts as half of the load if it is within this factor of it."""
LEAST_SHARE = 0.05
"""Limits used less than this share at N* are not reported."""
MOST_USES = 10
_STATES: tuple[LimitState, ...] = ("reached", "approached", "clear")


@dataclass(frozen=True)
class Use:
    """One declared limit at both loads, as shares in use (1 is full); or one counter of what was refused,
    lost or made to wait, per trial."""

    what: str
    resource: Resource
    half: float | None
    """null: not read at this load"""
    at: float
    state: LimitState
    """its state at the load's limit; a counter's is reached if the server itself counted anything"""
    own: bool
    """whether the limit is the server's own; a machine's limit may be reached because of other programs"""
    is_counter: bool = False

    @property
    def mark(self) -> str:
        return STATE_MARK[self.state]

    @property
    def words(self) -> tuple[str, str]:
        """Both values in words."""
        half, at = (None if value is None else self._spelled(value) for value in (self.half, self.at))
        return half or "not read", at or ""

    def _spelled(self, value: float) -> str:
        return f"{rounded(value, 3)} a trial" if self.is_counter else show_share(value, 3)


@dataclass(frozen=True)
class AtLimit:
    """Two levels of a load curve, and the resources in use at each."""

    limit: LoadLimit
    at: LoadPoint
    half: LoadPoint
    uses: tuple[Use, ...]
    """those at their limit first, then by share"""
    turned: tuple[Use, ...] = ()
    """counters that increased at either load, largest at the limit first"""

    @property
    def caption(self) -> str:
        star = f"{self.limit.name} = {rounded(self.limit.value or 0, 3)}"
        star += "" if self.limit.state == "bracketed" else " (not bracketed)"
        return (
            f"How much of each limit was in use, and how much was turned away, at {self.at.level}, the first "
            f"level at or above {star}, and at {self.half.level}, the nearest to half of it. What grows "
            "with the load until it is full limits it; this is evidence, not proof."
        )


def at_limit(curve: LoadCurve, evidence: Mapping[str, CaseEvidence]) -> AtLimit | str:
    """Return the first level at or above N* (N_break if there is no N*) compared with the level nearest to
    half of it; else why one of them is missing. `evidence` is by case."""
    limit = next(
        (one for one in curve.limits if one.value is not None and one.name in ("N*", "N_break")), None
    )
    if curve.kind != "users" or limit is None or limit.value is None:
        return "no N* was found"
    above = [point for point in curve.points if point.at >= limit.value and point.case in evidence]
    if not above:
        return f"no level that counts lies at or above {limit.name}"
    at = above[0]
    below = [point for point in curve.points if point.at < at.at and point.case in evidence]
    half = min(below, key=lambda point: abs(log(2 * point.at / at.at)), default=None)
    if half is None or abs(log(2 * half.at / at.at)) > log(NEAR_HALF):
        return f"no level that counts lies near half of {at.level}, the first one at or above {limit.name}"
    both = evidence[half.case], evidence[at.case]
    return AtLimit(limit, at, half, _uses(*both), _turned(*both))


def _uses(half: CaseEvidence, at: CaseEvidence) -> tuple[Use, ...]:
    before = {_key(one): one.share for one in half.limits}
    found = [
        Use(holder(one), one.resource, before.get(_key(one)), one.share, one.state, one.verdict)
        for one in at.limits
        if one.state != "clear" or one.share >= LEAST_SHARE
    ]  # fmt: skip
    once = {use.what: use for use in found}  # each service on a machine reads the machine's limits
    return tuple(
        sorted(once.values(), key=lambda use: (_STATES.index(use.state), -use.at, use.what))[:MOST_USES]
    )


def _turned(half: CaseEvidence, at: CaseEvidence) -> tuple[Use, ...]:
    before, after = ({_counter(one): one for one in case.refusals} for case in (half, at))
    found = []
    for key, one in {**before, **after}.items():
        first, last = (case[key].count if key in case else 0.0 for case in (before, after))
        state: LimitState = "reached" if one.verdict and last > 0 else "clear"
        what = f"{owner('', one.service, one.entity)}: {one.means}"
        found.append(Use(what, one.resource, first, last, state, one.verdict, True))
    return tuple(sorted(found, key=lambda one: (not one.own, -one.at, one.what))[:MOST_USES])


def _counter(one: CaseRefusal) -> tuple[str, str, str, str]:
    return one.service, one.monitor, one.counter, one.entity


def _key(one: CaseLimit) -> tuple[str, str, str, str]:
    return one.service, one.monitor, one.name, one.entity


@dataclass(frozen=True)
class Limiting:
    """What limited a case: the first of its servers' own limits to be reached, or the nearest one."""

    resource: Resource
    what: str
    state: Literal["gave way", "nearest"]
    others: tuple[str, ...] = ()
    """limits reached after it"""


def limiting(evidence: CaseEvidence) -> Limiting | None:
    """Return what limited the case; None if no limit of a server was read."""
    failed = first_to_fail(evidence)
    if failed:
        names = list(dict.fromkeys(what_failed(one) for one in failed))
        return Limiting(failed[0].resource, names[0], "gave way", tuple(names[1:]))
    own = [one for one in evidence.limits if one.verdict]
    if not own:
        return None
    near = max(own, key=lambda one: one.share)
    text = f"the {holder(near)} {show_share(near.share, 2)} in use"
    return Limiting(near.resource, text, "nearest")
