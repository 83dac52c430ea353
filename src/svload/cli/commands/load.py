"""`svload load URL`: one URL, without a study of one's own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, WAIT_QUIET
from svload.cli.output import leave, load_live, print_json, quiet_seconds, tell_problems
from svload.cli.taking import taking
from svload.model.bounds import REDIRECTS
from svload.model.options import flagged

if TYPE_CHECKING:
    from svload.api import QuickLoad

EXAMPLES = """Examples:

\b
  svload load http://127.0.0.1:8080/ -c 64 -d 10s
  svload load http://127.0.0.1:8080/ --rate 500 -d 10s --threshold 'p(99)<200ms' --threshold 'errors<1%'
  svload load http://127.0.0.1:8080/ -n 1000 -c 16 --json
  svload load http://127.0.0.1:8080/ -X POST -H 'Content-Type: application/json' --data '{"id": 7}' -d 5s
  svload load http://127.0.0.1:8080/ --stage 5s:100/s,5s:500/s --out runs

Exit status: 0 done, 1 a threshold failed or nothing was ok, 2 wrong usage, 3 no server there or the machine failed,
4 a threshold can't be judged, 130 interrupted."""


# fmt: off
@dataclass(frozen=True)
class Request:
    """What is asked of the URL and how: the same for each command that loads one, but for the flags of a traffic
    group's options (`model.options`)."""

    max_vus: int = typer.Option(None, "--max-vus", min=1, help="Most requests at once with --rate.")
    on_full: str = typer.Option(None, "--on-full", help="With all of --max-vus busy: wait (counted in response) or drop.")
    arrivals: str = typer.Option(None, "--arrivals", help="With --rate: constant or poisson.")
    think_time: str = typer.Option(None, "--think-time", help="A user's pause before its next request.")
    method: str = typer.Option(None, "--method", "-X", help="GET, HEAD, DELETE, OPTIONS, POST, PUT or PATCH; default GET, with a body POST.")
    header: list[str] = typer.Option(None, "--header", "-H", help="A header, “Name: value”; repeatable.")
    data: str = typer.Option(None, "--data", "--body", help="The request's body.")
    data_file: Path = typer.Option(None, "--data-file", "-D", help="The file that is the request's body.")
    timeout: str = typer.Option(None, "--timeout", "-t", help="From a request's begin until its last byte; default 30s.")
    redirects: int = typer.Option(0, "--follow-redirects", min=0, max=REDIRECTS.most, help="How many redirects are followed.")
    no_keepalive: bool = typer.Option(False, "--no-keepalive", "--disable-keepalive", help="A new connection for each request.")
    http2: bool = typer.Option(False, "--http2", help="Ask over HTTP/2: by ALPN over https, by prior knowledge over http.")
    streams: int = typer.Option(1, "--streams", "-m", min=1, help="With --http2: so many users share a connection.")
    insecure: bool = typer.Option(False, "--insecure", "-k", help="Any certificate will do.")
    ca: Path = typer.Option(None, "--cacert", "--ca", help="PEM file of the authority that signed the server's certificate.")
    connect_to: str = typer.Option(None, "--connect-to", help="Connect to HOST:PORT instead; the URL still names the server.")
    awake: bool = typer.Option(False, "--awake", help="Keep CPUs from sleeping between requests, where root allows: less lag; a guest may pay for it.")
    generators: int = typer.Option(1, "--generators", "--threads", min=1, max=64, help="How many processes share the load.")


@dataclass(frozen=True)
class Typed(Request):
    """What may be typed after `svload load`."""

    url: str = typer.Argument(help="What to load.")
    vus: int = typer.Option(None, "--vus", "-c", "--connections", min=1, help="Virtual users, a connection each (closed loop); default 64.")
    rate: float = typer.Option(None, "--rate", "-R", "-q", help="Requests per second, whatever the server does (open loop).")
    duration: str = typer.Option(None, "--duration", "-d", "-z", help="How long; default 10s. With --requests at most; default 10min.")
    requests: int = typer.Option(None, "--requests", "-n", "--iterations", min=1, help="So many requests of all users together, then stop.")
    stage: list[str] = typer.Option(None, "--stage", "--stages", "-s", help="30s:100 (users) or 30s:500/s (rate), in a straight line from the level before; repeatable, or separated by commas.")
    ramp_up: str = typer.Option(None, "--ramp-up", help="Until all users are there, or before what counts; not measured.")
    threshold: list[str] = typer.Option(None, "--threshold", help="'p(99)<200ms', 'avg<50ms', 'rate>500', 'errors<1%': exit 1 if it fails; repeatable.")
    seed: int = typer.Option(None, "--seed", help="Seed of all schedules.")
    out: Path = typer.Option(None, "--out", "-o", help="Keep the run in this folder, for report, compare, why and query.")
    authorise: list[str] = AUTHORISE
    no_wait: bool = NO_WAIT
    wait_quiet: str = WAIT_QUIET
    quiet: bool = typer.Option(False, "--quiet", help="Nothing while it runs.")
    json: bool = JSON
# fmt: on


def group_flags() -> dict[str, tuple[Any, Any]]:
    """The options of a traffic group that have a flag."""
    kinds = {bool: bool, int: int}
    return {
        one.key: (
            str if one.is_time else kinds.get(one.kind, str),
            typer.Option(None, f"--{one.key.replace('_', '-')}", help=one.option.flag),
        )
        for one in flagged()
    }


@taking(Typed, group_flags())
def load(typed: Typed, flags: dict[str, Any]) -> None:
    """Load one URL and say what it took: closed loop with 64 users, or --rate for an open one."""
    from svload import api

    quiet_s = quiet_seconds(typed.wait_quiet)
    ask = quick_load(
        typed,
        flags,
        rate_rps=typed.rate,
        stages=tuple(typed.stage or ()),
        thresholds=tuple(typed.threshold or ()),
    )
    with load_live(ask.lasts_s, typed.quiet) as emit:
        result = api.load(
            ask,
            files=api.LoadFiles(typed.ca, typed.data_file),
            out=typed.out,
            authorised=tuple(typed.authorise or ()),
            wait_s=0.0 if typed.no_wait else None,
            wait_quiet_s=quiet_s,
            emit=emit,
        )
    if typed.json:
        print_json(result.summary.model_dump(mode="json", by_alias=True))
    else:
        from svload.report import show_load

        show_load(result.summary)
    tell_problems(result.error)
    leave(result.exit_code)


def quick_load(typed: Request, flags: dict[str, Any], **rest: Any) -> QuickLoad:
    """What was typed as the API has it: fields of one name as they are, the others by `rest`."""
    from svload.api import QuickLoad

    own = {one.name for one in fields(QuickLoad)}
    same = {one.name: getattr(typed, one.name) for one in fields(typed) if one.name in own}
    said = {key: value for key, value in flags.items() if value is not None}
    return QuickLoad(
        **same | {key: value for key, value in said.items() if key in own},
        headers=tuple(typed.header or ()),
        follow_redirects=typed.redirects,
        keep_alive=not typed.no_keepalive,
        options={key: value for key, value in said.items() if key not in own},
        **rest,
    )


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=EXAMPLES)(load)
