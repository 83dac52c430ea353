"""The case matrix: factors along both axes, a cell a case. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log10, prod

from svload.model.results import CaseResult, Findings
from svload.model.units import Dimension
from svload.report.told.numbers import Told
from svload.report.told.spelling import (
    count_words,
    dimension_of,
    factor_levels,
    full_metric,
    metric_label,
    services_of,
    show_value,
    traffic_owners,
)

SHADES = 7
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Head:
    """A level in a heading that spans so many columns or rows."""

    factor: str
    level: str
    span: int


@dataclass(frozen=True)
class Cell:
    """A case in its place; None where the factors' combination is no case of the study."""

    case: CaseResult | None


@dataclass(frozen=True)
class Row:
    """Heads that begin in this row, and its cells."""

    heads: tuple[Head, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    """Column headings by factor (outermost first) and rows."""

    row_factors: tuple[str, ...]
    column_heads: tuple[tuple[Head, ...], ...]
    rows: tuple[Row, ...]


def matrix(findings: Findings) -> Matrix:
    """The last factors stand along the top as far as they fit, the first ones along the side."""
    levels = factor_levels(findings)
    names = list(levels)
    columns: list[str] = []
    while (
        names
        and prod(len(levels[name]) for name in [names[-1], *columns]) <= _MOST_COLUMNS
        and (len(names) > 1 or not columns)
    ):
        columns.insert(0, names.pop())
    by_levels = {tuple(sorted(case.levels.items())): case for case in findings.cases}
    rows = []
    for row_levels, heads in _grid(names, levels):
        cells = []
        for column_levels, _ in _grid(columns, levels):
            key = tuple(sorted({**row_levels, **column_levels}.items()))
            cells.append(Cell(by_levels.get(key)))
        rows.append(Row(tuple(heads), tuple(cells)))
    return Matrix(tuple(names), _column_heads(columns, levels), tuple(rows))


def _grid(
    names: Sequence[str], levels: Mapping[str, Sequence[str]]
) -> list[tuple[dict[str, str], list[Head]]]:
    """Every combination in order, each with the heads that begin there."""
    found = []
    sizes = [len(levels[name]) for name in names]
    for number, combination in enumerate(product(*(levels[name] for name in names))):
        heads = [
            Head(name, level, prod(sizes[depth + 1 :]))
            for depth, (name, level) in enumerate(zip(names, combination, strict=True))
            if number % prod(sizes[depth + 1 :]) == 0
        ]
        found.append((dict(zip(names, combination, strict=True)), heads))
    return found


def _column_heads(names: Sequence[str], levels: Mapping[str, Sequence[str]]) -> tuple[tuple[Head, ...], ...]:
    by_factor: dict[str, list[Head]] = {name: [] for name in names}
    for _, heads in _grid(names, levels):
        for head in heads:
            by_factor[head.factor].append(head)
    return tuple(tuple(heads) for heads in by_factor.values())


@dataclass(frozen=True)
class Shade:
    """One number in the matrix: text with its mark, shade (−1: none), whether it is
    REFUSED, and how many trials carry it."""

    text: str
    shade: int
    refused: bool
    counted: str
    believed: int


@dataclass(frozen=True)
class Shading:
    """One metric over the matrix: its label, the range in words, and its number by case."""

    key: str
    label: str
    low: str
    high: str
    cells: dict[str, Shade]
    lacking: int = 0
    """Cases that were run and have no number of it: they bear no colour and are compared with none."""

    @property
    def choice(self) -> str:
        """The label in the list to choose from, with how many of the cases have a number where some have none."""
        having = len(self.cells) - self.lacking
        return f"{self.label} (in {having} of {len(self.cells)} cases)" if self.lacking else self.label

    @property
    def note(self) -> str:
        """What stands beside the scale where some cases have no number; "" else."""
        if not self.lacking:
            return ""
        return (
            f"{self.label} is no number that counts in {self.lacking} of "
            f"{count_words(len(self.cells), 'case')}: those bear no colour, and the colours compare only the others."
        )


_TRAFFIC = (
    "response.p50",
    "response.p95",
    "response.p99",
    "response.mean",
    "service.p50",
    "throughput",
    "ok_throughput",
    "success_rate",
)
_SERVICE = ("cpu.mean", "memory.max", "hit_ratio")


def shadings(told: Told) -> list[Shading]:
    """Every metric that the reader can choose: the main group's first."""
    findings, first = told.findings, told.group
    groups = sorted(traffic_owners(findings), key=lambda group: group != first)
    keys = [f"{group}.{metric}" for group in groups for metric in _TRAFFIC]
    keys += [f"{service}.{metric}" for service in services_of(findings) for metric in _SERVICE]
    keys += [full_metric(findings, claim.metric) for claim in findings.claims]
    return [found for key in dict.fromkeys(keys) if (found := shading(told, key)) is not None]


def shading(told: Told, key: str) -> Shading | None:
    """The cases' texts and shades for one metric, logarithmic where values are positive; None if no case has
    a number. REFUSED ones bear none."""
    dimension: Dimension = dimension_of(key)
    numbers = {case.case: told.of_case(case, key) for case in told.findings.cases if key in case.metrics}
    values = [one.value for one in numbers.values() if one.value is not None and not one.refused]
    if all(one.shown is None for one in numbers.values()):
        return None
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    cells = {}
    for name, one in numbers.items():
        counts = one.value is not None and not one.refused
        shade = _shade(one.value, low, high, dimension) if one.value is not None and counts else -1
        cells[name] = Shade(one.marked, shade, one.refused, one.counted, one.believed)
    least, most = (show_value(bound, dimension) if values else "–" for bound in (low, high))
    return Shading(key, metric_label(key), least, most, cells, len(cells) - len(values))


def _shade(value: float, low: float, high: float, dimension: Dimension) -> int:
    if high <= low:
        return 2
    if low > 0 and dimension != "ratio":
        share = log10(value / low) / log10(high / low)
    else:
        share = (value - low) / (high - low)
    return min(SHADES - 1, int(share * SHADES))
