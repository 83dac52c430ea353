"""Checks, one small file for each row of docs/method.md §3. All modules of this folder are loaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from svload.analysis.checks.base import Check, Context, Role

__all__ = ["Check", "Context", "all_checks", "role_of"]


@cache
def all_checks() -> tuple[Check, ...]:
    """Return every check of this folder, in the order in which people read them."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(
        sorted((kind() for kind in Check.__subclasses__()), key=lambda check: (check.order, check.name))
    )


def role_of(check: str) -> Role:
    """Return the role of the check of that name in a comparison; a check unknown to this version has no
    effect."""
    return _roles().get(check, "reported")


@cache
def _roles() -> dict[str, Role]:
    return {check.name: check.comparisons for check in all_checks()}
