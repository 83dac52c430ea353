"""All commands together. Only light modules are imported here, so that `svload --help` answers
immediately."""

from __future__ import annotations

import typer

from svload.cli.commands import (
    aa,
    capacity,
    compare,
    first_look,
    fleet,
    imports,
    lab,
    load,
    look,
    studies,
    warm,
)
from svload.cli.plain import App

app = App(
    name="svload",
    help="A laboratory for load tests: from one study file to a checked report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
studies.register(app)
look.register(app)
compare.register(app)
imports.register(app)
load.register(app)
first_look.register(app)
warm.register(app)
capacity.register(app)
aa.register(app)
app.add_typer(lab.app, name="lab")
app.add_typer(fleet.app, name="fleet")


def _version(wanted: bool) -> None:
    if wanted:
        from svload import __version__

        typer.echo(f"svload {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    """A laboratory for load tests: from one study file to a checked report."""
