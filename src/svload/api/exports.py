"""Runs handed on: figures for a paper, a summary for a CI page, tables for other tools,
metrics for a time series database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from svload.api.damage import damage_is_told
from svload.api.runs import RUNS, read_findings
from svload.api.typed import writing

if TYPE_CHECKING:
    from svload.store import RunDir

TableKind = Literal["csv", "parquet"]


@damage_is_told
def export_tables(
    run_name: str, kind: TableKind, to: Path | None = None, out: Path = RUNS
) -> tuple[Path, ...]:
    """Every view of `svload query` as a file of `kind`, in `to` (default: `derived/<kind>/` of the run); the files.

    Raises SvloadError run-not-found, run-damaged, usage where `to` cannot be written.
    """
    from svload.store import export_views, find_run

    found = find_run(run_name, out)
    read_findings(found)
    folder = to or found.derived / kind
    with writing(folder):
        return export_views(found, folder, kind)


@damage_is_told
def export_jtl(run_name: str, to: Path | None = None, out: Path = RUNS) -> tuple[Path, ...]:
    """Each trial's requests with JMeter's columns, in `to` (default: `derived/jtl/` of the run); the files.

    Raises SvloadError run-not-found, run-damaged, usage where no trial keeps its requests or `to` cannot be written.
    """
    from svload.store import find_run
    from svload.store.jtl_export import export_jtl as write

    found = find_run(run_name, out)
    folder = to or found.derived / "jtl"
    with writing(folder):
        return write(found, folder)


@damage_is_told
def openmetrics(run_name: str, to: Path | None = None, out: Path = RUNS, stamps: bool = False) -> str:
    """The run as OpenMetrics text, also written to `to`, whole or not at all. A run that is going on is read
    from its journals alone, so that looking costs the measuring machine next to nothing.

    With `stamps` each sample carries the Unix time at which it was so. Raises SvloadError run-not-found,
    run-damaged, usage where `to` cannot be written.
    """
    from svload.report.files.openmetrics import openmetrics as exposition
    from svload.store import find_run, write_text

    found = find_run(run_name, out)
    text = exposition(found, read_findings(found) if _has_ended(found) else None, stamps)
    if to is not None:
        with writing(to):
            write_text(to, text)
    return text


def has_ended(run_name: str, out: Path = RUNS) -> bool:
    """Whether no execution writes to the run, as far as its files say. Raises
    SvloadError run-not-found, run-damaged."""
    from svload.store import find_run

    return _has_ended(find_run(run_name, out))


def _has_ended(found: RunDir) -> bool:
    """Whether nothing writes to the run: every planned trial is sealed, or its last execution has ended
    (its analysis is told after that)."""
    from svload.store import read_events

    if found.is_complete():
        return True
    marks = [
        event.kind for event in read_events(found.events).events if event.kind in ("run-started", "run-ended")
    ]
    return marks[-1:] == ["run-ended"]


@damage_is_told
def summary(run_name: str, out: Path = RUNS) -> str:
    """The findings as Markdown for a CI job's page. Raises SvloadError run-not-found, run-damaged."""
    from svload.report.files.markdown import summary_markdown
    from svload.store import find_run

    return summary_markdown(read_findings(find_run(run_name, out)))


@damage_is_told
def figures(run_name: str, folder: Path, out: Path = RUNS) -> tuple[Path, ...]:
    """Every figure of the run into `folder`, as SVG, PDF and PNG at both column widths, and their captions; the files.

    Raises SvloadError run-not-found, run-damaged, usage where the folder cannot be written.
    """
    from svload.report.figures.write import write_figures
    from svload.store import find_run

    found = find_run(run_name, out)
    with writing(folder):
        return write_figures(found, read_findings(found), folder)


def findings_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of findings.json in the format that this svload writes;
    `$id` bears the format's number."""
    from svload.model.results import Findings

    schema = Findings.model_json_schema(mode="serialization")
    schema["properties"]["format"] = {"const": Findings.FORMAT}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:svload:findings:{Findings.FORMAT}",
    }
    return head | schema
