"""Checks of finished tables of results, such as papers print: what a table contradicts by itself. Pure;
found by looking into this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from svload.tables.checks.base import TableCheck, Tables
from svload.tables.table import TableCheckResult

__all__ = ["TableCheck", "all_table_checks", "judge_tables"]


@cache
def all_table_checks() -> tuple[TableCheck, ...]:
    """Every check of this folder, in the order in which people read them."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(
        sorted((kind() for kind in TableCheck.__subclasses__()), key=lambda check: (check.order, check.name))
    )


def judge_tables(tables: Tables) -> tuple[TableCheckResult, ...]:
    """Every check over all tables together."""
    return tuple(_result(check, check.judge(tables)) for check in all_table_checks())


def _result(check: TableCheck, found: object) -> TableCheckResult:
    if not isinstance(found, list):
        return TableCheckResult(check.name, False, f"Not measured: it needs {check.needs}.")
    if found:
        return TableCheckResult(check.name, True, found[0].sentence, tuple(found))
    return TableCheckResult(check.name, True, "Nothing found.")
