"""Checks of a table's throughput under a limit that was varied, such as CPUs: d ln X / d ln limit
(docs/method.md §5)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from math import log
from typing import NamedTuple

from svload.analysis import limits
from svload.model.units import three_figures
from svload.tables.checks.base import Tables, finding, groups_of, known, signed_percent, table_check
from svload.tables.table import Table, TableFinding

_LIMIT = re.compile(
    r"(n?cpus?|cores|cpu_(limit|quota)|memory(_limit)?(_\w+)?|\w+_limit|workers|pool_size)", re.IGNORECASE
)


class Step(NamedTuple):
    """Two rows that differ in one limit alone, the smaller limit first; neighbouring levels, or the lowest
    and the highest."""

    column: str
    tight: int
    loose: int
    elasticity: float
    ratio: float
    ends: bool


def _steps(table: Table) -> Iterator[Step]:
    rates = table.quantity("throughput")
    if rates is None:
        return
    for column in table.factors:
        if not _LIMIT.fullmatch(column):
            continue
        allowed = table.numbers(column)
        for rows in groups_of(table, column).values():
            mine = sorted(
                (row for row in rows if known(allowed[row], rates[row])), key=lambda row: allowed[row]
            )
            pairs = list(itertools.pairwise(mine))
            if len(mine) > 2:
                pairs.append((mine[0], mine[-1]))
            for tight, loose in pairs:
                if allowed[loose] <= allowed[tight]:
                    continue
                ends = (tight, loose) == (mine[0], mine[-1])
                ratio = rates[loose] / rates[tight]
                if not known(ratio):
                    continue
                yield Step(
                    column, tight, loose, log(ratio) / log(allowed[loose] / allowed[tight]), ratio, ends
                )


Of = Callable[[Table, list[Step]], TableFinding | None]


def _of_limits(name: str, order: int) -> Callable[[Of], Of]:
    """Make a function of one table's steps a check of every table that has steps."""

    def keep(of: Of) -> Of:
        @table_check(name, order, "throughput, and a limit (cpus, cores, memory, workers …) that varies")
        def look(tables: Tables) -> Iterator[TableFinding | None]:
            for table in tables:
                if steps := list(_steps(table)):
                    yield None
                    yield of(table, steps)

        return of

    return keep


@_of_limits("limit-never-acted", 20)
def limit_never_acted(table: Table, steps: list[Step]) -> TableFinding | None:
    """Throughput that hardly follows a limit over all its levels: the factor did not act."""
    idle = [step for step in steps if step.ends and abs(step.elasticity) < limits.NEVER_ACTED]
    if not idle:
        return None
    worst = min(idle, key=lambda step: abs(step.elasticity))
    low, high = (table.columns[worst.column][row] for row in (worst.tight, worst.loose))
    sentence = (
        f"{table.row(worst.tight, _others(table, worst))}: {worst.column} from {high} to {low} changes "
        f"throughput by "
        f"{signed_percent(1 / worst.ratio - 1)} (elasticity {worst.elasticity:.2f}): the limit never acted"
        + (f"; the same in {len(idle)} groups of rows." if len(idle) > 1 else ".")
    )
    instead = (
        "A limit's usage and throttled time are read: one that never acted is named with each claim about it."
    )
    return finding(table, [row for step in idle for row in (step.loose, step.tight)], sentence, instead)


@_of_limits("smaller-limit-faster", 21)
def smaller_limit_faster(table: Table, steps: list[Step]) -> TableFinding | None:
    """A tighter limit that looks faster, with nothing that separates noise from effect."""
    odd = [step for step in steps if step.ratio < 1 / (1 + limits.NO_DIFFERENCE)]
    if not odd:
        return None
    worst = min(odd, key=lambda step: step.ratio)
    low, high = (table.columns[worst.column][row] for row in (worst.tight, worst.loose))
    sentence = (
        f"{table.row(worst.tight, _others(table, worst))}: {worst.column} {low} looks "
        f"{100 * (1 / worst.ratio - 1):.0f} % faster than {high}; "
        "one run per row shows neither that it is faster nor that there is no significant difference."
    )
    instead = "Replicates in randomised blocks; the minimum detectable effect is stated before the run."
    return finding(table, [row for step in odd for row in (step.tight, step.loose)], sentence, instead)


@_of_limits("elasticity-out-of-range", 22)
def elasticity_out_of_range(table: Table, steps: list[Step]) -> TableFinding | None:
    """Throughput that changes by more than a limit can explain, or in the opposite direction: something else
    changed with it."""
    low, high = limits.ELASTICITY
    odd = [step for step in steps if not low <= step.elasticity <= high]
    if not odd:
        return None
    worst = max(odd, key=lambda step: max(step.elasticity - high, low - step.elasticity))
    texts = [table.columns[worst.column][row] for row in (worst.loose, worst.tight)]
    sentence = (
        f"{table.row(worst.tight, _others(table, worst))}: {worst.column} from {texts[0]} to {texts[1]} has "
        f"elasticity {three_figures(worst.elasticity)}, outside [{low}, {high}]: more than the limit can "
        f"explain, so its effect is Unidentified; the same in {len(odd)} steps."
    )
    instead = (
        "Each trial proves its reset, so that nothing but the factor changes; such an elasticity "
        "is Unidentified."
    )
    return finding(table, [row for step in odd for row in (step.loose, step.tight)], sentence, instead)


def _others(table: Table, step: Step) -> list[str]:
    return [name for name in table.factors if name != step.column]
