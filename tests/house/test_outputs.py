"""Rules for the whole source: who writes outputs and starts interpreters, import cycles, environment
variables."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from tests.servers import completed

from svload.host.process.interpreter import child_environment
from svload.model.environment import OWN, VARIABLES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"
ROOMS = ("api", "cli", "drive", "host", "lab", "report", "run", "store", "watch")
KERNEL = "a file of the kernel"
OTHERWISE = {
    "api/certificates.py": (1, "a study in a folder that only this command knows"),
    "api/load.py": (2, "a study in a folder that only this command knows"),
    "host/agent/client.py": (2, "an agent's owner, beside and renamed, known by its name after a kill"),
    "host/agent/files.py": (2, "a file that comes in parts, beside and renamed"),
    "host/agent/journal.py": (1, KERNEL),
    "host/agent/links.py": (1, KERNEL),
    "host/agent/settings.py": (1, KERNEL),
    "host/machine/delay_line.py": (1, "memory that two processes share"),
    "host/machine/fabric.py": (1, KERNEL),
    "host/machines/cluster.py": (1, "a child's log"),
    "host/process/cgroups.py": (11, KERNEL),
    "host/process/disk_rates.py": (2, KERNEL),
    "host/process/forks.py": (1, "/dev/null"),
    "host/process/warm.py": (1, "a child's log"),
    "lab/authority.py": (1, "a key, made where no file is"),
    "lab/builds.py": (1, "a file that is locked"),
    "lab/files.py": (2, "a file that is locked, and files in a new folder that is renamed"),
    "lab/kits/swift.py": (1, "a file that is locked"),
    "run/kept.py": (2, "a child's log, and a file that is locked"),
    "store/foreign/run.py": (2, "a study in a folder that only this command knows"),
    "store/layout.py": (1, "a link, made beside and renamed"),
    "store/pack.py": (2, "files within an archive, and a folder unpacked where none was"),
}
"""How many plain writes each file may have, and why."""


def writes(source: str) -> Iterator[str]:
    """Yield calls that write a file or replace one by another."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name.endswith((".write_text", ".write_bytes", "os.replace", "os.rename")):
            yield f"line {node.lineno}: {name}"
        if (name == "open" or name.endswith(".open")) and not name.startswith("fresh."):
            given = (*node.args, *(word.value for word in node.keywords))
            if any(re.fullmatch("[wx].?.?", str(getattr(one, "value", ""))) for one in given):
                yield f"line {node.lineno}: {name}"


def test_one_module_writes_outputs() -> None:
    found = {
        str(path.relative_to(SOURCE)): list(writes(path.read_text(encoding="utf-8")))
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
    }
    known = {name: count for name, (count, _) in OTHERWISE.items()}
    assert {name: lines for name, lines in found.items() if len(lines) != known.get(name, 0)} == {}
    assert set(OTHERWISE) <= set(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("path.write_text(text)", 1),
        ("(folder / 'x.csv').write_bytes(data)", 1),
        ("open(path, 'w')", 1),
        ("path.open('wb')", 1),
        ("os.replace(a, b)", 1),
        ("open(path)\npath.open('rb')\npath.open(newline='')\nwrite_output(path, text)", 0),
    ],
)
def test_the_lint_finds_a_planted_write_and_leaves_reading_alone(text: str, count: int) -> None:
    assert len(list(writes(text))) == count


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements in it, except those that only types need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.expr):
            yield from statements(node)


