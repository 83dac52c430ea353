"""Helpers for tests of studies: a study's own script as a module, its committed packs, its README's text."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from svload.api import OwnTable
from svload.model.results import Findings
from svload.store import RunDir, open_pack, verify_run


def script(path: Path) -> ModuleType:
    """Import the file under a new name; dataclasses look it up in sys.modules."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}".replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def packed(pack: Path) -> Any:
    """Return a module's fixture of a committed pack, opened once: `run = packed(PATH)`."""

    @pytest.fixture(scope="module")
    def opened(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
        return open_pack(pack, tmp_path_factory.mktemp(pack.name.partition(".")[0]))

    return opened


def words_of(page: Path) -> str:
    """Return its text as a single line."""
    return " ".join(page.read_text(encoding="utf-8").split())


def check_readme(study: Path, *tables: OwnTable) -> None:
    """Check that the study's README shows the rows of these tables."""
    readme = (study / "README.md").read_text(encoding="utf-8")
    for table in tables:
        lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
        assert len(lines) > 2, table.title
        assert "\n".join(lines) in readme, f"{table.title}: make the README's table again by tables.py"


def check_whole(run: RunDir, findings: Findings, trials: int) -> None:
    """Check that a run is undamaged and complete, and how many trials it has."""
    assert verify_run(run) == []
    assert (findings.complete, findings.sealed_trials) == (True, trials)
