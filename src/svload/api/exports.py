"""Exports of runs: figures for a paper, a summary for a CI page, tables for other tools, metrics for a time
series database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from svload.api.damage import reports_damage
from svload.api.runs import RUNS, read_findings
from svload.api.typed import writing

if TYPE_CHECKING:
    from svload.store import RunDir

TableKind = Literal["csv", "parquet"]


@reports_damage
def export_tables(
    run_name: str, kind: TableKind, to: Path | None = None, out: Path = RUNS
) -> tuple[Path, ...]:
    """Write every view of `svload query` as a file of `kind` to `to` (default: `derived/<kind>/` of the run)
    and return the files.

    Raises SvloadError run-not-found, run-damaged, usage if `to` cannot be written.
    """
    from svload.store import export_views, find_run

    found = find_run(run_name, out)
    read_findings(found)
    folder = to or found.derived / kind
    with writing(folder):
        return export_views(found, folder, kind)


@reports_damage
def export_jtl(run_name: str, to: Path | None = None, out: Path = RUNS) -> tuple[Path, ...]:
    """Write each trial's requests with JMeter's columns to `to` (default: `derived/jtl/` of the run) and
    return the files.

    Raises SvloadError run-not-found, run-damaged, usage if no trial keeps its requests or `to` cannot be
    written.
    """
    from svload.store import find_run
    from svload.store.jtl_export import export_jtl as write

    found = find_run(run_name, out)
    folder = to or found.derived / "jtl"
    with writing(folder):
        return write(found, folder)


@reports_damage
def openmetrics(run_name: str, to: Path | None = None, out: Path = RUNS, stamps: bool = False) -> str:
    """Return the run as OpenMetrics text; also written to `to`, whole or not at all. Of an unfinished run
    only the journals are read, so that the measuring machine is hardly loaded.

    With `stamps` each sample has its Unix time. Raises SvloadError run-not-found, run-damaged, usage if `to`
    cannot be written.
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
    """Return whether no execution writes to the run, according to its files. Raises SvloadError
    run-not-found, run-damaged."""
    from svload.store import find_run

    return _has_ended(find_run(run_name, out))


def _has_ended(found: RunDir) -> bool:
    """Return whether nothing writes to the run: every planned trial is sealed, or its last execution has
    ended (which is recorded after its analysis)."""
    from svload.store import read_events

    if found.is_complete():
        return True
    marks = [
        event.kind for event in read_events(found.events).events if event.kind in ("run-started", "run-ended")
    ]
    return marks[-1:] == ["run-ended"]


@reports_damage
def summary(run_name: str, out: Path = RUNS) -> str:
    """Return the findings as Markdown for a CI job's page. Raises SvloadError run-not-found, run-damaged."""
    from svload.report.files.markdown import summary_markdown
    from svload.store import find_run

    return summary_markdown(read_findings(find_run(run_name, out)))


@reports_damage
def figures(run_name: str, folder: Path, out: Path = RUNS) -> tuple[Path, ...]:
    """Write every figure of the run to `folder`, as SVG, PDF and PNG at both column widths, with captions;
    return the files.

    Raises SvloadError run-not-found, run-damaged, usage if the folder cannot be written.
    """
    from svload.report.figures.write import write_figures
    from svload.store import find_run

    found = find_run(run_name, out)
    with writing(folder):
        return write_figures(found, read_findings(found), folder)


def findings_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of findings.json in the format that this svload writes; `$id` contains
    the format's number."""
    from svload.model.results import Findings

    schema = Findings.model_json_schema(mode="serialization")
    schema["properties"]["format"] = {"const": Findings.FORMAT}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:svload:findings:{Findings.FORMAT}",
    }
    return head | schema
