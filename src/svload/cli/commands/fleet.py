"""`svload fleet check | install | status | clean`: the machines of an Ansible inventory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from svload.cli.commands.studies import JSON, PROFILE
from svload.cli.output import leave, live, print_json
from svload.cli.plain import App
from svload.model.errors import fail
from svload.model.units import show_duration, show_size

if TYPE_CHECKING:
    from svload.api.fleet import FleetResult, MachineReport

app = App(
    help="Manage svload on the machines of an Ansible inventory.", no_args_is_help=True, rich_markup_mode=None
)
INVENTORY = typer.Option(
    ..., "--inventory", "-i", help="An Ansible inventory with the groups generators, servers and sites."
)


@app.command()
def check(inventory: Path = INVENTORY, json: bool = JSON) -> None:
    """Show how much load each machine can generate: clock, port, descriptors, bandwidth. Changes nothing."""
    from svload import api

    with live() as emit:
        found = api.fleet_check(inventory, emit)
    _show(found, json, _capacity)


@app.command()
def install(
    inventory: Path = INVENTORY,
    wheel: Path = typer.Option(
        None, help="The wheel or its folder; default: dist, where “make wheel” puts it."
    ),
    wheelhouse: Path = typer.Option(
        None, help="Folder of packages for machines without a package index (pip download -d)."
    ),
    study: Path = typer.Option(None, help="Also install this study's servers on the group servers."),
    profile: str = PROFILE,
    json: bool = JSON,
) -> None:
    """Install svload on every machine and set limits. Repeating it changes nothing."""
    from svload import api

    if profile is not None and study is None:
        raise fail("usage", reason="--profile applies to a study", hint="Add --study.")
    with live() as emit:
        found = api.fleet_install(inventory, emit, wheel, wheelhouse, study, profile)
    _show(found, json, _done)


@app.command()
def status(inventory: Path = INVENTORY, json: bool = JSON) -> None:
    """Show what is installed and set on every machine."""
    from svload import api

    with live() as emit:
        found = api.fleet_status(inventory, emit)
    _show(found, json, _state)


@app.command()
def clean(inventory: Path = INVENTORY, json: bool = JSON) -> None:
    """Restore settings and remove svload from every machine."""
    from svload import api

    with live() as emit:
        found = api.fleet_clean(inventory, emit)
    _show(found, json, _done)


def _show(found: FleetResult, as_json: bool, words: Any) -> None:
    """Print one line per machine with its notes, or JSON; then the problems."""
    if as_json:
        print_json({"machines": [_plain(one) for one in found.machines], "changed": found.changed})
    else:
        for one in found.machines:
            place = f" at {one.member.site}" if one.member.site else ""
            typer.echo(f"{one.member.name} ({one.member.does}{place}): {_or_failed(one, words)}")
            for note in one.notes:
                typer.echo(f"  {note}")
    for problem in found.problems:
        typer.echo(f"svload: {problem}", err=True)
    leave(found.exit_code)


def _or_failed(one: MachineReport, words: Any) -> str:
    return "failed, see below" if one.problems else str(words(one))


def _capacity(one: MachineReport) -> str:
    capacity = one.capacity
    if capacity is None:
        return "not read"
    texts = [f"{capacity.connections} connections ({capacity.bound_by})", f"{capacity.cores} cores for load"]
    if one.clock is not None:
        texts.append(f"clock known to ± {show_duration(one.clock.bound_ns / 1e9)}")
        texts.append(f"round trip {show_duration(one.clock.round_trip_ns / 1e9)}")
    if capacity.to_bytes_per_s is not None and capacity.back_bytes_per_s is not None:
        texts.append(
            f"{show_size(capacity.to_bytes_per_s)}/s there, {show_size(capacity.back_bytes_per_s)}/s back"
        )
    return ", ".join(texts)


def _state(one: MachineReport) -> str:
    if not one.answer.get("version"):
        return "svload is not installed"
    settings = ", ".join(
        f"{name} = {' '.join(value.split())}" for name, value in one.answer["settings"].items()
    )
    return f"svload {one.answer['version']}" + (f", set: {settings}" if settings else "")


def _done(one: MachineReport) -> str:
    steps = "1 step" if one.changed == 1 else f"{one.changed} steps"
    return f"{steps} changed" if one.changed else "nothing to change"


def _plain(one: MachineReport) -> dict[str, Any]:
    capacity = one.capacity
    return {
        "name": one.member.name,
        "address": one.member.address,
        "site": one.member.site,
        "generates": one.member.generates,
        "serves": one.member.serves,
        "facts": one.facts,
        "capacity": vars(capacity) if capacity is not None else None,
        "clock": vars(one.clock) if one.clock is not None else None,
        "wall": vars(one.wall) if one.wall is not None else None,
        "answer": one.answer,
        "changed": one.changed,
        "notes": one.notes,
        "problems": [{"code": problem.code, "text": str(problem)} for problem in one.problems],
    }
