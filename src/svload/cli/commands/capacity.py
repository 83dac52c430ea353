"""`svload capacity`: the largest load that keeps a criterion."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, ONLY, OUT, PROFILE, SEED, TRUST, WAIT_QUIET
from svload.cli.output import choices, live, show_result


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(capacity)


def capacity(
    target: str = typer.Argument(help="A study with an open factor, or the URL of one server."),
    that: str = typer.Option(
        None,
        "--that",
        help='What must hold: "p95 <= 200 ms and success_rate >= 99.9 %"; default: the study\'s thresholds.',
    ),
    until: str = typer.Option(None, "--until", help='Instead: where more load gains little, "gain < 10 %".'),
    at_least: int = typer.Option(
        None, "--at-least", min=1, help="The load that is needed: exit 1 if it surely breaks, 4 if open."
    ),
    over: str = typer.Option(
        None,
        "--over",
        help="The factor that is searched; with --from and --to it need not be open in the study.",
    ),
    least: int = typer.Option(None, "--from", min=1, help="The least load."),
    most: int = typer.Option(None, "--to", min=2, help="The largest load."),
    rate: bool = typer.Option(False, "--rate", help="Of a URL: requests a second, not users."),
    within: str = typer.Option(None, "--for", help="End with what is known after about this time: 2m."),
    tolerance: float = typer.Option(
        5.0, "--tolerance", min=0.1, max=100, help="Width of the bracket that is narrow enough, in %."
    ),
    duration: str = typer.Option(
        None,
        "--duration",
        "-d",
        help="Of a URL: the measured time of each trial; default 5s, less where --for is short.",
    ),
    profile: str = PROFILE,
    seed: int = SEED,
    out: Path = OUT,
    trust: bool = TRUST,
    authorise: list[str] = AUTHORISE,
    only: str = ONLY,
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    json: bool = JSON,
) -> None:
    """Find the largest load that keeps a criterion: a bracket, bisected, its ends measured again."""
    from svload import api
    from svload.api.typed import seconds

    asked = api.CapacityAsk(
        target,
        that or "",
        until or "",
        over or "",
        least,
        most,
        tolerance / 100,
        None if within is None else seconds(within, "--for"),
        rate,
        duration,
        at_least,
    )
    chosen = choices(
        profile=profile, seed=seed, out=out, trust=trust, authorise=authorise, only=only, wait=not no_wait, wait_quiet=wait_quiet
    )  # fmt: skip
    with live() as emit:
        result = api.capacity(asked, chosen, emit)
    show_result(result, json)
