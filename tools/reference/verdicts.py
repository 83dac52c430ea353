"""Verdicts: every check with its docstring, every limit with its value."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

from reference.markdown import code, page, sentence, table

TITLE = "Verdicts: checks and limits"


def make() -> str:
    from svload.analysis import checks, limits, server

    rows = [(code(check.name), sentence(type(check).__doc__)) for check in checks.all_checks()]
    stated = [
        (code(name), code(str(getattr(limits, name))), text)
        for name, text in _documented(Path(limits.__file__))
    ]
    return page(
        "Verdicts",
        "Two on every trial. The **instrument** has the worst grade of its checks; `svload why TRIAL` prints each with its sentence. "
        "[method.md](../method.md) says why.\n",
        table(
            ("instrument", "means"),
            [
                ("VALID", "believe the number"),
                ("WEAK", "usable; the reason is told wherever the number stands"),
                ("REFUSED", "the number is kept and drawn hatched; its block is out of every comparison"),
            ],
        ),
        "## Checks of the instrument\n",
        table(("check", "what it judges"), rows),
        "## The server\n",
        sentence((server.__doc__ or "").partition("\n")[2]) + "\n",
        "## Limits\n",
        "Pairs are (WEAK, REFUSED). Shares are of 1, times in ns where the name says so.\n",
        table(("limit", "value", "meaning"), stated),
    )


def _documented(path: Path) -> list[tuple[str, str]]:
    """The constants of a module that are followed by their docstring."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = []
    for one, after in pairwise(body):
        named = isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found.append((one.targets[0].id, sentence(str(after.value.value))))
    return found
