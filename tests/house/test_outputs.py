"""What leaves svload for a place that a user names is written beside and renamed, by one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"
ROOMS = ("api", "cli", "drive", "host", "lab", "report", "run", "store", "watch")
KERNEL = "a file of the kernel"
OTHERWISE = {
    "api/certificates.py": (1, "a study in a folder that only this command knows"),
    "api/load.py": (2, "a study in a folder that only this command knows"),
    "host/agent/client.py": (
        2,
        "who an agent's owner is, beside and renamed, known by its name after a kill",
    ),
    "host/agent/files.py": (2, "a file that comes in parts, beside and renamed"),
    "host/agent/journal.py": (1, KERNEL),
    "host/agent/links.py": (1, KERNEL),
    "host/agent/serve.py": (2, "a file of the agent's owner, beside and renamed"),
    "host/agent/settings.py": (2, KERNEL),
    "host/machine/delay_line.py": (1, "memory that two processes share"),
    "host/machine/fabric.py": (1, KERNEL),
    "host/machines/cluster.py": (1, "a child's log"),
    "host/process/cgroups.py": (11, KERNEL),
    "host/process/disk_rates.py": (2, KERNEL),
    "host/process/forks.py": (1, "/dev/null"),
    "host/process/warm.py": (1, "a child's log"),
    "lab/authority.py": (1, "a key, made where no file is"),
    "lab/builds.py": (1, "a file that is locked"),
    "lab/files.py": (1, "in a new folder that is renamed"),
    "lab/images.py": (1, "in a new folder that is renamed"),
    "run/kept.py": (2, "a child's log, and a file that is locked"),
    "store/foreign/run.py": (2, "a study in a folder that only this command knows"),
    "store/layout.py": (1, "a link, made beside and renamed"),
    "store/pack.py": (2, "files within an archive, and a folder unpacked where none was"),
}
"""How many writes a file has that need no other, and why."""


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
                isinstance(word, str) and word[:1] in ("w", "x") and len(word) <= 3 for word in words
            ):
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
    text = "open(path)\npath.open('rb')\npath.open(newline='')\nwrite_output(path, text)"
    assert not list(writes(text))
