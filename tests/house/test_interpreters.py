"""Every Python child is started in one place, and none imports from the folder in which the user stands."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.host.process.interpreter import child_environment

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"
ALLOWED = {"host/process/interpreter.py", "fleet/on_host/machine.py"}
"""The one place, and what runs on a machine before svload is there (it has -I)."""


def interpreters(tree: ast.Module) -> Iterator[int]:
    """Lines that name the running interpreter, or begin a command with a word for one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "sys.executable",
            "sys._base_executable",
        ):
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
    ("given", "kept"),
    [(":/opt/lib", "/opt/lib"), (".", None), ("lib:/a:../b:/c", "/a:/c"), ("", None)],
)
def test_a_path_that_means_the_current_folder_is_left_out(
    given: str, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", given)
    assert child_environment().get("PYTHONPATH") == kept


NAMES = (
    "csv",
    "typing",
    "json",
    "dataclasses",
    "selectors",
    "svload",
    "numpy",
    "pydantic",
    "encodings",
    "sitecustomize",
)


@pytest.mark.truth
@pytest.mark.parametrize("path", [None, ":", "."], ids=["no path", "an empty part", "a relative part"])
def test_a_folder_of_a_stranger_runs_nothing(
    path: str | None, tmp_path: Path, serve_truth: Callable[..., dict[str, Any]]
) -> None:
    """Modules with the names of what svload imports, in the folder where a load and a lab are started."""
    folder, ran = tmp_path / "theirs", tmp_path / "ran"
    folder.mkdir()
    for name in NAMES:
        text = f"import os\nopen({str(ran)!r}, 'a').write('{name} in %d\\n' % os.getpid())\nraise SystemExit(97)\n"
        (folder / f"{name}.py").write_text(text)
    study = {
        "name": "lab",
        "lab": {"store": {"kit": "truth"}},
        "requests": {"get": {"get": "http://store/bytes/10"}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "get"}},
        "measure": {"duration": "0.2s"},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"SVLOAD_STATE": str(tmp_path / "state"), "SVLOAD_LOCK": str(tmp_path / "lock")}
    # The command itself is started by its user, with an import path of theirs; what it starts is svload's.
    starter = (
        "import os, sys; from svload.cli.main import run; os.environ.update(eval(sys.argv.pop(1))); run()"
    )
    changed = repr({} if path is None else {"PYTHONPATH": path})
    url = f"http://127.0.0.1:{serve_truth()['http_port']}/bytes/10"
    for words in (
        ("load", url, "-d", "0.2s"),
        ("lab", "up", "study.yaml", "--for", "1min"),
        ("lab", "down"),
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-c", starter, changed, *words],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert not ran.exists(), (words, ran.read_text(), done.stderr)
        assert "Traceback" not in done.stderr and "[internal]" not in done.stderr, done.stderr
