"""`svload capacity`: the largest load that meets a criterion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from svload.cli.commands.load import Request, group_flags, quick_load
from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, ONLY, OUT, PROFILE, SEED, TRUST, WAIT_QUIET
from svload.cli.output import choices, live, show_result
from svload.cli.taking import taking


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=EXAMPLES)(capacity)


EXAMPLES = """Examples:

\b
  svload capacity http://127.0.0.1:8080/ --that 'p95 <= 200 ms' --for 90s
  svload capacity http://127.0.0.1:8080/api -H 'Authorization: Bearer 7' --data '{"id": 7}' --rate --that 'p95 <= 200 ms'
  svload capacity STUDY --at-least 400

Request options (-H, --data, --http2 ...) apply to a URL only; a study defines its own requests.

Exit status: 0 the limit was found, 1 it is below --at-least, 4 it was not found, 2 wrong usage, 3 no server answers."""


# fmt: off
@dataclass(frozen=True)
class Typed(Request):
    """Arguments and options of `svload capacity`."""

    target: str = typer.Argument(help="A study with an open factor, or a URL.")
    that: str = typer.Option(None, "--that", help='The criteria, such as "p95 <= 200 ms and success_rate >= 99.9 %"; default: the study\'s thresholds.')
    until: str = typer.Option(None, "--until", help='Instead of --that: find where more load gains little, "gain < 10 %".')
    at_least: int = typer.Option(None, "--at-least", min=1, help="The load you need: exit with 1 if the limit is below it, 4 if undecided.")
    over: str = typer.Option(None, "--over", help="The factor to search; with --from and --to it need not be open in the study.")
    least: int = typer.Option(None, "--from", min=1, help="The smallest load.")
    most: int = typer.Option(None, "--to", min=2, help="The largest load.")
    rate: bool = typer.Option(False, "--rate", help="For a URL: search for requests per second instead of users.")
    within: str = typer.Option(None, "--for", help="Answer after about this time, such as 90s.")
    tolerance: float = typer.Option(5.0, "--tolerance", min=0.1, max=100, help="Stop when the interval is no wider than this, in %.")
    duration: str = typer.Option(None, "--duration", "-d", help="Measured time per trial; for a URL 5s, or less if --for is short.")
    profile: str = PROFILE
    seed: int = SEED
    out: Path = OUT
    trust: bool = TRUST
    authorise: list[str] = AUTHORISE
    only: str = ONLY
    no_wait: bool = NO_WAIT
    wait_quiet: str = WAIT_QUIET
    json: bool = JSON
# fmt: on


@taking(Typed, group_flags())
def capacity(typed: Typed, flags: dict[str, Any]) -> None:
    """Find the largest load at which a criterion holds, with an interval."""
    from svload import api
    from svload.api.typed import seconds

    asked = api.CapacityAsk(
        typed.target,
        typed.that or "",
        typed.until or "",
        typed.over or "",
        typed.least,
        typed.most,
        typed.tolerance / 100,
        None if typed.within is None else seconds(typed.within, "--for"),
        typed.at_least,
        quick_load(typed, flags, url=typed.target, rate_rps=1.0 if typed.rate else None),
        api.LoadFiles(typed.ca, typed.data_file),
    )
    chosen = choices(
        profile=typed.profile,
        seed=typed.seed,
        out=typed.out,
        trust=typed.trust,
        authorise=typed.authorise,
        only=typed.only,
        wait=not typed.no_wait,
        wait_quiet=typed.wait_quiet,
    )
    with live() as emit:
        result = api.capacity(asked, chosen, emit)
    show_result(result, typed.json)
