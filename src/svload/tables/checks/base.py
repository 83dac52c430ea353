"""The contract of a check of tables: one mistake that numbers alone can show. A new check is a new function
in a module beside this one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from svload.model.units import parse_quantity, show_percent
from svload.tables.table import Number, Table, TableFinding

Tables = Sequence[Table]


Look = Callable[[Tables], Iterator[TableFinding | None]]
CHECKS: list[TableCheck] = []


@dataclass(frozen=True)
class TableCheck:
    """A search for one mistake in finished tables. `needs` names, as a clause, the columns or facts that it
    reads.

    `look` yields None for each place that it checks, and each finding: nothing where no table holds what it
    reads. It is pure and never raises for a table that could be read.
    """

    name: str
    order: int
    needs: str
    look: Look


def table_check(name: str, order: int, needs: str) -> Callable[[Look], Look]:
    """Make a function the check of this name; people read checks in ascending `order`."""

    def keep(look: Look) -> Look:
        CHECKS.append(TableCheck(name, order, needs, look))
        return look

    return keep


def finding(table: Table, rows: Iterable[int], sentence: str, instead: str) -> TableFinding:
    """Return a finding on rows (from 0) of a table."""
    lines = tuple(table.lines[row] for row in rows)
    place = f"{table.path}:{lines[0]}" if lines else table.path
    return TableFinding(table.name, place, lines, sentence, instead)


def groups_of(table: Table, without: str) -> dict[tuple[str, ...], list[int]]:
    """Group rows that differ in the factor `without` alone, by their other factors."""
    others = [name for name in table.factors if name != without]
    found: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(table)):
        found.setdefault(tuple(table.columns[name][row] for name in others), []).append(row)
    return found


def known(*values: float) -> bool:
    """Return whether all are numbers above 0."""
    return all(math.isfinite(value) and value > 0 for value in values)


def users_of(table: Table) -> list[float] | None:
    """Return the users of the closed loop by row: a column's, else the one number that is given; None where
    there is neither, or the loop is open."""
    if table.about.given.load == "open":
        return None
    return table.quantity("users") or _given(table, table.about.given.users, "count")


def think_of(table: Table) -> list[float] | None:
    """Return the think time by row in s: a column's, else the one that is given."""
    return table.quantity("think") or _given(table, table.about.given.think_time, "time_s")


def run_time_of(table: Table) -> list[float] | None:
    """Return how long each row was measured, in s: a column's, else the time that is given."""
    return table.quantity("run_time") or _given(table, table.about.given.run_time, "time_s")


def _given(table: Table, value: Number | None, dimension: str) -> list[float] | None:
    text = given(value, dimension)
    return None if text is None else [text] * len(table)


def given(value: Number | None, dimension: str) -> float | None:
    """Return a given quantity in base units; None where none was given. Raises ValueError for one that makes
    no sense, which reading has already refused."""
    if value is None:
        return None
    return parse_quantity(value, dimension)  # type: ignore[arg-type]


def signed_percent(share: float) -> str:
    """Return a relative deviation with its sign: `+19 %`, `−5.9 %`."""
    return f"{'+' if share >= 0 else '−'}{show_percent(abs(share), 2)}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """Return `a, b, c and 3 more`."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
