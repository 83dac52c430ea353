"""studies/005-file-server: each study can be planned, asks for files that it makes, and expects their lengths."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from svload.lab import find_mistakes, kit_options
from svload.model.traffic import FeederPart, Template
from svload.study import load_study, resolve

STUDY = Path(__file__).parents[2] / "studies/005-file-server"
PROFILES = [
    *(("study.yaml", profile) for profile in (None, "short", "demo", "counted", "tuned")),
    *(("new.yaml", profile) for profile in (None, "short", "demo")),
    *(("different.yaml", profile) for profile in (None, "short", "demo")),
    *(("mended.yaml", profile) for profile in (None, "short", "demo")),
]


def make_files() -> ModuleType:
    found = importlib.util.spec_from_file_location("make_files", STUDY / "target/make_files.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def written(template: Template, row: int) -> str:
    """A turn's text; a feeder's column is its row, every other part its name."""
    parts = [
        str(row) if isinstance(part, FeederPart) else getattr(part, "text", getattr(part, "var", ""))
        for part in template
    ]
    return "".join(parts)


@pytest.mark.parametrize(("file", "profile"), PROFILES)
def test_what_is_asked_for_is_there_and_as_long_as_expected(file: str, profile: str | None) -> None:
    lock = load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    for case in lock.valid_cases:
        config = resolve(lock, case)
        [server] = [service for service in config.services if service.name == "server"]
        asked = server.options["build"].get("args", "").partition("FILES=")[2].split()
        made = server.options["files"]
        there = make_files().wanted(asked) if made == "${build}/files" else made
        [group] = config.groups
        turns = group.request.dialogue
        assert turns[-1].until_close
        if file == "new.yaml":
            continue
        rows = [row for table in config.tables if table.numbers for row in table.numbers] or [0]
        for row in rows:
            name = written(turns[2].send or (), row).strip()
            assert turns[3].expect == f"file {there[name]}\n"


def test_files_are_as_long_as_it_says(tmp_path: Path) -> None:
    make_files().main(tmp_path / "files", ["a=10", "b=3000000*2"])
    made = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert {name: len(text) for name, text in made.items()} == {"a": 10, "b-0": 3_000_000, "b-1": 3_000_000}
    assert made["b-0"] != made["b-1"]
