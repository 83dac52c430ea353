"""Commands that look at runs: why, report, compare, query, verify, pack; and schema."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import JSON, OUT
from svload.cli.output import leave, print_json
from svload.model.errors import ExitCode

RUN = typer.Argument("latest", help="A run's folder or name, a pack, or “latest”.")


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (why, report, compare, query, verify, pack, schema):
        app.command()(command)


def _out(out: Path | None) -> Path:
    from svload.api import RUNS

    return out or RUNS


def why(
    trial: str = typer.Argument(help="The trial, such as TC7.r3."),
    run: str = typer.Option("latest", "--run", help="The run."),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Say why a trial is VALID, WEAK or REFUSED: every check, passed ones too."""
    from svload import api

    result = api.why(run, trial, _out(out))
    if json:
        print_json(result.model_dump(mode="json"))
    else:
        from svload.report import show_why

        show_why(result)


def report(run: str = RUN, out: Path = OUT, json: bool = JSON) -> None:
    """Make a run's report anew from its sealed trials."""
    from svload import api
    from svload.store import find_run

    findings, files = api.report(find_run(run, _out(out)))
    if json:
        print_json(
            {
                "files": {name: str(path) for name, path in files.items()},
                "findings": findings.model_dump(mode="json"),
            }
        )
    else:
        from svload.report import show_findings

        show_findings(findings, files)
    leave(api.verdict_exit(findings))


def compare(
    first: str = typer.Argument(help="The run taken as the baseline."),
    second: str = typer.Argument(help="The other run."),
    to: Path = typer.Option(
        None, "--to", help="The page's file; default derived/compare.html of the other run."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Compare two runs case by case: ratios with intervals, and a page. They were not interleaved, and it says so."""
    from svload import api

    rows, page = api.compare(first, second, _out(out), to)
    if json:
        print_json(rows)
    else:
        from svload.report import show_comparison

        show_comparison(rows, page)


def query(
    run: str = RUN,
    sql: str = typer.Argument(
        help="A SELECT over trials, intervals, histograms, samples, monitors, cases, verdicts."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Ask a run in SQL (DuckDB)."""
    from svload import api

    names, rows = api.query(run, sql, _out(out))
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        from svload.report import show_rows

        show_rows(names, rows)


def verify(run: str = RUN, out: Path = OUT, json: bool = JSON) -> None:
    """Check every seal of a run: detects damage, not forgery."""
    from svload import api

    sealed, damage = api.verify(run, _out(out))
    if json:
        print_json({"sealed": sealed, "damage": damage})
    else:
        for line in damage:
            typer.echo(line, err=True)
        typer.echo(
            f"{sealed} sealed trials checked: "
            + (f"{len(damage)} things are damaged" if damage else "all as they were sealed")
        )
    leave(ExitCode.USAGE if damage else ExitCode.DONE)


def pack(
    run: str = RUN,
    target: Path = typer.Option(None, "--to", help="The pack's file; default beside the run."),
    out: Path = OUT,
) -> None:
    """Put a run into one file, without secrets."""
    from svload import api

    path = api.pack(run, target, _out(out))
    typer.echo(f"{path} ({path.stat().st_size / 1024:.0f} KiB)")


def schema() -> None:
    """Print the study file's JSON Schema, for editors."""
    from svload import api

    print_json(api.schema())
