"""Quick commands without a study: probe, doctor."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT
from svload.cli.output import leave, load_live, print_json, report_leftover
from svload.model.errors import ExitCode, fail
from svload.model.events import Event


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (probe, doctor):
        app.command()(command)


def probe(
    url: str = typer.Argument(help="The URL to transfer."),
    count: int = typer.Option(1, "--count", "-n", min=1, help="Number of transfers, one after another."),
    method: str = typer.Option(None, "--method", "-X", help="Default GET, or POST with a body."),
    header: list[str] = typer.Option(None, "--header", "-H", help="A header, “Name: value”."),
    data: str = typer.Option(None, "--data", "--body", help="The request body."),
    data_file: Path = typer.Option(None, "--data-file", "-D", help="Read the request body from this file."),
    insecure: bool = typer.Option(False, "--insecure", "-k", help="Don't verify the server's certificate."),
    ca: Path = typer.Option(
        None, "--cacert", help="PEM file of the CA that signed the server's certificate."
    ),
    keep_alive: bool = typer.Option(False, "--keep-alive", help="Use one connection for all transfers."),
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """Transfer a URL as curl does and print curl's eleven timing variables."""
    from svload import api

    ask = api.QuickLoad(
        url, method=method, headers=tuple(header or ()), data=data, insecure=insecure, keep_alive=keep_alive
    )
    with load_live(0.0, quiet=False) as emit:
        emit(Event("run-started"))
        rows = api.probe(ask, count, api.LoadFiles(ca, data_file), tuple(authorise or ()), emit=emit)
    if json:
        print_json(rows)
    else:
        from svload.report.terminal.tables import show_probe

        show_probe(rows)
    leave(ExitCode.LAB_FAILED if any(row["error"] for row in rows) else ExitCode.DONE)


def doctor(
    study: str = typer.Argument(None, help="Also check what this study's kits need."),
    profile: str = typer.Option(None, "--profile", "-p", help="Which of the study's profiles to use."),
    certify: bool = typer.Option(
        False,
        "--certify",
        help="First measure svload's own accuracy on a server with known times and save the certificate (30 s).",
    ),
    no_wait: bool = NO_WAIT,
    json: bool = JSON,
) -> None:
    """Show what this machine is, what it can measure, and what a study would lack here."""
    from svload import api

    if profile is not None and study is None:
        raise fail("usage", reason="--profile applies to a study", hint="Name the study as well.")
    if no_wait and not certify:
        raise fail("usage", reason="--no-wait applies to --certify", hint="Leave it out, or add --certify.")
    if certify:
        from svload.cli.output import live

        with live() as emit:
            api.certify(emit, 0.0 if no_wait else None)
    found = api.doctor(study, profile, measure_again=certify, emit=report_leftover)
    if json:
        print_json(found)
    else:
        from svload.report.terminal.tables import show_doctor

        show_doctor(found)
    leave(ExitCode.LAB_FAILED if found["problems"] else ExitCode.DONE)
