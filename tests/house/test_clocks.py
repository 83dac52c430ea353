"""Tests that compare a clock's readings carry the mark ``timing``; waits for what must happen share one bound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLOCKS = re.compile(r"time\.(monotonic|perf_counter|time)(_ns)?")
LASTED = re.compile(r"(^|_)(took|lasted|elapsed)(_|$)")
BOUND = re.compile(r"(^|_)(HANG_S|bound_s)$")
"""`bound_s` is a parameter of a wait, whose default is the one bound."""
WAITS = {"wait", "wait_until", "communicate", "join", "run", "check_output", "check_call", "call", "result"}
SHORTEST_S = 1.0
"""A literal below this is an input of the test: nothing happens meanwhile, or a peer that never answers."""

Kind = Literal["", "stamp", "lasted", "deadline"]


class _Names(ast.NodeVisitor):
    """What names of a module hold of a clock: a reading, a time that something took, a time until something ends.
    And its constants that are numbers."""

    def __init__(self, tree: ast.Module) -> None:
        self.kinds: dict[str, Kind] = {}
        self.numbers = {
            ast.unparse(node.targets[0]): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and type(node.value.value) in (int, float)
        }
        for _ in range(3):  # what is made of what is made of a reading
            self.visit(tree)

    def kind(self, node: ast.AST) -> Kind:
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if CLOCKS.fullmatch(called):
                return "stamp"
            if called in ("round", "abs", "float", "int", "min", "max", "sum", "median", "sorted"):
                return next((found for one in node.args if (found := self.kind(one))), "")
            return self.kinds.get(called.rpartition(".")[2], "")
        if isinstance(node, ast.BinOp):
            left, right = self.kind(node.left), self.kind(node.right)
            if "stamp" in (left, right):
                if isinstance(node.op, ast.Sub):
                    return "lasted"
                return "stamp" if _bounded(node) else "deadline"
            return left or right
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            return self.kinds.get(name, "lasted" if LASTED.search(name) else "")
        if isinstance(node, (ast.Tuple, ast.List)):
            return next((found for one in node.elts if (found := self.kind(one))), "")
        return ""

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name) and (found := self.kind(value)):
                    self.kinds[name.id] = found

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        if found := self.kind(node.value):
            self.kinds[node.target.id] = found

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Name(name), "append"), [held]) if self.kind(held) == "lasted":
                self.kinds[name] = "lasted"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.generic_visit(node)
        for one in ast.walk(node):
            if isinstance(one, ast.Return) and one.value and self.kind(one.value) == "lasted":
                self.kinds[node.name] = "lasted"


def _bounded(node: ast.AST) -> bool:
    return any(
        BOUND.search(one.id if isinstance(one, ast.Name) else one.attr)
        for one in ast.walk(node)
        if isinstance(one, (ast.Name, ast.Attribute))
    )


def _marked(nodes: list[ast.expr]) -> bool:
    return any("mark.timing" in ast.unparse(node) for node in nodes)


def clock_comparisons(text: str) -> Iterator[tuple[int, str]]:
    """Line and reason of each comparison or wait that depends on the machine's speed without the mark."""
    tree = ast.parse(text)
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name("pytestmark")], marks) if _marked([marks]):
                return
    yield from _unmarked(tree, _Names(tree))


def _unmarked(tree: ast.AST, names: _Names) -> Iterator[tuple[int, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and _marked(node.decorator_list):
            continue
        if isinstance(node, ast.Compare) and _of_speed(node, names):
            yield node.lineno, f"compares a clock's readings: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and (wait := _own_bound(node, names.numbers)):
            yield node.lineno, wait
        yield from _unmarked(node, names)


def _of_speed(node: ast.Compare, names: _Names) -> bool:
    if _bounded(node) or isinstance(node.ops[0], ast.Eq):
        return False
    return bool({names.kind(one) for one in (node.left, *node.comparators)} & {"lasted", "deadline"})


def _own_bound(node: ast.Call, numbers: dict[str, float]) -> str:
    """Why this call waits with a bound of its own; "" if it does not."""
    name = ast.unparse(node.func).rpartition(".")[2]
    given = [word.value for word in node.keywords if word.arg in ("timeout", "bound_s")]
    if name in WAITS - {"run", "check_output", "check_call", "call", "communicate"}:
        given += node.args[1:2] if name == "wait_until" else node.args[:1]
    for one in given:
        number = one.value if isinstance(one, ast.Constant) else numbers.get(ast.unparse(one))
        if type(number) in (int, float) and number >= SHORTEST_S and "clock" not in ast.unparse(node.func):
            return f"waits with a bound of its own, not HANG_S: {ast.unparse(node)[:80]}"
    if name == "timeout" and "mark.timeout" in ast.unparse(node.func):
        return f"has a limit of its own: {ast.unparse(node)}"
    return ""


ELSEWHERE = {"fuzz", "vm", "calm.py", "shared.py"}
"""Programs that run tests of their own, and what runs these."""
FILES = sorted(path for path in (ROOT / "tests").rglob("*.py") if not ELSEWHERE & set(path.parts))


def test_no_unmarked_test_depends_on_the_machines_speed() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {why}"
        for path in FILES
        for line, why in clock_comparisons(path.read_text())
    ]
    assert not found, "\n".join(found)


PLANTED = {
    "a difference": "def test_it():\n    began = time.monotonic()\n    act()\n    assert time.monotonic() - began < 5",
    "a name": "def test_it():\n    took_s = act()\n    assert took_s < 5",
    "a list": "def test_it():\n    all = []\n    all.append(time.time() - 1)\n    assert max(all) < 2",
    "a helper": "def seconds():\n    return time.perf_counter() - began\n\ndef test_it():\n    assert seconds() < 1",
    "a deadline": "def test_it():\n    until = time.monotonic() + 5\n    while time.monotonic() < until: pass",
    "its own wait": "def test_it():\n    wait_until(holds, 20.0)",
    "its own end": "def test_it():\n    subprocess.run(words, timeout=30)",
    "its own limit": "@pytest.mark.timeout(120)\ndef test_it(): pass",
}
CLEAN = {
    "marked": "@pytest.mark.timing\n" + PLANTED["a difference"],
    "a marked file": "pytestmark = [pytest.mark.real, pytest.mark.timing]\n" + PLANTED["a difference"],
    "order": "def test_it():\n    before = time.monotonic_ns()\n    assert before <= act() <= time.monotonic_ns()",
    "a hang": "def test_it():\n    until = time.monotonic() + HANG_S\n    while time.monotonic() < until: pass",
    "a parameter": "def wait(bound_s):\n    until = time.monotonic() + bound_s\n    assert time.monotonic() < until",
    "an input": "def test_it():\n    assert not event.wait(0.2)",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_comparison_is_found(name: str) -> None:
    assert list(clock_comparisons(PLANTED[name]))


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_test_is_not(name: str) -> None:
    assert not list(clock_comparisons(CLEAN[name]))
