"""Quick commands without a study: probe, doctor."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT
from svload.cli.output import leave, print_json, tell_leftover
from svload.model.errors import ExitCode


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (probe, doctor):
        app.command()(command)


def probe(
    url: str = typer.Argument(help="What to transfer."),
    count: int = typer.Option(1, "--count", "-n", min=1, help="How many transfers, one after another."),
    header: list[str] = typer.Option(None, "--header", "-H", help="A header, “Name: value”."),
    ca: Path = typer.Option(
        None, "--cacert", help="PEM file of the authority that signed the server's certificate."
    ),
    keep_alive: bool = typer.Option(False, "--keep-alive", help="One connection for all transfers."),
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """Transfer a URL as curl does and print curl's eleven variables."""
    from svload import api

    rows = api.probe(url, count, header or [], ca, tuple(authorise or ()), keep_alive)
    if json:
        print_json(rows)
    else:
        from svload.report import show_probe

        show_probe(rows)
    leave(ExitCode.LAB_FAILED if any(row["error"] for row in rows) else ExitCode.DONE)


def doctor(
    study: str = typer.Argument(None, help="A study whose kits are checked too."),
    profile: str = typer.Option(None, "--profile", "-p"),
    certify: bool = typer.Option(
        False,
        "--certify",
        help="First measure the instrument on a server of known times, and keep its certificate (half a minute).",
    ),
    no_wait: bool = NO_WAIT,
    json: bool = JSON,
) -> None:
    """Say what this machine is, what it can measure, and what a study would miss here."""
    from svload import api

    if certify:
        from svload.cli.output import live

        with live() as emit:
            api.certify(emit, 0.0 if no_wait else None)
    found = api.doctor(study, profile, anew=certify, emit=tell_leftover)
    if json:
        print_json(found)
    else:
        from svload.report import show_doctor

        show_doctor(found)
    leave(ExitCode.LAB_FAILED if found["problems"] else ExitCode.DONE)
