"""The commands that the project promises are all there; each says what it does, and each takes --json."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from svload.cli.app import app

COMMANDS = [
    "demo",
    "init",
    "plan",
    "run",
    "resume",
    "why",
    "report",
    "compare",
    "import",
    "query",
    "verify",
    "pack",
    "load",
    "probe",
    "lab",
    "fleet",
    "doctor",
    "schema",
]
OF_LABS = ["install", "up", "status", "reset", "down", "urls"]
OF_FLEETS = ["check", "install", "status", "clean"]


def names(group: typer.Typer) -> dict[str, list[str]]:
    """Each command with the options it takes."""
    found = typer.main.get_command(group)
    return {
        name: [option for parameter in command.params for option in parameter.opts]
        for name, command in found.commands.items()
    }


def test_they_are_those_of_the_design() -> None:
    from svload.cli.commands import fleet, lab

    found, of_labs, of_fleets = names(app), names(lab.app), names(fleet.app)
    assert set(COMMANDS) <= set(found)
    assert sorted(of_labs) == sorted(OF_LABS)
    assert sorted(of_fleets) == sorted(OF_FLEETS)
    groups = {"lab", "fleet"}
    silent = [
        name
        for name, options in [*found.items(), *of_labs.items(), *of_fleets.items()]
        if "--json" not in options and name not in groups
    ]
    assert silent == []


def test_each_answers_help() -> None:
    runner = CliRunner()
    for words in (
        [[name] for name in COMMANDS]
        + [["lab", name] for name in OF_LABS]
        + [["fleet", name] for name in OF_FLEETS]
    ):
        done = runner.invoke(app, [*words, "--help"], prog_name="svload")
        assert done.exit_code == 0, words
        assert done.output.startswith(f"Usage: svload {' '.join(words)}"), words
