"""Output files: no link is followed, modes are kept, and the number of cores changes no byte."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.conftest import Reporter
from tests.support import make_run

from svload import api
from svload.host.process import forks
from svload.model.outputs import output, write_output
from svload.report.figures.write import write_figures
from svload.report.files.write import write_all
from svload.store.sql import export_views

BEFORE = b"not ours\n"


WRITERS: list[Callable[[Any, Path], object]] = [
    lambda made, folder: [export_views(made.run, folder, kind) for kind in ("csv", "parquet")],
    lambda made, folder: api.openmetrics(str(made.run.path), folder / "metrics.txt"),
    lambda made, folder: api.pack(str(made.run.path), folder / "run.svload.zip"),
    pytest.param(lambda made, folder: write_figures(made.run, made.findings, folder), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("write", WRITERS, ids=["tables", "openmetrics", "pack", "figures"])
def test_a_link_is_replaced_and_not_followed(write: Callable[..., None], reported: Reporter, tmp_path: Path):
    """Links to a file, to one that doesn't exist, and hard links: their targets stay unchanged."""
    made = reported("mixed")
    first, linked, outside = (tmp_path / name for name in ("first", "linked", "outside"))
    for folder in (first, linked, outside):
        folder.mkdir()
    write(made, first)
    names = sorted(path.name for path in first.iterdir())
    assert names
    for number, name in enumerate(names):
        aim = outside / name
        if number % 3 != 1:
            aim.write_bytes(BEFORE)
        if number % 3 == 2:
            os.link(aim, linked / name)
        else:
            (linked / name).symlink_to(aim)
    write(made, linked)
    assert sorted(path.name for path in linked.iterdir()) == names
    for number, name in enumerate(names):
        path, aim = linked / name, outside / name
        assert path.is_file() and not path.is_symlink() and path.stat().st_size > 0
        assert not aim.exists() if number % 3 == 1 else aim.read_bytes() == BEFORE


def test_a_name_that_was_foreseen_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If somebody guesses the temporary file's name, it is refused, and a link's target stays unchanged."""
    aim, path = tmp_path / "aim", tmp_path / "report.html"
    aim.write_bytes(BEFORE)
    monkeypatch.setattr("svload.model.outputs.secrets.token_hex", lambda size: "guessed")
    (tmp_path / f".report.html.{os.getpid()}.xguessed.html").symlink_to(aim)
    with pytest.raises(FileExistsError, match=r"report\.html"):
        write_output(path, "new")
    assert aim.read_bytes() == BEFORE and not path.exists()


def test_what_fails_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(BEFORE)

    def write() -> None:
        with output(path) as fresh:
            fresh.write_text("half")
            raise ValueError("in the midst")

    with pytest.raises(ValueError, match="in the midst"):
        write()
    assert [one.name for one in tmp_path.iterdir()] == ["table.csv"] and path.read_bytes() == BEFORE


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_an_output_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_output(tmp_path / "a", "text")
        write_output(tmp_path / "b", "text", 0o600)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [mode, 0o600]


def contents(files: dict[str, Path]) -> dict[str, bytes]:
    """Return every file (of a workbook its parts), except the one with the time of its making."""
    found = {name: path.read_bytes() for name, path in files.items() if path.suffix != ".xlsx"}
    with zipfile.ZipFile(files["report.xlsx"]) as book:
        return found | {name: book.read(name) for name in book.namelist() if name != "docProps/core.xml"}


def on(cores: int, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> Any:
    monkeypatch.setattr(forks, "_cores", lambda: 1 if forks._worker else cores)
    return make()


def test_it_is_the_same_on_one_core_and_on_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {"TC1": "no-hits", "TC2.r2": "generator-limited", "TC3.r1": "unsealed", "*": "hostile-names"}
    run = make_run(tmp_path, cases=5, replicates=2, duration_s=0.6, faults=faults)
    one, three = (on(cores, monkeypatch, lambda: contents(api.report(run)[1])) for cores in (1, 3))
    assert one.keys() == three.keys()
    assert [name for name in one if one[name] != three[name]] == []


def test_what_cannot_be_read_is_reported_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, cases=4, replicates=2, duration_s=0.6)
    findings = api.analyse(run)
    run.trial("TC1.r2").table("monitors").write_bytes(b"torn")
    run.trial("TC3.r1").table("histograms").write_bytes(b"torn")
    made = (on(cores, monkeypatch, lambda: contents(write_all(run, findings))) for cores in (1, 3))
    one, three = (files["report.html"] for files in made)
    assert b"TC1.r2 cannot be read" in one and b"TC3.r1 cannot be read" in one
    assert one == three
