"""No module of the house needs itself through others, not even late: what each is, can be read without the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_name(path): path for path in SRC.rglob("*.py")}


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements in it, but for those that types alone need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.expr):
            yield from statements(node)


def imported(tree: ast.Module, known: dict[str, Path]) -> Iterator[str]:
    """Modules of ours that are imported anywhere in it, but for those that types alone need."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def circle(modules: dict[str, Path]) -> list[str]:
    """One circle, or nothing."""
    needs = {
        name: {
            one for one in imported(ast.parse(path.read_text(encoding="utf-8")), modules) if one in modules
        }
        - {name}
        for name, path in modules.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle() -> None:
    assert circle(MODULES) == []


@pytest.mark.parametrize("line", ["from svload.b import y", "def f():\n    from svload import b"])
def test_a_planted_circle_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    (tmp_path / "b.py").write_text("import svload.a")
    assert circle({"svload.a": tmp_path / "a.py", "svload.b": tmp_path / "b.py"})
