"""The rows of docs/method.md §3, one small file each. They are found by looking into this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from svload.analysis.checks.base import Check, Context, Role

__all__ = ["Check", "Context", "all_checks", "role_of"]


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check of this folder, in the order in which people read them."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(
        sorted((kind() for kind in Check.__subclasses__()), key=lambda check: (check.order, check.name))
    )


def role_of(check: str) -> Role:
    """What the check of that name does to a comparison; one that this version does not know does nothing."""
    return _roles().get(check, "told")


@cache
def _roles() -> dict[str, Role]:
    return {check.name: check.comparisons for check in all_checks()}
