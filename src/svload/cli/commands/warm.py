"""`svload warm`: make the next loads start immediately."""

from __future__ import annotations

import typer

from svload.cli.commands.studies import JSON
from svload.cli.output import print_json, report_leftover
from svload.model.errors import fail


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(warm)


def warm(
    lease: str | None = typer.Option(
        None, "--for", help="How long to keep it, by default 10m; then it ends by itself."
    ),
    end: bool = typer.Option(False, "--end", help="End it now; a load in progress still completes."),
    json: bool = JSON,
) -> None:
    """Keep a process ready for a while, so that `svload load` sends its first request within 0.3 s."""
    from svload import api

    if end and lease is not None:
        raise fail("usage", reason="--for and --end can't be combined", hint="Leave one of them out.")
    found = api.warm_end(report_leftover) if end else api.warm_keep(lease or "10m", report_leftover)
    if json:
        print_json(found)
    elif end:
        typer.echo("the warm process has ended" if found["ended"] else "no process is kept warm")
    else:
        typer.echo(f"warm until {found['until']} (pid {found['pid']}); “svload warm --end” ends it earlier")
