"""Writers of the files made from judged runs: `write_all`, everything in derived/ that people and other tools
read, from a run's sealed trials and its findings; the page of two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from svload.host.process.forks import beside
from svload.model.errors import SvloadError
from svload.model.outputs import output, write_output
from svload.model.results import Findings
from svload.report.data.gather import gather
from svload.store.layout import RunDir

_BESIDE_THE_WORKBOOK = ("probe", "metrics", "checks")
"""Views with the workbook's long tables for programs, without a sheet's limit of rows."""


def write_all(
    run: RunDir, findings: Findings, own: Mapping[str, Any] | None = None, notes: Sequence[str] = ()
) -> dict[str, Path]:
    """Write report.html, report.xlsx with its tables as Parquet, junit.xml and summary.md into derived/ (each
    replaced whole); return name → path.

    A series.csv is written only if the page left the series out. `own` are the study's own tables, `notes`
    what could not be read of them.

    Raises SvloadError for a run without a readable lock, OSError when the disk is full. The report mentions
    whatever else cannot be read.
    """
    from svload.report.files.junit import junit_xml
    from svload.report.files.markdown import summary_markdown
    from svload.report.page.view import render_page
    from svload.report.sheets.workbook import write_workbook
    from svload.store.sql import export_views

    gathered = gather(run, findings, own, notes)
    run.derived.mkdir(parents=True, exist_ok=True)
    workbook = run.derived / "report.xlsx"
    with output(workbook) as fresh, beside(lambda: write_workbook(gathered, fresh)) as written:
        page, series = render_page(gathered)
        found = {"report.html": run.derived / "report.html"}
        _replace(found["report.html"], page)
        if series is not None:
            found["series.csv"] = run.derived / "series.csv"
            _replace(found["series.csv"], series)
        written()
    found["report.xlsx"] = workbook
    with suppress(SvloadError):  # damaged tables: the page names each trial that cannot be read
        for path in export_views(run, run.derived, "parquet", _BESIDE_THE_WORKBOOK):
            found[path.name] = path
    found["junit.xml"] = run.derived / "junit.xml"
    _replace(found["junit.xml"], junit_xml(findings))
    found["summary.md"] = run.derived / "summary.md"
    _replace(found["summary.md"], summary_markdown(findings))
    return found


def _replace(path: Path, text: str) -> None:
    """Write whole or not at all; lone surrogates, which no encoding holds, as question marks."""
    write_output(path, text.encode("utf-8", "replace"))


def write_comparison(
    first: tuple[RunDir, Findings],
    second: tuple[RunDir, Findings],
    rows: Sequence[Mapping[str, Any]],
    path: Path,
) -> None:
    """Write the page that compares two judged runs; `rows` are the result of `analysis.compare_runs`. Raises
    as `write_all` does."""
    from svload.report.page.compare import compare_page

    page = compare_page(gather(*first), gather(*second), rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, page)
