"""Hold the size of the code to tools/budget.csv.

budget.py           exit 1 and list each room that exceeds its budget
budget.py --write   set every budget to the present counts

A room is a folder of src/svload or tests, or one of benches, tools and engine. Counts are of statements (docstrings
aside), lines, lines over 110 columns and `fmt: skip`; in src/svload also modules of at most 60 lines that one module
imports, and public functions that no code outside tests calls. A change that has to raise a budget says why.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "budget.csv"
COUNTED = ("statements", "lines", "wide", "skips", "small", "uncalled")
WIDE, SMALL = 110, 60
FOUND_BY_SCANNING = ("analysis/checks", "api", "cli/commands", "lab/kits", "tables/checks", "watch/monitors")  # fmt: skip
"""Folders of src/svload whose modules need not be imported by name, and the API, whose callers are users."""
_CALLERS = ("src", "benches", "tools", "studies", "examples")
_SKIP = re.compile(r"# fmt: " + "skip")

Counts = dict[str, Counter[str]]


def measure(root: Path = ROOT) -> tuple[Counts, list[str]]:
    """Return the counts of each room, and the names behind `small` and `uncalled`."""
    found: Counts = defaultdict(Counter)
    trees = {path: ast.parse(path.read_text("utf-8")) for path in _sources(root, ".py")}
    for path, tree in trees.items():
        lines = path.read_text("utf-8").splitlines()
        found[_room(root, path)].update(
            statements=sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(tree)),
            lines=len(lines),
            wide=sum(len(line) > WIDE for line in lines),
            skips=sum(bool(_SKIP.search(line)) for line in lines),
        )
    for path in (root / "engine").rglob("*.rs"):
        if "target" not in path.parts:
            found["engine"].update(lines=len(path.read_text("utf-8").splitlines()))
    source = {path: tree for path, tree in trees.items() if path.is_relative_to(root / "src")}
    names = []
    for kind, offences in (("small", _small(root, source)), ("uncalled", _uncalled(root, source, trees))):
        for path, name in offences:
            found[_room(root, path)][kind] += 1
            names.append(f"{kind}: {path.relative_to(root)} {name}".rstrip())
    return found, names


def _sources(root: Path, ending: str) -> Iterator[Path]:
    for folder in ("src/svload", "tests", "benches", "tools", "studies", "examples"):
        for path in sorted((root / folder).rglob(f"*{ending}")):
            if not {"runs", "target", "node_modules"} & set(path.parts):
                yield path


def _room(root: Path, path: Path) -> str:
    parts = path.relative_to(root).parts
    if parts[0] == "src":
        return parts[2] if len(parts) > 3 else "svload"
    return f"tests/{parts[1]}" if parts[0] == "tests" and len(parts) > 2 else parts[0]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_exempt(root: Path, path: Path) -> bool:
    place = path.relative_to(root / "src" / "svload").as_posix()
    return path.name.startswith("__") or place.startswith(tuple(f"{one}/" for one in FOUND_BY_SCANNING))


def _small(root: Path, source: dict[Path, ast.Module]) -> Iterator[tuple[Path, str]]:
    """Yield modules of at most 60 lines that exactly one module imports."""
    importers: dict[str, set[Path]] = defaultdict(set)
    for path, tree in source.items():
        for node in ast.walk(tree):
            if path.name == "__init__.py":
                continue  # a room re-exports names
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    importers[name].add(path)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    importers[one.name].add(path)
    for path in source:
        name = ".".join(path.relative_to(root / "src").with_suffix("").parts)
        short = len(path.read_text("utf-8").splitlines()) <= SMALL
        if short and not _is_exempt(root, path) and len(importers[name]) == 1:
            yield path, ""


def _uncalled(
    root: Path, source: dict[Path, ast.Module], trees: dict[Path, ast.Module]
) -> Iterator[tuple[Path, str]]:
    """Yield public functions whose name no code outside tests uses, except in a room's re-exports."""
    used: Counter[str] = Counter()
    for path, tree in trees.items():
        face = path.name == "__init__.py" and path.parent.name != "api"
        if face or path.relative_to(root).parts[0] not in _CALLERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                used[node.value] += 1
    for path, tree in source.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not _is_exempt(root, path):
                plain = not node.name.startswith("_") and not node.decorator_list
                if plain and not used[node.name]:
                    yield path, node.name


def read(table: Path = TABLE) -> Counts:
    """Return the budgets by room."""
    with table.open(encoding="utf-8", newline="") as file:
        return {
            row["room"]: Counter({name: int(row[name]) for name in COUNTED}) for row in csv.DictReader(file)
        }


def write(found: Counts, table: Path = TABLE) -> None:
    """Make the present counts the budget; statements and lines are rounded up to the next 50, so that a fix
    fits."""

    def budget(room: str, name: str) -> int:
        count = found[room][name]
        return -(-count // 50) * 50 if name in ("statements", "lines") else count

    with table.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("room", *COUNTED))
        out.writerows((room, *(budget(room, name) for name in COUNTED)) for room in sorted(found))


def excesses(found: Counts, budget: Counts) -> list[str]:
    """Return one line for each excess of a room over its budget."""
    return [
        f"{room}: {counts[name]:,} {_WORDS[name]}, budget {budget.get(room, Counter())[name]:,}"
        for room, counts in sorted(found.items())
        for name in COUNTED
        if counts[name] > budget.get(room, Counter())[name]
    ]


_WORDS = {
    "statements": "statements",
    "lines": "lines",
    "wide": f"lines over {WIDE} columns",
    "skips": "`fmt: skip`",
    "small": f"modules of at most {SMALL} lines with one importer",
    "uncalled": "public functions that only tests call",
}


def main(words: Sequence[str]) -> int:
    found, names = measure()
    if "--write" in words:
        write(found)
        return 0
    if "--names" in words:
        print("\n".join(names))
        return 0
    result = excesses(found, read())
    for line in result:
        print(f"tools/budget.csv: {line}")
    if result:
        print(
            "Cut what is not needed, or raise the budget by `tools/budget.py --write` and say why (`--names` lists modules and functions)."
        )
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
