"""All promised commands exist and take --json, and no flag has two meanings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from svload.cli.app import app
from svload.cli.commands import fleet, lab

COMMANDS = {"demo", "init", "plan", "run", "resume", "why", "report", "compare", "import", "query", "verify"}
COMMANDS |= {"pack", "load", "probe", "lab", "fleet", "doctor", "schema"}
OF_LABS = {"install", "up", "status", "reset", "down", "urls"}
OF_FLEETS = {"check", "install", "status", "clean"}


def names(group: typer.Typer) -> dict[str, list[str]]:
    """Return each command with the options it takes."""
    found = typer.main.get_command(group)
    return {
        name: [option for parameter in command.params for option in parameter.opts]
        for name, command in found.commands.items()
    }


def test_they_are_those_of_the_design() -> None:
    found, of_labs, of_fleets = names(app), names(lab.app), names(fleet.app)
    assert set(found) >= COMMANDS
    assert (set(of_labs), set(of_fleets)) == (OF_LABS, OF_FLEETS)
    every = [*found.items(), *of_labs.items(), *of_fleets.items()]
    assert [name for name, options in every if "--json" not in options and name not in ("lab", "fleet")] == []


PAGE = Path(__file__).resolve().parents[2] / "docs" / "load.md"


def flags() -> list[str]:
    command = typer.main.get_command(app).commands["load"]
    return [
        flag for option in command.params for flag in (*option.opts, *option.secondary_opts) if flag[0] == "-"
    ]


def test_no_flag_is_given_twice_and_short_ones_are_in_the_table_for_users_of_peers() -> None:
    assert [flag for flag, count in Counter(flags()).items() if count > 1] == []
    text = PAGE.read_text(encoding="utf-8")
    ours = " ".join(line.rsplit("|", 2)[1] for line in text.splitlines() if line.startswith("| "))
    short = [flag for flag in flags() if not flag.startswith("--")]
    assert [flag for flag in short if f"`{flag}`" not in ours and f"`{flag} " not in ours] == []