def imported(tree: ast.Module, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of ours that are imported anywhere in it, except those that only types need."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def circle(modules: dict[str, Path]) -> list[str]:
    """Return one cycle, or nothing."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    needs = {name: (modules.keys() & imported(tree, modules)) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle() -> None:
    paths = {path.relative_to(SOURCE.parent).with_suffix(""): path for path in SOURCE.rglob("*.py")}
    assert (
        circle({".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}) == []
    )


@pytest.mark.parametrize("line", ["from svload.b import y", "def f():\n    from svload import b"])
def test_a_planted_circle_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    (tmp_path / "b.py").write_text("import svload.a")
    assert circle({"svload.a": tmp_path / "a.py", "svload.b": tmp_path / "b.py"})


def test_the_catalogue_is_what_the_code_reads() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    named = Counter(name for text in texts for name in re.findall(r'"(SVLOAD_[A-Z_]+)"', text))
    assert set(named) == {name for name in VARIABLES if name.startswith("SVLOAD_")} | set(OWN)
    assert [name for name, count in named.items() if count < 2] == [], "listed, but nowhere read"


EXECUTABLES = ("sys.executable", "sys._base_executable")
ALLOWED = {"host/process/interpreter.py", "fleet/on_host/machine.py"}
"""The only such place, and what runs on a machine before svload is installed (it has -I)."""


def interpreters(tree: ast.Module) -> Iterator[int]:
    """Yield lines that name the running interpreter, or begin a command with a word for one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in EXECUTABLES:
            yield node.lineno
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
            words = [one.value for one in node.elts if isinstance(one, ast.Constant)]
            if "-m" in words and any(isinstance(word, str) and word.startswith("svload.") for word in words):
                yield node.lineno


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import sys\ncommand = [sys.executable, 'x.py']", [2]),
        ("run(('/usr/bin/python3', '-m', 'svload.watch.sampler'))", [1]),
        ("run(python('-m', 'svload.watch.sampler'))", []),
    ],
)
def test_the_lint_finds_them(text: str, lines: list[int]) -> None:
    assert list(interpreters(ast.parse(text))) == lines


def test_no_other_place_starts_an_interpreter() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for line in interpreters(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("given", "kept"), [(":/opt/lib", "/opt/lib"), (".", None), ("lib:/a:../b:/c", "/a:/c"), ("", None)]
)
def test_the_current_folder_is_skipped(given: str, kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", given)
    assert child_environment().get("PYTHONPATH") == kept


STANDARD = ("csv", "typing", "json", "dataclasses", "selectors", "encodings", "sitecustomize")
STUDY = """\
name: lab
lab: {store: {kit: truth}}
traffic: {users: {executor: constant-vus, vus: 1, request: GET http://store/bytes/10}}
measure: {duration: 0.2s}
"""
NAMES = (*STANDARD, "svload", "numpy", "pydantic")


@pytest.mark.truth
@pytest.mark.parametrize("path", [None, ":."], ids=["no path", "an empty and a relative part"])
def test_modules_in_the_current_folder_are_not_imported(
    path: str | None, tmp_path: Path, serve_truth: Callable[..., dict[str, Any]]
) -> None:
    """Modules with the names of svload's imports lie in the folder where a load and a lab are started."""
    folder, ran = tmp_path / "theirs", tmp_path / "ran"
    folder.mkdir()
    for name in NAMES:
        text = f"import os\nopen({str(ran)!r}, 'a').write('{name} in %d\\n' % os.getpid())\nraise SystemExit(97)\n"
        (folder / f"{name}.py").write_text(text)
    (folder / "study.yaml").write_text(STUDY)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"SVLOAD_STATE": str(tmp_path / "state"), "SVLOAD_LOCK": str(tmp_path / "lock")}
    # The command itself is started by its user, with the user's import path; what it starts is svload's.
    starter = (
        "import os, sys; from svload.cli.main import run; os.environ.update(eval(sys.argv.pop(1))); run()"
    )
    changed = repr({} if path is None else {"PYTHONPATH": path})
    url = f"http://127.0.0.1:{serve_truth()['http_port']}/bytes/10"
    for words in (("load", url, "-d", "0.2s"), ("lab", "up", "study.yaml", "--for", "1min"), ("lab", "down")):
        command = [sys.executable, "-P", "-c", starter, changed, *words]
        done = completed(command, cwd=folder, env=environment)
        assert not ran.exists(), (words, ran.read_text(), done.stderr)
        assert "Traceback" not in done.stderr and "[internal]" not in done.stderr, done.stderr
