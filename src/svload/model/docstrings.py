"""Docstrings of constants and class fields, which Python does not keep: strings on the lines after them, read
from the source.

Only what describes svload (JSON Schemas, the reference) reads them; other commands spend no time on them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path


@cache
def of_constants(path: Path) -> dict[str, str]:
    """Return a module's constants that are followed by a docstring, in order, with it."""
    return _documented(_parsed(path).body)


@cache
def of_fields(of: type) -> dict[str, str]:
    """Return the fields of a class and its bases that are followed by a docstring, with it."""
    found: dict[str, str] = {}
    for one in reversed(of.__mro__):
        if one.__module__.partition(".")[0] not in ("builtins", "pydantic"):
            found |= _documented(_body(one))
    return found


def _body(of: type) -> Sequence[ast.stmt]:
    found = ast.walk(_parsed(Path(inspect.getfile(of))))
    return next((one.body for one in found if isinstance(one, ast.ClassDef) and one.name == of.__name__), ())


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _documented(body: Sequence[ast.stmt]) -> dict[str, str]:
    return {
        name: " ".join(str(after.value.value).split())
        for one, after in pairwise(body)
        if (name := _name(one)) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def _name(one: ast.stmt) -> str | None:
    """Return the name that an assignment to one name binds."""
    target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
    return (
        target.id if isinstance(one, (ast.Assign, ast.AnnAssign)) and isinstance(target, ast.Name) else None
    )
