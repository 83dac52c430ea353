"""`svload lab install | up | urls | status | reset | down`: a study's servers without a run."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, PROFILE, TRUST
from svload.cli.output import live, print_json, report_leftover
from svload.cli.plain import App

app = App(help="Run a study's servers without a run.", no_args_is_help=True, rich_markup_mode=None)
STUDY = typer.Argument(help="The study's folder or file.")


@app.command()
def install(study: str = STUDY, profile: str = PROFILE, json: bool = JSON) -> None:
    """Install what the study's kits need (with apt if root, the rest into svload's cache)."""
    from svload import api

    with live() as emit:
        done = api.lab_install(study, profile, emit)
    if json:
        print_json({"done": done})
        return
    for line in done or ["nothing was missing"]:
        typer.echo(line)


@app.command()
def up(
    study: str = STUDY,
    profile: str = PROFILE,
    lease: str = typer.Option("1h", "--for", help="How long to keep the servers up."),
    trust: bool = TRUST,
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """Start the study's servers and keep them up for a while."""
    from svload import api

    with live() as emit:
        found = api.lab_up(study, profile, lease, trust, emit, tuple(authorise or ()))
    _show(found, json)


@app.command()
def urls(
    study: str = STUDY,
    profile: str = PROFILE,
    to: Path = typer.Option(
        None, "--to", help="Write the URLs to this CSV file: url, path, size_bytes, digest."
    ),
    trust: bool = TRUST,
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """List every URL in every account of the study's stores, filling the stores first if they are empty."""
    from svload import api

    with live() as emit:
        found = api.lab_urls(study, profile, to, trust, emit, tuple(authorise or ()))
    if json:
        print_json(found)
        return
    lines = [f"{len(found['url']):,} URLs in {to}"] if to else found["url"]
    typer.echo("\n".join(lines))


@app.command()
def status(json: bool = JSON) -> None:
    """List the labs that “svload lab up” keeps running, and svload's caches on this machine."""
    from svload import api

    found = api.lab_status(report_leftover)
    if json:
        print_json(found)
        return
    for lab in found["labs"]:
        typer.echo(f"{lab['id']}: {lab['owner']}, {lab['lease']}")
    if not found["labs"]:
        typer.echo("no lab is running")
    if warm := found["warm"]:
        typer.echo(f"warm until {warm['until']} (pid {warm['pid']}): “svload warm --end” stops it")
    for name, size in found["caches"].items():
        typer.echo(f"cache {name}: {size}")


@app.command()
def reset(
    lab: str = typer.Argument(None, help="Which lab; default: the only one."), json: bool = JSON
) -> None:
    """Return a running lab's servers to their state before any trial."""
    from svload import api

    proofs = api.lab_reset(lab, report_leftover)
    if json:
        print_json(proofs)
        return
    for service, proof in proofs.items():
        typer.echo(f"{service}: {proof}")


@app.command()
def down(lab: str = typer.Argument(None, help="Which lab; default: all."), json: bool = JSON) -> None:
    """Stop labs and restore everything."""
    from svload import api

    ended = api.lab_down(lab, report_leftover)
    if json:
        print_json({"done": ended})
        return
    for line in ended:
        typer.echo(line)


def _show(found: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    typer.echo(f"lab {found['id']} is up until {found['until']}")
    for name, address in dict(found["endpoints"]).items():  # type: ignore[call-overload]
        typer.echo(f"  {name}  {address}")
    if found["network"]:
        typer.echo(f"They have their own network; to reach them: nsenter --net={found['network']} COMMAND")
