"""The rows of docs/method.md §3, one small file each. They are found by looking into this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from svload.analysis.checks.base import Check, Context

__all__ = ["Check", "Context", "all_checks"]


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check of this folder, in the order in which people read them."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(
        sorted((kind() for kind in Check.__subclasses__()), key=lambda check: (check.order, check.name))
    )
