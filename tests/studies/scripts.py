"""What the tests of studies share: a study's own script as a module, its committed packs, its README's words."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from svload.api import OwnTable
from svload.store import RunDir, open_pack


def script(path: Path) -> ModuleType:
    """The file, imported anew under a name of its own; dataclasses look it up in sys.modules."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}".replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def packed(pack: Path) -> Any:
    """A module's fixture of a committed pack, opened once: `run = packed(PATH)`."""

    @pytest.fixture(scope="module")
    def opened(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
        return open_pack(pack, tmp_path_factory.mktemp(pack.name.partition(".")[0]))

    return opened


def words_of(page: Path) -> str:
    """Its text as one line, whatever its lines were."""
    return " ".join(page.read_text(encoding="utf-8").split())


def rows_of(table: OwnTable) -> str:
    """The table's lines as a page shows them."""
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    assert len(lines) > 2, table.title
    return "\n".join(lines)
