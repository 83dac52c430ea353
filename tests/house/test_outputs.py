"""What leaves svload for a place that a user names is written beside and renamed, by one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"
ROOMS = ("api", "report", "store")
OTHERWISE = {
    "api/load.py": "a study in a folder that only this command knows",
    "api/certificates.py": "a study in a folder that only this command knows",
    "store/foreign/run.py": "a study in a folder that only this command knows",
    "store/layout.py": "a link, made beside and renamed",
    "store/pack.py": "files within an archive, and a folder unpacked where none was",
}


def writes(source: str) -> Iterator[str]:
    """Calls that write a file or put one in another's place."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name.endswith((".write_text", ".write_bytes", "os.replace", "os.rename")):
            yield f"line {node.lineno}: {name}"
        if name == "open" or name.endswith(".open"):
            words = [
                one.value
                for one in (*node.args, *(word.value for word in node.keywords))
                if isinstance(one, ast.Constant)
            ]
            beside = name.startswith("fresh.")
            if not beside and any(
                isinstance(word, str) and word[:1] in "wx" and len(word) <= 3 for word in words
            ):
                yield f"line {node.lineno}: {name}"


def test_one_module_writes_outputs() -> None:
    found = {
        name: list(writes(path.read_text(encoding="utf-8")))
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
        if (name := str(path.relative_to(SOURCE))) not in OTHERWISE
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "path.write_text(text)",
        "(folder / 'x.csv').write_bytes(data)",
        "open(path, 'w')",
        "path.open('wb')",
        "os.replace(a, b)",
    ],
)
def test_the_lint_finds_a_planted_write(planted: str) -> None:
    assert list(writes(planted))


def test_the_lint_leaves_reading_alone() -> None:
    assert not list(writes("open(path)\npath.open('rb')\nwrite_output(path, text)"))
