"""`svload compare`: two runs, or two URLs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

from svload.cli.commands.load import Traffic, group_flags, quick_load
from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, OUT, WAIT_QUIET
from svload.cli.output import choices, leave, live, print_json, report_damage, show_result
from svload.cli.taking import taking
from svload.model.errors import ExitCode, fail

EXAMPLES = """Examples:

\b
  svload compare http://127.0.0.1:8080/v1 http://127.0.0.1:8080/v2
  svload compare https://old.example/ https://new.example/ --authorise old.example --authorise new.example --rate 200
  svload compare http://127.0.0.1:8080/ http://127.0.0.1:8081/ --fail-if 'p95 worse by more than 5 %' --for 5m
  svload compare before.svload.zip latest

Options of the request and of the load (-H, --data, -c, --rate ...) are for URLs.

Exit status: 0 done (two URLs: there is an answer, and --fail-if does not hold); 1 --fail-if holds, or no request to one
URL succeeded; 2 wrong usage, or runs without a common case; 3 no server answers or the machine failed; 4 --fail-if
is undecided, or nothing can be concluded; 130 interrupted."""


# fmt: off
@dataclass(frozen=True)
class Typed(Traffic):
    """Arguments and options of `svload compare`."""

    first: str = typer.Argument(help="The run or the URL that is the baseline.")
    second: str = typer.Argument(help="The other run, or the other URL.")
    blocks: int = typer.Option(None, "--blocks", min=3, help="For URLs: number of blocks of turns, a few seconds apart; default 6, of 25 seconds each.")
    duration: str = typer.Option(None, "--duration", "-d", help="For URLs: load time of each in a block, in at least 20 turns; default 10s.")
    fail_if: str = typer.Option(None, "--fail-if", help="For URLs: 'worse by more than 5 %' (p50 or p95) or 'p95 worse by more than 5 %': exit 1 if so, 4 if undecided.")
    within: str = typer.Option(None, "--for", help="For URLs: limit of the total time, such as 5m, warm-up included: adds blocks if needed, or makes fewer than --blocks, at least 3.")
    control: bool = typer.Option(False, "--control", help="For URLs: load the first one once more as a third side; its difference from itself shows the effect of the setup.")
    seed: int = typer.Option(None, "--seed", help="Seed of the order and of all schedules.")
    to: Path | None = typer.Option(None, "--to", help="For runs: the file of the page; default derived/compare.html of the other run.")
    out: Path = OUT
    authorise: list[str] = AUTHORISE
    no_wait: bool = NO_WAIT
    wait_quiet: str = WAIT_QUIET
    json: bool = JSON
# fmt: on

_OF_RUNS = ("first", "second", "to", "out", "json")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=EXAMPLES)(compare)


@taking(Typed, group_flags())
def compare(typed: Typed, flags: dict[str, Any]) -> None:
    """Compare two runs case by case, or load two URLs by turns and say which is faster.

    Runs: ratios, and a page; they were not interleaved, and it says so. URLs (with a scheme): the same load
    alternates between them within the second, so both meet the same disturbances; the answer has an
    interval, and the run is saved.
    """
    from svload import api

    if api.are_urls(typed.first, typed.second):
        _urls(typed, flags)
    else:
        _runs(typed, flags)


def _urls(typed: Typed, flags: dict[str, Any]) -> None:
    from svload import api
    from svload.api.typed import seconds
    from svload.report.wording.answer import faster_sentence

    if typed.to is not None:
        raise fail("usage", reason="--to applies to runs", hint="The page of this run is in its derived/.")
    ask = api.ComparedUrls(
        quick_load(typed, flags, url=typed.first, rate_rps=typed.rate),
        typed.second,
        typed.blocks,
        typed.fail_if or "",
        None if typed.within is None else seconds(typed.within, "--for"),
        typed.control,
    )
    chosen = choices(
        seed=typed.seed,
        out=typed.out,
        authorise=typed.authorise,
        wait=not typed.no_wait,
        wait_quiet=typed.wait_quiet,
    )
    with live() as emit:
        result = api.compare_urls(ask, chosen, emit, api.LoadFiles(typed.ca, typed.data_file))
    show_result(result, typed.json, faster_sentence)


def _runs(typed: Typed, flags: dict[str, Any]) -> None:
    from svload import api

    if names := _only_of_urls(typed, flags):
        raise fail(
            "usage",
            reason=f"{names} applies to URLs, but these are runs",
            hint="Leave it out, or write http:// or https:// before each URL.",
        )
    out = typed.out or api.RUNS
    for run in (typed.first, typed.second):
        report_damage(run, out)
    rows, page = api.compare(typed.first, typed.second, out, typed.to)
    if typed.json:
        print_json(rows)
    else:
        from svload.report.terminal.tables import show_comparison

        show_comparison(rows, page)
    leave(ExitCode.DONE if rows else ExitCode.USAGE)


def _only_of_urls(typed: Typed, flags: dict[str, Any]) -> str:
    """Return the first typed option that does not apply to runs; "" if there is none."""
    for one in fields(typed):
        value = getattr(typed, one.name)
        given = value not in (None, (), one.default.default)  # type: ignore[union-attr]
        if one.name not in _OF_RUNS and given:
            return str(one.default.param_decls[0])  # type: ignore[union-attr]
    return next((f"--{name.replace('_', '-')}" for name, value in flags.items() if value is not None), "")
