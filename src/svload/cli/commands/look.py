"""Commands that inspect runs: why, report, export, query, verify, pack; and schema."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import typer

from svload.cli.commands.studies import JSON, OUT
from svload.cli.output import leave, print_json, report_damage
from svload.model.errors import ExitCode, fail


class Exported(StrEnum):
    """Formats of `svload export`."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENMETRICS = "openmetrics"
    JTL = "jtl"


class Described(StrEnum):
    """Files that `svload schema` describes."""

    STUDY = "study"
    FINDINGS = "findings"


RUN_HELP = "A run's folder or name, a pack, or “latest”."
RUN = typer.Argument("latest", help=RUN_HELP)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (why, report, export, query, verify, pack, schema):
        app.command()(command)


def _out(out: Path | None) -> Path:
    from svload.api import RUNS

    return out or RUNS


def why(
    first: str = typer.Argument(
        "",
        metavar="RUN",
        show_default=False,
        help="A run's folder or name, or a pack; default: the latest run.",
    ),
    second: str = typer.Argument(
        "",
        metavar="NAME",
        show_default=False,
        help="A trial (TC7.r3), a case (TC7), or a comparison's name in quotes; default: everything doubtful "
        "in the run.",
    ),
    run: str = typer.Option("latest", "--run", help="The run; an alternative to naming it first."),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Explain a trial (which numbers are VALID, WEAK or REFUSED, and why), a case (which limit was reached first),
    a comparison, or a run.
    """
    from svload import api

    run, name = _run_and_name([word for word in (first, second) if word], run, _out(out))
    report_damage(run, _out(out), name or None)
    result = api.why(run, name, _out(out))
    if json:
        print_json(result.model_dump(mode="json"))
    else:
        from svload.report.terminal.why import show_why

        show_why(result, api.read_findings(api.find_run(run, _out(out))))


def _run_and_name(words: list[str], run: str, out: Path) -> tuple[str, str]:
    """Return the run and the name that `svload why` is asked about; a single word is a run if one has that
    name."""
    from svload import api

    match words:
        case []:
            return run, ""
        case [name] if run != "latest" or not api.names_run(name, out):
            return run, name
        case [named]:
            return named, ""
        case [named, name] if run == "latest":
            return named, name
        case _:
            raise fail("usage", reason="the run is named twice", hint="Leave --run out.")


def report(
    run: str = RUN,
    figures: Path | None = typer.Option(
        None, "--figures", help="Only draw figures for a paper into this folder: SVG, PDF, PNG, captions."
    ),
    markdown: bool = typer.Option(
        False, "--markdown", help="Only print a Markdown summary for a CI job's page."
    ),
    tables: Path | None = typer.Option(
        None, "--tables", help="Add your own tables (JSON) to this and later reports."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Generate a run's report from its sealed trials."""
    from svload import api

    if markdown and json:
        raise fail("usage", reason="--markdown and --json can't be combined", hint="Use one of them.")
    if markdown and figures is not None:
        raise fail("usage", reason="--markdown and --figures can't be combined", hint="Use two commands.")
    if tables is not None and (markdown or figures is not None):
        reason = "--tables is for a whole report, which --figures and --markdown don't generate"
        raise fail("usage", reason=reason, hint="Use two commands.")
    own = api.read_tables(tables) if tables is not None else None
    report_damage(run, _out(out))
    if figures is not None:
        _say_files(api.figures(run, figures, _out(out)), json)
        return
    if markdown:
        typer.echo(api.summary(run, _out(out)), nl=False)
        return
    found = api.find_run(run, _out(out))
    if own is not None and tables is not None:
        api.put_tables(found, own, str(tables))
    findings, files = api.report(found)
    code = api.verdict_exit(findings)
    if json:
        print_json(
            {
                "files": {name: str(path) for name, path in files.items()},
                "findings": findings.model_dump(mode="json"),
            }
        )
    else:
        from svload.report.terminal.tables import show_findings

        show_findings(findings, files, code=code)
    leave(code)


def export(
    run: str = RUN,
    form: Exported = typer.Option(
        Exported.CSV,
        "--format",
        "-f",
        help="csv, parquet: one file per view of “svload query”. openmetrics: the judged metrics, or the progress of a run that has not ended. jtl: each trial's requests with JMeter's columns.",
    ),
    to: Path | None = typer.Option(
        None,
        "--to",
        help="The folder (default: the run's derived/csv, derived/parquet or derived/jtl), or openmetrics' file.",
    ),
    timestamps: bool = typer.Option(
        False, "--timestamps", help="Add the time of each OpenMetrics sample, for backfilling a database."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Export a run: tables as CSV or Parquet, metrics as OpenMetrics, requests as JMeter's JTL."""
    from svload import api

    if timestamps and form is not Exported.OPENMETRICS:
        raise fail("usage", reason="--timestamps is for OpenMetrics", hint="Add --format openmetrics.")
    if json and form is Exported.OPENMETRICS and to is None:
        reason = "--json lists files, and OpenMetrics goes to stdout"
        raise fail("usage", reason=reason, hint="Add --to FILE, or leave --json out.")
    if form is not Exported.OPENMETRICS or api.has_ended(run, _out(out)):
        report_damage(run, _out(out))
    if form is Exported.OPENMETRICS:
        text = api.openmetrics(run, to, _out(out), timestamps)
        if to is None:
            typer.echo(text, nl=False)
        else:
            _say_files((to,), json)
    elif form is Exported.JTL:
        _say_files(api.export_jtl(run, to, _out(out)), json)
    else:
        kind: Literal["csv", "parquet"] = "csv" if form is Exported.CSV else "parquet"
        _say_files(api.export_tables(run, kind, to, _out(out)), json)


def _say_files(files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print_json({"files": [str(path) for path in files]})
    else:
        for path in files:
            typer.echo(path)


def query(
    run: str = typer.Argument(help=RUN_HELP),
    sql: str = typer.Argument(
        help="A SELECT over the views cases, trials, groups, intervals, histograms, samples, probe, asked, monitors, "
        "verdicts, checks, metrics."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Query a run with SQL (DuckDB)."""
    from svload import api

    report_damage(run, _out(out))
    names, rows = api.query(run, sql, _out(out))
    if json:
        keys = _distinct(names)
        print_json([dict(zip(keys, map(_json_cell, row), strict=True)) for row in rows])
    else:
        from svload.report.terminal.tables import show_rows

        show_rows(names, rows)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the columns' names as keys: a repeated name gets a number, as DuckDB numbers those of a
    subquery."""
    keys: list[str] = []
    for name in names:
        key, number = name, 0
        while key in keys:
            number += 1
            key = f"{name}_{number}"
        keys.append(key)
    return keys


def _json_cell(value: Any) -> Any:
    """Return a cell as JSON has it: a decimal is a number, NaN and infinity are null."""
    if isinstance(value, Decimal):
        value = float(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def verify(run: str = RUN, out: Path = OUT, json: bool = JSON) -> None:
    """Check that a run's files are undamaged. This detects damage, not forgery."""
    from svload import api

    checked = api.verify(run, _out(out))
    if json:
        print_json(checked)
    else:
        for line in checked["damage"]:
            typer.echo(line, err=True)
        for line in (*checked["builds"], *checked["made_again"], *checked["altered"]):
            typer.echo(line, err=True)
        typer.echo(f"{checked['sealed']} sealed trials checked: {_condition(checked)}")
    leave(ExitCode.USAGE if checked["damage"] else ExitCode.DONE)


def _condition(checked: dict[str, Any]) -> str:
    if checked["damage"]:
        return f"{len(checked['damage'])} damaged"
    if checked["thinned"]:
        return f"a thin copy, undamaged; {checked['thinned']} files differ from the sealed ones, as thinned.json says"
    return "all as they were sealed"


def pack(
    run: str = RUN,
    target: Path = typer.Option(None, "--to", help="The file to write; default: next to the run."),
    thin: bool = typer.Option(
        False,
        "--thin",
        help="Make it small enough to commit: merge histograms, don't name this machine's folders.",
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Put a run into one file, without the study's `secrets`. Feeder tables are included unchanged."""
    from svload import api
    from svload.model.units import show_size

    path = api.pack(run, target, _out(out), thin)
    for column in api.secret_columns(run, _out(out)):
        typer.echo(f"this table in the pack may hold secrets: {column}", err=True)
    if json:
        print_json({"pack": str(path), "size_bytes": path.stat().st_size})
        return
    typer.echo(f"{path} ({show_size(path.stat().st_size)})")


def schema(
    of: Described = typer.Argument(Described.STUDY, help="The study file, or findings.json."),
    json: bool = JSON,
) -> None:
    """Print the JSON Schema of the study file (for editors) or of findings.json (for programs)."""
    from svload import api

    print_json(api.findings_schema() if of is Described.FINDINGS else api.schema())
