"""Commands and exit codes: the program's own help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference.markdown import code, page, table

TITLE = "Commands, exit codes, environment"


def make() -> str:
    from svload.model.environment import VARIABLES
    from svload.model.errors import ExitCode

    texts = [
        "## Exit codes\n",
        "If several apply, the exit code is the first of 2, 130, 3, 1, 4, 0.\n",
        table(("code", "name", "when"), [(str(int(one)), one.name, _EXITS[one.name]) for one in ExitCode]),
        "`--json`: stdout is the result, stderr the progress. Runs land in `./runs`, or under `--out DIR`; "
        "`latest` is the newest "
        "complete one.\n",
        "## Environment\n",
        table(("variable", "what it does"), [(code(name), text) for name, text in VARIABLES.items()]),
    ]
    for name, text in help_pages().items():
        texts.append(f"## {name}\n\n```text\n{text.strip()}\n```\n")
    return page(TITLE, *texts)


_EXITS = {
    "DONE": "done; thresholds and gates hold",
    "THRESHOLD_FAILED": "a threshold or a gate (`fail_if`) failed, a server disappeared, `abort_if` held, or no request "
    "of a load succeeded",
    "USAGE": "the study or the command is wrong, a target is not authorised, a run is damaged; nothing was started",
    "LAB_FAILED": "the lab or the machine failed; `svload resume` continues",
    "REFUSED": "a threshold, a gate or a search is undecided, or the study has no answer; never a pass",
    "INTERRUPTED": "interrupted; `svload resume` continues",
}


def help_pages() -> dict[str, str]:
    """Return `svload …` → its --help, 100 columns wide, in the order of the program's own list."""
    import typer
    from typer.testing import CliRunner

    from svload.cli.app import app

    runner = CliRunner()

    def ask(words: Sequence[str]) -> str:
        return runner.invoke(app, [*words, "--help"], prog_name="svload", env={"COLUMNS": "100"}).output

    found = {"svload": ask(())}
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        found[f"svload {name}"] = ask((name,))
        for inner in getattr(command, "commands", {}):
            found[f"svload {name} {inner}"] = ask((name, inner))
    return found
