"""`svload aa`: compare a lab with itself."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import (
    AUTHORISE,
    DURATION,
    HOST_SETTINGS,
    JSON,
    NO_WAIT,
    ONLY,
    OUT,
    PROFILE,
    SEED,
    TRUST,
    WAIT_QUIET,
    measure_overrides,
)
from svload.cli.output import choices, leave, live, print_json, report_problems
from svload.model.errors import ExitCode


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(aa)


def aa(
    study: str = typer.Argument(help="The study's folder or file."),
    pairs: int = typer.Option(20, "--pairs", help="Pairs of trials for each load; at least 20."),
    profile: str = PROFILE,
    seed: int = SEED,
    out: Path = OUT,
    trust: bool = TRUST,
    authorise: list[str] = AUTHORISE,
    host_settings: bool = HOST_SETTINGS,
    only: str = ONLY,
    duration: str = DURATION,
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    json: bool = JSON,
) -> None:
    """Compare a study's lab with itself, to learn the smallest difference that it can claim (the floor)."""
    from svload import api

    chosen = choices(
        profile=profile, seed=seed, out=out, trust=trust, authorise=authorise, only=only, wait=not no_wait,
        wait_quiet=wait_quiet, host_settings=host_settings,
        overrides=measure_overrides(None, duration),
    )  # fmt: skip
    with live() as emit:
        made, result = api.aa(study, chosen, pairs, emit)
    report_problems(result.outcome.error)
    if json:
        print_json(
            {"run": str(result.run.path), "certificate": made.model_dump(mode="json") if made else None}
        )
    else:
        from svload.report.terminal.tables import show_aa

        show_aa(made, result.run.path)
    leave(ExitCode.worst([result.outcome.exit_code, ExitCode.DONE if made else ExitCode.REFUSED]))
