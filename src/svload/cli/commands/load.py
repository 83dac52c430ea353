"""`svload load URL`: one URL, without a study."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, WAIT_QUIET
from svload.cli.output import leave, load_live, print_json, quiet_seconds, report_problems
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

Exit status: 0 done, 1 a threshold failed or no request succeeded, 2 wrong usage, 3 no server answers or the machine
failed, 4 a threshold can't be decided, 130 interrupted."""


# fmt: off
@dataclass(frozen=True)
class Request:
    """The request and its options, shared by all commands that load a URL; a traffic group's options
    (`model.options`) have their own flags."""

    max_vus: int = typer.Option(None, "--max-vus", min=1, help="With --rate: the most requests in progress at once.")
    on_full: str = typer.Option(None, "--on-full", help="When all --max-vus are busy: wait (counted in the response time) or drop.")
    arrivals: str = typer.Option(None, "--arrivals", help="With --rate: constant or poisson.")
    think_time: str = typer.Option(None, "--think-time", help="How long a user pauses before its next request.")
    method: str = typer.Option(None, "--method", "-X", help="GET, HEAD, DELETE, OPTIONS, POST, PUT or PATCH; default GET, or POST with a body.")
    header: list[str] = typer.Option(None, "--header", "-H", help="A header, “Name: value”; repeatable.")
    data: str = typer.Option(None, "--data", "--body", help="The request body.")
    data_file: Path = typer.Option(None, "--data-file", "-D", help="Read the request body from this file.")
    timeout: str = typer.Option(None, "--timeout", "-t", help="Timeout of a request, from sending it to the last byte; default 30s.")
    redirects: int = typer.Option(0, "--follow-redirects", min=0, max=REDIRECTS.most, help="Follow up to this many redirects.")
    no_keepalive: bool = typer.Option(False, "--no-keepalive", "--disable-keepalive", help="Open a new connection for each request.")
    http2: bool = typer.Option(False, "--http2", help="Use HTTP/2: negotiated by ALPN over https, by prior knowledge over http.")
    streams: int = typer.Option(1, "--streams", "-m", min=1, help="With --http2: how many users share a connection.")
    insecure: bool = typer.Option(False, "--insecure", "-k", help="Don't verify the server's certificate.")
    ca: Path = typer.Option(None, "--cacert", "--ca", help="PEM file of the CA that signed the server's certificate.")
    connect_to: str = typer.Option(None, "--connect-to", help="Connect to HOST:PORT, but send the URL's host name.")
    awake: bool = typer.Option(False, "--awake", help="Keep CPUs out of idle states between requests (needs root): less lag, but can cost more in a virtual machine.")
    generators: int = typer.Option(1, "--generators", "--threads", min=1, max=64, help="Number of processes that share the load.")


@dataclass(frozen=True)
class Traffic(Request):
    """The request, with the number of users or the rate."""

    vus: int = typer.Option(None, "--vus", "-c", "--connections", min=1, help="Number of virtual users, each with its own connection (closed loop); default 64.")
    rate: float = typer.Option(None, "--rate", "-R", "-q", help="Requests per second, regardless of the server (open loop).")
    ramp_up: str = typer.Option(None, "--ramp-up", help="Time in which the users start, or the first part of a --rate; not measured.")


@dataclass(frozen=True)
class Typed(Traffic):
    """Arguments and options of `svload load`."""

    url: str = typer.Argument(help="The URL to load.")
    duration: str = typer.Option(None, "--duration", "-d", "-z", help="Duration; default 10s. With --requests the longest duration; default 10min.")
    requests: int = typer.Option(None, "--requests", "-n", "--iterations", min=1, help="Stop after this many requests in total.")
    stage: list[str] = typer.Option(None, "--stage", "--stages", "-s", help="30s:100 (users) or 30s:500/s (rate): change linearly to this level; repeatable, or separated by commas.")
    threshold: list[str] = typer.Option(None, "--threshold", help="Exit with 1 if this fails: 'p(99)<200ms', 'avg<50ms', 'rate>500', 'errors<1%', 'p(95)<200 at 50 users'; repeatable.")
    seed: int = typer.Option(None, "--seed", help="Seed of all random choices.")
    out: Path = typer.Option(None, "--out", "-o", help="Save the run in this folder, for report, compare, why and query.")
    authorise: list[str] = AUTHORISE
    no_wait: bool = NO_WAIT
    wait_quiet: str = WAIT_QUIET
    quiet: bool = typer.Option(False, "--quiet", help="Show no progress.")
    json: bool = JSON
# fmt: on


def group_flags() -> dict[str, tuple[Any, Any]]:
    """Return the options of a traffic group that have a flag."""
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
    """Load one URL and summarise the result: closed loop with 64 users, or open loop with --rate."""
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
        from svload.report.terminal.load_end import show_load

        show_load(result.summary)
    report_problems(result.error)
    leave(result.exit_code)


def quick_load(typed: Request, flags: dict[str, Any], **rest: Any) -> QuickLoad:
    """Return what was typed in the API's form: fields of the same name unchanged, the others from `rest`."""
    from svload.api import QuickLoad

    own = {one.name for one in fields(QuickLoad)}
    same = {one.name: getattr(typed, one.name) for one in fields(typed) if one.name in own}
    given = {key: value for key, value in flags.items() if value is not None}
    return QuickLoad(
        **same | {key: value for key, value in given.items() if key in own},
        headers=tuple(typed.header or ()),
        follow_redirects=typed.redirects,
        keep_alive=not typed.no_keepalive,
        options={key: value for key, value in given.items() if key not in own},
        **rest,
    )


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=EXAMPLES)(load)
