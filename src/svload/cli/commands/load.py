"""`svload load URL`: one URL, without a study of one's own."""

from __future__ import annotations

from pathlib import Path

import typer

from svload.cli.commands.studies import AUTHORISE, JSON, NO_WAIT, WAIT_QUIET
from svload.cli.output import leave, load_live, print_json, quiet_seconds, tell_problems

EXAMPLES = """Examples:

\b
  svload load http://127.0.0.1:8080/ -c 64 -d 10s
  svload load http://127.0.0.1:8080/ --rate 500 -d 10s --threshold 'p(99)<200ms' --threshold 'errors<1%'
  svload load http://127.0.0.1:8080/ -n 1000 -c 16 --json
  svload load http://127.0.0.1:8080/ -X POST -H 'Content-Type: application/json' --data '{"id": 7}' -d 5s
  svload load http://127.0.0.1:8080/ --stage 5s:100/s,5s:500/s --out runs

Exit status: 0 done, 1 a threshold failed or nothing was ok, 2 wrong usage, 3 no server there or the machine failed,
4 a threshold can't be judged, 130 interrupted."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=EXAMPLES)(load)


def load(
    url: str = typer.Argument(help="What to load."),
    vus: int = typer.Option(None, "--vus", "-c", "--connections", min=1, help="Virtual users, a connection each (closed loop); default 64."),
    rate: float = typer.Option(None, "--rate", "-R", "-q", help="Requests per second, whatever the server does (open loop)."),
    duration: str = typer.Option(None, "--duration", "-d", "-z", help="How long; default 10s. With --requests at most; default 10min."),
    requests: int = typer.Option(None, "--requests", "-n", "--iterations", min=1, help="So many requests of all users together, then stop."),
    stage: list[str] = typer.Option(None, "--stage", "--stages", "-s", help="30s:100 (users) or 30s:500/s (rate), in a straight line from the level before; repeatable, or separated by commas."),
    max_vus: int = typer.Option(None, "--max-vus", min=1, help="Most requests at once with --rate."),
    on_full: str = typer.Option(None, "--on-full", help="With all of --max-vus busy: wait (counted in response) or drop."),
    arrivals: str = typer.Option(None, "--arrivals", help="With --rate: constant or poisson."),
    think_time: str = typer.Option(None, "--think-time", help="A user's pause before its next request."),
    ramp_up: str = typer.Option(None, "--ramp-up", help="Until all users are there, or before what counts; not measured."),
    method: str = typer.Option(None, "--method", "-X", help="GET, HEAD, DELETE, OPTIONS, POST, PUT or PATCH; default GET, with a body POST."),
    header: list[str] = typer.Option(None, "--header", "-H", help="A header, “Name: value”; repeatable."),
    data: str = typer.Option(None, "--data", "--body", help="The request's body."),
    data_file: Path = typer.Option(None, "--data-file", "-D", help="The file that is the request's body."),
    timeout: str = typer.Option("30s", "--timeout", "-t", help="From a request's begin until its last byte."),
    redirects: int = typer.Option(0, "--follow-redirects", min=0, max=100, help="How many redirects are followed."),
    no_keepalive: bool = typer.Option(False, "--no-keepalive", "--disable-keepalive", help="A new connection for each request."),
    http2: bool = typer.Option(False, "--http2", help="Ask over HTTP/2: by ALPN over https, by prior knowledge over http."),
    streams: int = typer.Option(1, "--streams", "-m", min=1, help="With --http2: so many users share a connection."),
    insecure: bool = typer.Option(False, "--insecure", "-k", help="Any certificate will do."),
    ca: Path = typer.Option(None, "--cacert", "--ca", help="PEM file of the authority that signed the server's certificate."),
    connect_to: str = typer.Option(None, "--connect-to", help="Connect to HOST:PORT instead; the URL still names the server."),
    spin: str = typer.Option(None, "--spin", help="Before each start and for awaited answers, ask again and again for so long, such as 60us: less lag, more CPU."),
    pacing_quantum: str = typer.Option(None, "--pacing-quantum", help="Begin what is due only so often, such as 1ms: less CPU, more lag."),
    awake: bool = typer.Option(False, "--awake", help="Keep CPUs from sleeping between requests, where root allows: less lag; a guest may pay for it."),
    generators: int = typer.Option(1, "--generators", "--threads", min=1, max=64, help="How many processes share the load."),
    threshold: list[str] = typer.Option(None, "--threshold", help="'p(99)<200ms', 'avg<50ms', 'rate>500', 'errors<1%': exit 1 if it fails; repeatable."),
    seed: int = typer.Option(None, "--seed", help="Seed of all schedules."),
    out: Path = typer.Option(None, "--out", "-o", help="Keep the run in this folder, for report, compare, why and query."),
    authorise: list[str] = AUTHORISE,
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    quiet: bool = typer.Option(False, "--quiet", help="Nothing while it runs."),
    json: bool = JSON,
) -> None:  # fmt: skip
    """Load one URL and say what it took: closed loop with 64 users, or --rate for an open one."""
    from svload import api

    ask = api.QuickLoad(
        url, vus=vus, rate_rps=rate, duration=duration, requests=requests, stages=tuple(stage or ()), max_vus=max_vus,
        on_full=on_full, arrivals=arrivals, think_time=think_time, ramp_up=ramp_up, method=method, headers=tuple(header or ()),
        data=data, timeout=timeout, follow_redirects=redirects, keep_alive=not no_keepalive, http2=http2, streams=streams, insecure=insecure,
        connect_to=connect_to, spin=spin, pacing_quantum=pacing_quantum, awake=awake, generators=generators, thresholds=tuple(threshold or ()), seed=seed,
    )  # fmt: skip
    quiet_s = quiet_seconds(wait_quiet)
    with load_live(ask.lasts_s, quiet) as emit:
        result = api.load(
            ask, files=api.LoadFiles(ca, data_file), out=out, authorised=tuple(authorise or ()),
            wait_s=0.0 if no_wait else None, wait_quiet_s=quiet_s, emit=emit,
        )  # fmt: skip
    if json:
        print_json(result.summary.model_dump(mode="json", by_alias=True))
    else:
        from svload.report import show_load

        show_load(result.summary)
    tell_problems(result.error)
    leave(result.exit_code)
