"""Timing tests are marked, and repeated or reported as not run when the machine was busy."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.calm import MARK, NOT_ALL_RUN, Readings, Watch, disturbances
from tests.servers import completed, wait_until

ROOT = Path(__file__).resolve().parents[2]
QUIET = Readings(
    seconds=10.0, cores=2, others_s=0.5, stolen_s=0.1, waited_s=0.05, burst_s=0.02, slowed=1.2, unseen_s=1.0
)


@pytest.mark.parametrize(
    ("planted", "reply"),
    [
        ({}, None),
        ({"others_s": 3.0, "busiest": {"cargo": 2.0, "tar": 1.0}}, "used 0.3 of 2 cores: cargo, tar"),
        ({"stolen_s": 1.0}, "5 % to other guests"),
        ({"waited_s": 0.5}, "waited 5 % of the time"),
        ({"burst_s": 0.08}, "waited 80 ms at once"),
        ({"slowed": 2.0}, "took 2 times as long"),
        ({"unseen_s": 5.0}, "can't be seen used 0.5 of 2 cores"),
    ],
)
def test_each_disturbance_is_named_and_a_quiet_machine_has_none(
    planted: dict[str, Any], reply: str | None
) -> None:
    found = disturbances(replace(QUIET, **planted))
    assert len(found) == (reply is not None)
    assert reply is None or reply in found[0]


CODE = """
import os, sys, time
name, seconds, leaves = sys.argv[1:]
if leaves and os.fork(): os._exit(0)
if leaves: os.setsid()
if leaves and os.fork(): os._exit(0)
open("/proc/self/comm", "w").write(name)
open(name, "w").write(str(os.getpid()))
end = time.process_time() + float(seconds)
while time.process_time() < end: pass
open(name + ".done", "w").close()
"""


def burn(folder: Path, name: str, seconds: float, leaves: str, env: dict[str, str] | None = None) -> None:
    """Start a process that burns CPU; one that `leaves` leaves its family and session."""
    subprocess.run([sys.executable, "-c", CODE, name, str(seconds), leaves], cwd=folder, env=env, check=True)


@pytest.mark.truth
def test_the_tests_own_work_is_no_others_and_a_strangers_is(tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if key != MARK}
    burn(tmp_path, "stranger", 600, "leaves", clean)
    wait_until(lambda: (tmp_path / "stranger").exists() and (tmp_path / "stranger").read_text())
    watch = Watch()
    try:
        watch.begin()
        burn(tmp_path, "child", 0.3, "")
        burn(tmp_path, "daemon", 0.3, "leaves")
        wait_until((tmp_path / "daemon.done").exists)
        found = watch.end()
    finally:
        os.kill(int((tmp_path / "stranger").read_text()), signal.SIGKILL)
        watch.close()
        del os.environ[MARK]
    assert "stranger" in found.busiest
    assert not {"child", "daemon"} & found.busiest.keys()
    assert found.others_s >= found.busiest["stranger"] > 0


CONFTEST = """
import tests.calm
from tests.conftest import *
from tests.calm import Readings

SAID = {reply}

class Watch:
    def begin(self): pass
    def close(self): pass
    def end(self):
        return Readings(seconds=1.0, cores=2, others_s=1.0 if SAID and SAID.pop(0) == "busy" else 0.0)

tests.calm.Watch = Watch
tests.calm.LOOK_S = 0.0
"""
TESTS = """
import pytest

def add(name):
    with open(name, "a") as file:
        file.write("x")

@pytest.fixture(scope="module")
def made(): add("made")

@pytest.mark.timing
def test_quick(made): add("times")

@pytest.mark.timing
def test_late(made): assert False, "too late"

def test_other(): pass
"""


@pytest.mark.parametrize(
    ("reply", "wait_s", "code", "tally", "times", "made"),
    [
        ([], 60, 1, "1 failed, 1 passed", 1, 1),
        (["calm", "busy", "calm", "calm"], 60, 1, "1 failed, 1 passed", 2, 2),
        (["busy", "busy", "calm", "calm"], 60, 1, "1 failed, 1 passed", 1, 1),
        (["busy", "busy"], 0, NOT_ALL_RUN, "2 not run", 1, 2),
        (["calm", "busy"], 0, NOT_ALL_RUN, "1 not run", 1, 1),
    ],
    ids=["calm", "disturbed once", "waited for", "never calm", "no wait"],
)
@pytest.mark.truth
def test_what_was_disturbed_is_taken_again_and_nothing_else_is(
    tmp_path: Path, reply: list[str], wait_s: int, code: int, tally: str, times: int, made: int
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(reply=reply))
    (tmp_path / "test_sample.py").write_text(TESTS)
    words = ("-m", "pytest", "-p", "tests.calm", "-m", "timing", "-q", "--wait-calm", str(wait_s))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": ""}
    done = completed([sys.executable, *words], cwd=tmp_path, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert tally in done.stdout
    assert len((tmp_path / "times").read_text()) == times
    assert len((tmp_path / "made").read_text()) == made, "what a disturbed test made for others is made again"
    assert ("machine busy: other processes used 1 of 2 cores" in done.stdout) == (code == NOT_ALL_RUN)


CLOCKS = re.compile(r"time\.(monotonic|perf_counter|time)(_ns)?")
LASTED = re.compile(r"(^|_)(took|lasted|elapsed)(_|$)")
BOUND = re.compile(r"(^|_)(HANG_S|bound_s)$")
"""`bound_s` is a parameter of a wait, whose default is the common bound."""
WAITS = {"wait", "wait_until", "communicate", "join", "run", "check_output", "check_call", "call", "result"}
SHORTEST_S = 1.0
"""A smaller literal is an input of the test: nothing happens meanwhile, or a peer that never answers."""

Kind = Literal["", "stamp", "lasted", "deadline"]


class _Names(ast.NodeVisitor):
    """What names of a module hold that depends on a clock: a reading, a duration, a deadline. And its
    constants that are numbers."""

    def __init__(self, tree: ast.Module) -> None:
        self.kinds: dict[str, Kind] = {}
        self.numbers = {
            ast.unparse(node.targets[0]): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and type(node.value.value) in (int, float)
        }
        before = None
        while self.kinds != before:  # values computed from values that are computed from a reading
            before = dict(self.kinds)
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
    """Return line and reason of each comparison or wait that depends on the machine's speed without the
    mark."""
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
    """Return why this call waits with a bound of its own; "" if it does not."""
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


ELSEWHERE = {"fuzz", "vm", "calm.py"}
"""Programs with tests of their own, and what runs these."""
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


@pytest.mark.parametrize("name", [*PLANTED, *CLEAN])
def test_a_planted_comparison_is_found_and_a_clean_test_is_not(name: str) -> None:
    assert bool(list(clock_comparisons((PLANTED | CLEAN)[name]))) is (name in PLANTED)
