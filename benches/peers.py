"""The tools: how to call each, and its own account of the run. A new peer is an entry of `PEERS`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.results import case_of

from benches.measure import Failed

CONNECTIONS = 64
SAMPLES_INTERVAL_NS = 16_666_667
"""svload's interval in its default run of 10 s (duration/600); the same in short and long runs, so that its
cost is part of the slope."""


@dataclass(frozen=True)
class Job:
    """The same job for every tool. `rate_rps` None: as fast as the answers come. `pad` is a header line's
    value or empty. `streams` on each connection: HTTP/2; 0: HTTP/1.1. `depth`: instead of HTTP a fixed number
    of Redis GETs, so many together. Of svload: `quantum_ns` and `spin_ns` are its pacing_quantum and spin;
    with `think`, users who pause make the rate, instead of evenly spaced arrivals."""

    scheme: str = "http"
    port: int = 0
    path: str = "/1k.bin"
    body_bytes: int = 1024
    connections: int = CONNECTIONS
    seconds: int = 1
    new: bool = False
    rate_rps: float | None = None
    pad: str = ""
    ca: Path | None = None
    folder: Path = Path()
    streams: int = 0
    depth: int = 0
    quantum_ns: int = 0
    spin_ns: int = 0
    think: bool = False

    @property
    def at_once(self) -> int:
        """Return the number of concurrent requests."""
        return self.connections * max(self.streams, self.depth, 1)

    @property
    def commands(self) -> int:
        """Return the number of Redis commands: the work is fixed, so that all tools do the same."""
        return self.seconds * (40_000 if self.depth == 1 else 200_000)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{self.path}"

    @property
    def headers(self) -> list[str]:
        """Return the header lines in addition to the tool's own."""
        return [f"X-Pad: {self.pad}"] if self.pad else []

    def under_way(self, requests: int) -> tuple[float, float]:
        """Return the slack for bytes of answers that are in flight at the end."""
        return 1.0, 1.0 + self.at_once * self.body_bytes / max(requests, 1)


@dataclass(frozen=True)
class Numbers:
    """A tool's own account. `bad`: answers of another status, failed or torn requests. `bytes`: of all
    answers; `bytes_slack`: how far their mean may be below and above the body's size (heads if it counts
    them, rounding if it rounds). `summary`: the engine's own."""

    requests: int
    bad: int
    bytes: float
    bytes_slack: tuple[float, float] = (1.0, 1.0)
    summary: Any = None

    @property
    def bytes_each(self) -> float:
        return self.bytes / max(self.requests, 1)


HEAD_BYTES = 400.0
"""The most that an answer's head has here, for tools that count it with the body."""


@dataclass(frozen=True)
class Tool:
    """A load tool: how to install it (`get`; a missing tool is left out and reported), its own account of a
    run (read from its stdout; raises Failed if it can't be found), and what it can do: `http`, and with it
    `pace`, `new` connections, `tls`, `http2`; `redis`.

    Its command, without pipelining and with one thread, is `make`, or its name with `words` (in the syntax of
    a shell), the headers and the URL. A `variant` of svload takes part at a rate only, and is shown beside
    the judged one."""

    name: str
    get: str
    account: Callable[[Job, Path], Numbers]
    can_do: str
    words: Callable[[Job], str] = lambda job: ""
    make: Callable[[Job], list[str]] | None = None
    path: str | None = None
    ours: bool = False
    floor: bool = False
    variant: bool = False

    def program(self) -> str | None:
        """Return its path, or None."""
        own = [str(Path.home() / "go/bin"), str(Path.home() / ".cargo/bin")]
        places = ":".join([os.environ.get("PATH", ""), "/usr/sbin", *own])
        return self.path or shutil.which(self.name, path=places)

    def can(self, job: Job) -> bool:
        """Return whether it can do the job."""
        paced = job.rate_rps is not None
        needs = {
            "redis" if job.depth else "http": True,
            "pace": paced,
            "new": job.new,
            "tls": job.scheme == "https",
            "http2": job.streams > 0,
        }
        able = all(one in self.can_do.split() for one, is_needed in needs.items() if is_needed)
        return able and (paced or not self.variant)

    def command(self, job: Job) -> list[str]:
        """Return the command line for a job."""
        if self.make is not None:
            return self.make(job)
        headers = [word for header in job.headers for word in ("-H", header)]
        return [str(self.program()), *shlex.split(self.words(job)), *headers, job.url]


