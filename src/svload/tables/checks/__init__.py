"""Checks of finished tables of results, such as those in papers: contradictions that a table shows without
other data. Pure; all modules of this folder are loaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from svload.tables.checks.base import CHECKS, TableCheck, Tables
from svload.tables.table import TableCheckResult


@cache
def all_table_checks() -> tuple[TableCheck, ...]:
    """Return every check of this folder, in the order in which people read them."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(sorted(CHECKS, key=lambda check: (check.order, check.name)))


def judge_tables(tables: Tables) -> tuple[TableCheckResult, ...]:
    """Run every check over all tables together."""
    return tuple(_result(check, tables) for check in all_table_checks())


def _result(check: TableCheck, tables: Tables) -> TableCheckResult:
    seen = list(check.look(tables))
    found = tuple(one for one in seen if one is not None)
    if not seen:
        return TableCheckResult(check.name, False, f"Not measured: it needs {check.needs}.")
    return TableCheckResult(check.name, True, found[0].sentence if found else "Nothing found.", found)
