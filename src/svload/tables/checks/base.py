"""The contract of a check of tables: one mistake that numbers can show by themselves. A new check is a
new class here beside the others."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from svload.model.units import parse_quantity, show_percent
from svload.tables.table import Number, Table, TableFinding

Tables = Sequence[Table]


class TableCheck(ABC):
    """Looks for one mistake in finished tables. `needs` says, as a clause, which columns or facts it reads.

    A check is pure and never raises for a table that could be read. Where no table holds what it
    reads it gives None: not measured.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    order: ClassVar[int] = 50

    def judge(self, tables: Tables) -> list[TableFinding] | None:
        """What it found, [] where it looked and found nothing; None where it could not look."""
        seen = list(self.look(tables))
        return [one for one in seen if one is not None] if seen else None

    @abstractmethod
    def look(self, tables: Tables) -> Iterator[TableFinding | None]:
        """Each finding, and None for each place where it looked."""

    def finding(self, table: Table, rows: Iterable[int], sentence: str, instead: str) -> TableFinding:
        """A finding of this check on rows (from 0) of a table."""
        lines = tuple(table.lines[row] for row in rows)
        place = f"{table.path}:{lines[0]}" if lines else table.path
        return TableFinding(table.name, place, lines, sentence, instead)


def groups_of(table: Table, without: str) -> dict[tuple[str, ...], list[int]]:
    """Rows that differ in the factor `without` alone, by their other factors."""
    others = [name for name in table.factors if name != without]
    found: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(table)):
        found.setdefault(tuple(table.columns[name][row] for name in others), []).append(row)
    return found


def known(*values: float) -> bool:
    """Whether all are numbers above 0."""
    return all(math.isfinite(value) and value > 0 for value in values)


def users_of(table: Table) -> list[float] | None:
    """Users of the closed loop by row: a column's, else the one number that is given; None where
    neither is, or the loop is open."""
    if table.about.given.load == "open":
        return None
    return table.quantity("users") or _given(table, table.about.given.users, "count")


def think_of(table: Table) -> list[float] | None:
    """Think time by row in s: a column's, else the one that is given."""
    return table.quantity("think") or _given(table, table.about.given.think_time, "time_s")


def run_time_of(table: Table) -> list[float] | None:
    """How long each row was measured, in s: a column's, else the time that is given."""
    return table.quantity("run_time") or _given(table, table.about.given.run_time, "time_s")


def _given(table: Table, value: Number | None, dimension: str) -> list[float] | None:
    said = given(value, dimension)
    return None if said is None else [said] * len(table)


def given(value: Number | None, dimension: str) -> float | None:
    """A given quantity in base units; None where none was given. Raises ValueError for one without a
    sense, which reading has refused."""
    if value is None:
        return None
    return parse_quantity(value, dimension)  # type: ignore[arg-type]


def signed_percent(share: float) -> str:
    """Return a relative deviation with its sign: `+19 %`, `−5.9 %`."""
    return f"{'+' if share >= 0 else '−'}{show_percent(abs(share), 2)}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 3 more`."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