def _wrk(job: Job, out: Path) -> Numbers:
    """`N requests in T, X.XXMB read`: includes heads, and is rounded to two places."""
    text = out.read_text(errors="replace")
    requests, amount, unit = _find(r"(\d+) requests in [^,]+, ([\d.]+)([KMGT]?)B read", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = [*re.findall(r"Non-2xx or 3xx responses: (\d+)", text), *(errors.groups() if errors else ())]
    scale = 1024 ** " KMGT".index(unit or " ")
    rounding = 1.0 + 0.005 * scale / max(int(requests), 1)
    slack = rounding, HEAD_BYTES + rounding
    return Numbers(int(requests), sum(map(int, bad)), float(amount) * scale, slack)


def _ab(job: Job, out: Path) -> Numbers:
    """Bodies are counted separately. It reads what is in flight at the end, but counts only the bytes."""
    text = out.read_text(errors="replace")
    names = ("Complete requests", "Failed requests", "HTML transferred")
    requests, failed, body = (int(_find(rf"{what}:\s+(\d+)", text)[0]) for what in names)
    bad = failed + sum(map(int, re.findall(r"Non-2xx responses:\s+(\d+)", text)))
    return Numbers(requests, bad, body, job.under_way(requests))


def _h2load(job: Job, out: Path) -> Numbers:
    """`traffic: … data` counts bodies, in full bytes in the brackets."""
    text = out.read_text(errors="replace")
    ended = _find(r"(\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    other = _find(r"status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text)
    body, done = int(_find(r"traffic: .* \((\d+)\) data", text)[0]), int(ended[0])
    return Numbers(done, sum(map(int, (*ended[1:], *other))), body, job.under_way(done))


def _fortio(job: Job, out: Path) -> Numbers:
    """`Sizes` includes heads, `HeaderSizes` are heads only."""
    found = _json(out)
    requests = sum(found["RetCodes"].values())
    body = found["Sizes"]["Sum"] - found["HeaderSizes"]["Sum"]
    return Numbers(requests, requests - found["RetCodes"].get("200", 0), body)


def _oha(job: Job, out: Path) -> Numbers:
    """Requests cut off by its own end are errors named `aborted due to deadline`, not failures."""
    found = _json(out)
    requests = sum(found["statusCodeDistribution"].values())
    failed = sum(count for name, count in found["errorDistribution"].items() if "deadline" not in name)
    bad = failed + requests - found["statusCodeDistribution"].get("200", 0)
    return Numbers(requests, bad, found["summary"]["totalData"])


def _redis_benchmark(job: Job, out: Path) -> Numbers:
    """It gives only a rate, so the server's count is compared with what was asked for."""
    return Numbers(job.commands, 0, 0)


def _wrk_words(job: Job) -> str:
    close = "-H 'Connection: close'" if job.new else ""
    return f"-t1 -c{job.connections} -d{job.seconds}s {close}"


def _ab_words(job: Job) -> str:
    """HTTP/1.0; -n after -t, which would set it to 50,000."""
    return f"-q {'' if job.new else '-k'} -c {job.connections} -t {job.seconds} -n 4000000"


def _h2load_words(job: Job) -> str:
    """HTTP/2 by prior knowledge without TLS; in HTTP/1.1 more than -m1 would be pipelining."""
    speak = f"-m{job.streams}" if job.streams else "--h1 -m1"
    pace = f"--rps={job.rate_rps / job.connections:g}" if job.rate_rps else ""
    return f"{speak} -t1 -c{job.connections} -D{job.seconds} {pace}"


def _fortio_words(job: Job) -> str:
    """Its own fast HTTP/1.1 client; certificates verified; -qps 0: no wait."""
    pace = f"-qps {job.rate_rps:g} -uniform" if job.rate_rps else "-qps 0"
    connect = "-keepalive=false" if job.new else ""
    trust = f"-cacert {job.ca}" if job.scheme == "https" else ""
    return f"load -quiet -c {job.connections} {pace} -t {job.seconds}s -json - {trust} {connect}"


def _oha_words(job: Job) -> str:
    """hyper and tokio, one worker by affinity."""
    pace = f"-q {job.rate_rps:g} --latency-correction" if job.rate_rps else ""
    connect = "--disable-keepalive" if job.new else ""
    trust = f"--cacert {job.ca}" if job.scheme == "https" else ""
    return f"--no-tui --output-format json -c {job.connections} -z {job.seconds}s {pace} {trust} {connect}"


def _redis_words(job: Job) -> list[str]:
    """Records one time per pipeline, and checks nothing."""
    how = f"-n {job.commands} -c {job.connections} -P {job.depth}"
    return f"redis-benchmark -p {job.port} -q -t get {how}".split()


PEERS = (
    Tool("wrk", "apt install wrk", _wrk, "http new tls", _wrk_words),
    Tool("ab", "apt install apache2-utils", _ab, "http new tls", _ab_words),
    Tool("h2load", "apt install nghttp2-client", _h2load, "http pace tls http2", _h2load_words),
    Tool("fortio", "go install fortio.org/fortio@v1.66.5", _fortio, "http pace new tls", _fortio_words),
    Tool("oha", "cargo install --locked oha", _oha, "http pace new tls", _oha_words),
    Tool("redis-benchmark", "apt install redis-tools", _redis_benchmark, "redis", make=_redis_words),
)


def _engine(job: Job, out: Path) -> Numbers:
    """Both identities of docs/method.md §1 are checked too."""
    summary = _json(out)
    (group,) = summary["groups"]
    begun, dropped = group["begun"], group["dropped"]
    all_due = group["due"] == begun + group["waiting"] + dropped
    if not all_due or begun != group["ok"] + group["failed"] + group["in_flight"]:
        raise Failed(f"an identity is broken: {group}")
    bad = begun - group["ok"] + dropped
    return Numbers(begun * max(job.depth, 1), bad, group["body_bytes"], summary=summary)


def engine(name: str, python: str = sys.executable, ours: bool = True, **changes: Any) -> Tool:
    """Return svload's engine as a generator calls it (`svload._native.run_share`): full recording,
    certificates verified; the engine of this interpreter's svload. With changes to each job it is a
    variant."""

    def make(job: Job) -> list[str]:
        """Write the share and return the command that runs it."""
        share, tables = job.folder / "share.json", job.folder / "share.tables"
        share.write_text(json.dumps(share_of(replace(job, **changes))), encoding="utf-8")
        root = f"PYTHONPATH={Path(__file__).parents[1]}"
        return ["env", root, python, "-m", "benches.share", str(share), str(tables)]

    can_do = "http pace new tls http2 redis"
    return Tool(name, "make setup", _engine, can_do, path=python, ours=ours, variant=bool(changes), make=make)


QUANTUM_NS = 1_000_000
SVLOAD = engine("svload")
THINKING = engine("svload think", think=True)
QUANTUM = engine("svload quantum", quantum_ns=QUANTUM_NS)
"""Even due times begin in bursts, as by h2load and fortio."""


def floor(program: Path | None) -> Tool:
    """Return floor.c as a tool: the cost of only sending requests and reading answers."""

    def account(job: Job, out: Path) -> Numbers:
        found = _json(out)
        return Numbers(found["requests"], found["bad"], found["body_bytes"], job.under_way(found["requests"]))

    def make(job: Job) -> list[str]:
        close = ["Connection: close"] if job.new else []
        header, kind = "\r\n".join([*job.headers, *close]), "new" if job.new else "keep-alive"
        return [*map(str, (program, job.port, job.path, job.connections, job.seconds, kind, header))]

    path = str(program) if program else None
    return Tool(
        "floor (C)", "apt install gcc libc6-dev", account, "http new", make=make, path=path, floor=True
    )


def share_of(job: Job) -> dict[str, Any]:
    """Return the job as one share, by svload's own types and code; a rate as arrivals or as think time."""
    from svload.drive.share.cut import build_shares
    from svload.drive.share.timeline import Timeline
    from svload.drive.share.write import plain
    from svload.model.executors import ConstantArrivalRate, ConstantVus, SharedIterations, ThinkTime
    from svload.model.facts import Endpoint
    from svload.model.traffic import Commands, Group, Request, SizeCheck, Text

    scheme, seconds = job.scheme, job.seconds
    executor: Any = ConstantVus(vus=job.at_once)
    request = Request(
        name="get", scheme=scheme, host="127.0.0.1", path=(Text(text=job.path),),
        headers=(("X-Pad", (Text(text=job.pad),)),) if job.pad else (), expect_status=((200, 200),),
        checks=(SizeCheck(name="size", size_bytes=job.body_bytes),),
    )  # fmt: skip
    if job.depth:
        scheme, seconds = "tcp", 100
        get = ((Text(text="GET"),), (Text(text="key:__rand_int__"),))
        pipeline = Commands(protocol="redis", commands=(get,) * job.depth)
        request = Request(
            name="get", method="TCP", scheme="tcp", host="127.0.0.1", path=(), commands=pipeline
        )
        executor = SharedIterations(
            vus=job.connections, iterations=job.commands // job.depth, start="together"
        )
    elif job.rate_rps and job.think:
        pause_ns = round(job.connections / job.rate_rps * 1e9)
        executor = ConstantVus(vus=job.connections, think_time=ThinkTime(constant_ns=pause_ns))
    elif job.rate_rps:
        executor = ConstantArrivalRate(rate_rps=job.rate_rps, max_vus=job.connections)
    group = Group(
        name="load", executor=executor, request=request, connection="new" if job.new else "keep-alive",
        http2=job.streams > 0, streams=max(job.streams, 1), pacing_quantum_ns=job.quantum_ns,
        spin_ns=job.spin_ns, record="histogram",
    )  # fmt: skip
    ca_pem = job.ca.read_text() if job.ca and scheme == "https" else None
    endpoint = Endpoint(scheme=scheme, address="127.0.0.1", port=job.port, ca_pem=ca_pem)
    times = Timeline(ramp_ns=0, duration_ns=seconds * 1_000_000_000)
    (share,) = build_shares(case_of(group), 1, times, {f"{scheme}://127.0.0.1": endpoint}, ["127.0.0.0/8"])
    return plain(share.spec) | {"interval_ns": SAMPLES_INTERVAL_NS}


def _find(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise Failed(f"its output lacks /{pattern}/: {text.strip()[-200:]!r}")
    return found.groups()


def _json(out: Path) -> Any:
    text = out.read_text(errors="replace")
    try:
        return json.loads(text)
    except ValueError as why:
        errors = out.with_suffix(".err").read_text(errors="replace")
        raise Failed(f"its output is no JSON ({why}): {(errors or text).strip()[-300:]!r}") from why
