"""A report made on several cores is, byte for byte, the one that a single core makes."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import make_run

from svload import api
from svload.host.process import forks
from svload.report.files.write import write_all


def contents(files: dict[str, Path]) -> dict[str, bytes]:
    """Every file, of the workbook its parts, but the one with the moment of its making."""
    found = {name: path.read_bytes() for name, path in files.items() if path.suffix != ".xlsx"}
    with zipfile.ZipFile(files["report.xlsx"]) as book:
        return found | {name: book.read(name) for name in book.namelist() if name != "docProps/core.xml"}


def on(cores: int, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> Any:
    monkeypatch.setattr(forks, "_cores", lambda: 1 if forks._worker else cores)
    return make()


def test_it_is_the_same_on_one_core_and_on_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {
        "TC1": "no-hits",
        "TC2.r2": "generator-limited",
        "TC3.r1": "unsealed",
        "TC0.r1": "hostile-names",
    }
    run = make_run(tmp_path, cases=5, replicates=2, duration_s=0.6, faults=faults)
    one, three = (on(cores, monkeypatch, lambda: contents(api.report(run)[1])) for cores in (1, 3))
    assert one.keys() == three.keys()
    assert [name for name in one if one[name] != three[name]] == []


def test_what_cannot_be_read_is_told_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, cases=4, replicates=2, duration_s=0.6)
    findings = api.analyse(run)
    run.trial("TC1.r2").table("monitors").write_bytes(b"torn")
    run.trial("TC3.r1").table("histograms").write_bytes(b"torn")
    one, three = (
        on(cores, monkeypatch, lambda: contents(write_all(run, findings)))["report.html"] for cores in (1, 3)
    )
    assert b"TC1.r2 cannot be read" in one
    assert b"TC3.r1 cannot be read" in one
    assert one == three
