"""Outputs where a stranger has put links: none is followed, whatever writes there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload import api
from svload.model.outputs import output, write_output
from svload.report.figures.write import write_figures
from svload.store.sql import export_views

Reporter = Callable[[str], Any]
BEFORE = b"not ours\n"


def _figures(made: Any, folder: Path) -> None:
    write_figures(made.run, made.findings, folder)


def _tables(made: Any, folder: Path) -> None:
    export_views(made.run, folder, "csv")
    export_views(made.run, folder, "parquet")


def _openmetrics(made: Any, folder: Path) -> None:
    api.openmetrics(str(made.run.path), folder / "metrics.txt")


def _pack(made: Any, folder: Path) -> None:
    api.pack(str(made.run.path), folder / "run.svload.zip")


@pytest.mark.parametrize(
    "write", [pytest.param(_figures, marks=pytest.mark.slow), _tables, _openmetrics, _pack]
)
def test_a_link_is_replaced_and_not_followed(
    write: Callable[[Any, Path], None], reported: Reporter, tmp_path: Path
) -> None:
    """Links to a file, to one that is absent, and hard links: what they lead to stays as it is."""
    made, first, linked, outside = (
        reported("mixed"),
        tmp_path / "first",
        tmp_path / "linked",
        tmp_path / "outside",
    )
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
    """Somebody guesses the name of the file beside: it is refused, and what it leads to stays."""
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
