"""Names of a room that are loaded when first used, so that no command pays for what it does not need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A package's `__getattr__` (PEP 562). `homes`: module of the package → names that it holds."""
    home = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"{package} has no {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return find
