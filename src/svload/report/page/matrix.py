"""The case matrix: factors along both axes, one cell per case. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log10, prod

from svload.model.results import CaseResult, Findings
from svload.model.units import Dimension
from svload.report.wording.numbers import Numbers
from svload.report.wording.spelling import (
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
    """A level in a heading, and the number of columns or rows that it spans."""

    factor: str
    level: str
    span: int


@dataclass(frozen=True)
class Row:
    """The heads that start in this row, and the case in each place, None if there is none."""

    heads: tuple[Head, ...]
    cells: tuple[CaseResult | None, ...]


@dataclass(frozen=True)
class Matrix:
    """Column headings by factor (outermost first) and rows."""

    row_factors: tuple[str, ...]
    column_heads: tuple[tuple[Head, ...], ...]
    rows: tuple[Row, ...]


def matrix(findings: Findings) -> Matrix:
    """Place the last factors along the top as far as they fit, the first ones along the side."""
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
            cells.append(by_levels.get(key))
        rows.append(Row(tuple(heads), tuple(cells)))
    return Matrix(tuple(names), _column_heads(columns, levels), tuple(rows))


def _grid(
    names: Sequence[str], levels: Mapping[str, Sequence[str]]
) -> list[tuple[dict[str, str], list[Head]]]:
    """Return every combination in order, each with the heads that start there."""
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
    """One number in the matrix: text with its mark, shade (−1: none), whether it is REFUSED, and how many
    trials support it."""

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
    """Number of cases that were run without a number of it: they have no colour."""

    @property
    def choice(self) -> str:
        """The label in the list of metrics, with the number of cases that have a number if some have none."""
        having = len(self.cells) - self.lacking
        return f"{self.label} (in {having} of {len(self.cells)} cases)" if self.lacking else self.label

    @property
    def note(self) -> str:
        """The text beside the scale if some cases have no number, else ""."""
        if not self.lacking:
            return ""
        return (
            f"{self.label} has no usable value in {self.lacking} of {count_words(len(self.cells), 'case')}: "
            "these have no colour, and the colours compare only the others."
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


def shadings(numbers: Numbers) -> list[Shading]:
    """Return every metric that the reader can choose: the main group's first."""
    findings, first = numbers.findings, numbers.group
    groups = sorted(traffic_owners(findings), key=lambda group: group != first)
    keys = [f"{group}.{metric}" for group in groups for metric in _TRAFFIC]
    keys += [f"{service}.{metric}" for service in services_of(findings) for metric in _SERVICE]
    keys += [full_metric(findings, claim.metric) for claim in findings.claims]
    return [found for key in dict.fromkeys(keys) if (found := shading(numbers, key)) is not None]


def shading(table: Numbers, key: str) -> Shading | None:
    """Return the cases' texts and shades for one metric, logarithmic if values are positive; None if no case
    has a number. REFUSED ones have no shade."""
    dimension: Dimension = dimension_of(key)
    numbers = {case.case: table.of_case(case, key) for case in table.findings.cases if key in case.metrics}
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
