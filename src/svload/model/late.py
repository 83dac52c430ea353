"""Names of a package that are loaded when first used, so that commands only load what they need."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def late(package: str) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562) for the names that it imports under `if TYPE_CHECKING:`."""

    def find(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"{package} has no {name!r}")
        return getattr(import_module(home), name)

    return find


@cache
def _homes(package: str) -> dict[str, str]:
    """Return name → module, read from the package's source when the first name is used."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
    guarded = [node for block in tree.body if isinstance(block, ast.If) for node in block.body]
    return {
        name.name: str(node.module)
        for node in guarded
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
