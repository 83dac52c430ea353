"""svload import: results of other load testers, and finished tables."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from svload.cli.commands.studies import JSON, OUT
from svload.cli.output import leave, print_json
from svload.model.errors import fail


class Form(StrEnum):
    """The format of a file."""

    JTL = "jtl"
    LOCUST = "locust"
    K6 = "k6"
    TABLE = "table"


class Window(StrEnum):
    """The part of a file that is measured."""

    LOAD = "load"
    ALL = "all"


class Decimal(StrEnum):
    """The decimal mark of a table's numbers."""

    COMMA = "comma"
    POINT = "point"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("import")(import_)


def import_(
    files: list[str] = typer.Argument(
        help="Result files of one load tester, or LEVEL=FILE (several per level are replicates); or tables of "
        "results as CSV."
    ),
    form: Form | None = typer.Option(
        None,
        "--as",
        help="jtl: JMeter's CSV or XML. locust: NAME_stats_history.csv. k6: JSON or CSV. table: finished "
        "results. Default: detected from the file.",
    ),
    factor: str = typer.Option(
        "file", "--factor", help="The factor that the levels belong to, such as build, or users for a sweep."
    ),
    name: str = typer.Option("imported", "--name", help="The run's name."),
    given: list[str] = typer.Option(
        None,
        "--given",
        help="A value that is in no column of a table, such as users=50 or run_time=60s; repeatable.",
    ),
    window: Window = typer.Option(
        "load",
        "--window",
        help="What to measure: the load without its ramps at the start and end, or everything.",
    ),
    decimal: Decimal | None = typer.Option(
        None, "--decimal", help="The decimal separator of a table's numbers, if the cells don't show it."
    ),
    out: Path = OUT,
    json: bool = JSON,
) -> None:
    """Import results of JMeter, Locust or k6 as a run, or check a finished table for contradictions."""
    from svload import api

    if form is Form.TABLE or (form is None and api.are_tables(files)):
        of_runs = {
            "--factor": factor != "file",
            "--name": name != "imported",
            "--window": window is Window.ALL,
        }
        if option := next((option for option, typed in of_runs.items() if typed), ""):
            reason = f"{option} applies to a run, but a finished table is only checked"
            raise fail("usage", reason=reason, hint="Leave it out.")
        _tables(files, given or [], decimal, json)
        return
    if given or decimal:
        option = "--given" if given else "--decimal"
        raise fail(
            "usage",
            reason=f"{option} applies only to finished tables",
            hint="Add --as table, or leave it out.",
        )
    form_name: Any = form.value if form else None
    result = api.import_files(
        files,
        form_name,
        factor=factor,
        name=name,
        out=out or api.RUNS,
        whole=window is Window.ALL,
        emit=lambda event: typer.echo(str(event.data.get("text", "")), err=True),
    )
    code = api.verdict_exit(result.findings)
    if json:
        print_json(
            {
                "run": str(result.run.path),
                "interleaved": result.interleaved,
                "imported": {
                    trial: form_name.model_dump(mode="json") for trial, form_name in result.imported.items()
                },
                "files": {name: str(path) for name, path in result.files.items()},
                "findings": result.findings.model_dump(mode="json"),
            }
        )
    else:
        from svload.report.terminal.tables import show_import

        show_import(result.findings, result.imported, result.files, result.interleaved, code)
    leave(code)


def _tables(files: list[str], given: list[str], decimal: Decimal | None, json: bool) -> None:
    from svload import api
    from svload.report.terminal.tables import show_tables

    results = [asdict(one) for one in api.check_tables(files, given, decimal.value if decimal else None)]
    if json:
        print_json({"checks": results})
    else:
        for sentence in api.better_files(files):
            typer.echo(sentence)
        show_tables(results)
