"""`svload capacity`: the largest load that keeps a criterion."""

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

Options of the request (-H, --data, --http2 ...) are for a URL; a study has its own.

Exit status: 0 the limit is known, 1 fewer than --at-least, 4 not known, 2 wrong usage, 3 no server there."""


# fmt: off
@dataclass(frozen=True)
class Typed(Request):
    """What may be typed after `svload capacity`."""

    target: str = typer.Argument(help="A study with an open factor, or the URL of one server.")
    that: str = typer.Option(None, "--that", help='What must hold: "p95 <= 200 ms and success_rate >= 99.9 %"; default: the study\'s thresholds.')
    until: str = typer.Option(None, "--until", help='Instead: where more load gains little, "gain < 10 %".')
    at_least: int = typer.Option(None, "--at-least", min=1, help="The load that is needed: exit 1 if it is surely too much, 4 if open.")
    over: str = typer.Option(None, "--over", help="The factor that is searched; with --from and --to it need not be open in the study.")
    least: int = typer.Option(None, "--from", min=1, help="The least load.")
    most: int = typer.Option(None, "--to", min=2, help="The largest load.")
    rate: bool = typer.Option(False, "--rate", help="Of a URL: requests a second, not users.")
    within: str = typer.Option(None, "--for", help="Answer after about this time: 90s.")
    tolerance: float = typer.Option(5.0, "--tolerance", min=0.1, max=100, help="Width of the interval that is narrow enough, in %.")
    duration: str = typer.Option(None, "--duration", "-d", help="The measured time of each trial; of a URL 5s, less where --for is short.")
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
    """Find the largest load that keeps a criterion: a line through trials around the limit, with its interval."""
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
