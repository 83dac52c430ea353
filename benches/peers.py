"""One small class per tool: how to call it, and its own account of the run. A new peer is a class in
`TOOLS`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.measure import Failed

if TYPE_CHECKING:
    from svload.model.traffic import Group

SAMPLES_INTERVAL_NS = 16_666_667
"""svload's interval in its default run of 10 s (duration/600); the same in short and long runs, so that its
cost is part of the slope."""


@dataclass(frozen=True)
class Job:
    """The same job for every tool. `rate_rps` None: as fast as the answers come. `pad` is a header line's
    value or empty. `streams` on each connection: HTTP/2; 0: HTTP/1.1. `quantum_ns`, `spin_ns`: svload's
    pacing_quantum and spin."""

    scheme: str
    port: int
    path: str
    body_bytes: int
    connections: int
    seconds: int
    new: bool = False
    rate_rps: float | None = None
    pad: str = ""
    ca: Path | None = None
    folder: Path = Path()
    streams: int = 0
    quantum_ns: int = 0
    spin_ns: int = 0

    @property
    def at_once(self) -> int:
        """Concurrent requests."""
        return self.connections * max(self.streams, 1)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{self.path}"

    @property
    def headers(self) -> list[str]:
        """Header lines in addition to the tool's own."""
        return [f"X-Pad: {self.pad}"] if self.pad else []


@dataclass(frozen=True)
class Numbers:
    """A tool's own account. `bad`: answers of another status, failed or torn requests. `bytes_each`: mean
    bytes of an answer; `bytes_slack`: how far that may be below and above the body's size (heads if it counts
    them, rounding if it rounds). `note`: what a reader should know about the run. `summary`: the engine's own."""

    requests: int
    bad: int
    bytes_each: float
    bytes_slack: tuple[float, float] = (1.0, 1.0)
    note: str = ""
    summary: Any = None


class Tool:
    """A load tool. `get` says how to install it; a missing tool is left out and reported."""

    name: str
    get: str
    can_pace = False
    can_new = True
    can_tls = True
    can_http2 = False
    ours = False
    floor = False

    def program(self) -> str | None:
        """Return its path, or None."""
        homes = [
            os.environ.get("PATH", ""),
            "/usr/sbin",
            str(Path.home() / "go/bin"),
            str(Path.home() / ".cargo/bin"),
        ]
        return shutil.which(self.name, path=":".join(homes))

    def can(self, job: Job) -> bool:
        """Return whether it can do the job at all."""
        return (
            (job.rate_rps is None or self.can_pace)
            and (not job.new or self.can_new)
            and (job.scheme == "http" or self.can_tls)
            and (not job.streams or self.can_http2)
        )

    def command(self, job: Job) -> list[str]:
        """Return the command line, without pipelining and with one thread."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return variables added to the environment."""
        return {}

    def read(self, job: Job, out: Path) -> Numbers:
        """Return its account, from its stdout. Raise Failed if it can't be found."""
        raise NotImplementedError

    def _h(self, job: Job) -> list[str]:
        return [word for header in job.headers for word in ("-H", header)]


class Wrk(Tool):
    """wrk 4: closed loop; no verification of certificates."""

    name, get = "wrk", "apt install wrk"

    def command(self, job: Job) -> list[str]:
        """-t1, no script."""
        close = ["-H", "Connection: close"] if job.new else []
        return [
            str(self.program()), "-t1", f"-c{job.connections}", f"-d{job.seconds}s", *self._h(job), *close, job.url,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        """`N requests in T, X.XXMB read`: includes heads, and is rounded to two places."""
        text = out.read_text(errors="replace")
        requests, amount, unit = _find(r"(\d+) requests in [^,]+, ([\d.]+)([KMGT]?)B read", text)
        bad = sum(int(count) for count in re.findall(r"Non-2xx or 3xx responses: (\d+)", text))
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        if errors:
            bad += sum(map(int, errors.groups()))
        scale = 1024 ** " KMGT".index(unit or " ")
        each = float(amount) * scale / max(int(requests), 1)
        return Numbers(int(requests), bad, each, _head(0.005 * scale / max(int(requests), 1)))


class Ab(Tool):
    """ApacheBench: HTTP/1.0 with keep-alive, closed loop."""

    name, get = "ab", "apt install apache2-utils"

    def command(self, job: Job) -> list[str]:
        """By time; -n after -t, which would set it to 50,000."""
        keep = [] if job.new else ["-k"]
        return [
            str(self.program()), "-q", *keep, "-c", str(job.connections), "-t", str(job.seconds), "-n", "4000000",
            *self._h(job), job.url,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        """Bodies are counted separately."""
        text = out.read_text(errors="replace")
        requests = int(_find(r"Complete requests:\s+(\d+)", text)[0])
        bad = int(_find(r"Failed requests:\s+(\d+)", text)[0])
        bad += sum(int(count) for count in re.findall(r"Non-2xx responses:\s+(\d+)", text))
        body = int(_find(r"HTML transferred:\s+(\d+)", text)[0])
        # it reads what is in flight at the end, and counts only the bytes
        under_way = job.connections * job.body_bytes / max(requests, 1)
        return Numbers(requests, bad, body / max(requests, 1), (1.0, 1.0 + under_way))


class H2load(Tool):
    """h2load: HTTP/2, by prior knowledge without TLS; or with --h1, one request at a time on each connection."""

    name, get = "h2load", "apt install nghttp2-client"
    can_pace = True
    can_new = False
    can_http2 = True

    def command(self, job: Job) -> list[str]:
        """-m1: in HTTP/1.1 more would be pipelining."""
        pace = [f"--rps={job.rate_rps / job.connections:g}"] if job.rate_rps else []
        speak = [f"-m{job.streams}"] if job.streams else ["--h1", "-m1"]
        return [
            str(self.program()), *speak, "-t1", f"-c{job.connections}", f"-D{job.seconds}", *pace, *self._h(job),
            job.url,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        """`traffic: … data` counts bodies, in full bytes in the brackets."""
        text = out.read_text(errors="replace")
        done, failed, errored, timeout = _find(
            r"(\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text
        )
        other = _find(r"status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text)
        body = int(_find(r"traffic: .* \((\d+)\) data", text)[0])
        under_way = job.at_once * job.body_bytes / max(int(done), 1)
        bad = int(failed) + int(errored) + int(timeout) + sum(map(int, other))
        return Numbers(int(done), bad, body / max(int(done), 1), (1.0, 1.0 + under_way))


class Fortio(Tool):
    """fortio's own fast HTTP/1.1 client; certificates verified."""

    name, get = "fortio", "go install fortio.org/fortio@v1.66.5"
    can_pace = True

    def command(self, job: Job) -> list[str]:
        """-qps 0: no wait; its JSON goes to stdout."""
        ca = ["-cacert", str(job.ca)] if job.scheme == "https" else []
        pace = ["-qps", f"{job.rate_rps:g}", "-uniform"] if job.rate_rps else ["-qps", "0"]
        keep = ["-keepalive=false"] if job.new else []
        return [
            str(self.program()), "load", "-quiet", "-c", str(job.connections), *pace, "-t", f"{job.seconds}s",
            "-json", "-", *ca, *keep, *self._h(job), job.url,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        """`Sizes` includes heads, `HeaderSizes` are heads only."""
        found = _json(out)
        codes = {code: int(count) for code, count in found["RetCodes"].items()}
        requests = sum(codes.values())
        body = found["Sizes"]["Sum"] - found["HeaderSizes"]["Sum"]
        return Numbers(requests, requests - codes.get("200", 0), body / max(found["Sizes"]["Count"], 1))


class Oha(Tool):
    """oha: hyper and tokio, one worker by affinity."""

    name, get = "oha", "cargo install --locked oha"
    can_pace = True

    def command(self, job: Job) -> list[str]:
        """Its JSON goes to stdout."""
        pace = ["-q", f"{job.rate_rps:g}", "--latency-correction"] if job.rate_rps else []
        ca = ["--cacert", str(job.ca)] if job.scheme == "https" else []
        keep = ["--disable-keepalive"] if job.new else []
        return [
            str(self.program()), "--no-tui", "--output-format", "json", "-c", str(job.connections),
            "-z", f"{job.seconds}s", *pace, *ca, *keep, *self._h(job), job.url,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        """Requests cut off by its own end are errors named `aborted due to deadline`, not failures."""
        found = _json(out)
        codes = {code: int(count) for code, count in found["statusCodeDistribution"].items()}
        requests = sum(codes.values())
        errors = {name: int(count) for name, count in found["errorDistribution"].items()}
        bad = sum(count for name, count in errors.items() if "deadline" not in name)
        each = found["summary"]["totalData"] / max(requests, 1)
        return Numbers(requests, requests - codes.get("200", 0) + bad, each)


class Svload(Tool):
    """svload's engine as a generator calls it (`svload._native.run_share`), full recording, certificates verified."""

    name, get = "svload", "make setup"
    can_pace = True
    can_http2 = True
    ours = True

    def program(self) -> str | None:
        return sys.executable

    def command(self, job: Job) -> list[str]:
        """The share is made by svload's own code from the model's types."""
        spec = job.folder / "share.json"
        spec.write_text(json.dumps(self.share(job)), encoding="utf-8")
        return [sys.executable, "-m", "benches.share", str(spec), str(job.folder / "share.tables")]

    def share(self, job: Job) -> dict[str, Any]:
        """Return the engine's input."""
        return share_of(job)

    def environment(self) -> dict[str, str]:
        """Return where `benches` is found."""
        return {"PYTHONPATH": str(Path(__file__).parents[1])}

    def read(self, job: Job, out: Path) -> Numbers:
        """Both identities of docs/method.md §1 are checked too."""
        summary = _json(out)
        (group,) = summary["groups"]
        begun = group["begun"]
        if (
            group["due"] != begun + group["waiting"] + group["dropped"]
            or begun != group["ok"] + group["failed"] + group["in_flight"]
        ):
            raise Failed(f"an identity is broken: {group}")
        spun_us = sum(thread["spin_ns"] for thread in summary["threads"]) / max(begun, 1) / 1e3
        return Numbers(
            begun,
            begun - group["ok"] + group["dropped"],
            group["body_bytes"] / max(begun, 1),
            note=f"{spun_us:.2f} µs of it spun" if spun_us >= 0.01 else "",
            summary=summary,
        )


class SvloadThinking(Svload):
    """The engine at a rate by think time: 64 users who pause, instead of evenly spaced arrivals. Shown beside
    the judged one, like every variant."""

    name = "svload think"

    def can(self, job: Job) -> bool:
        """Return whether a rate is requested."""
        return job.rate_rps is not None

    def share(self, job: Job) -> dict[str, Any]:
        return share_of(job, think=True)


class SvloadQuantum(SvloadThinking):
    """The engine at a rate with `pacing_quantum: 1ms`: even due times, in bursts as by h2load and fortio."""

    name = "svload quantum"
    QUANTUM_NS = 1_000_000

    def share(self, job: Job) -> dict[str, Any]:
        return share_of(replace(job, quantum_ns=self.QUANTUM_NS))


class SvloadCommand(Tool):
    """`svload load` as typed, with all its processes: controller, agent and generator."""

    name, get = "svload load", "make setup"
    can_tls = True
    can_new = False
    ours = True

    def program(self) -> str | None:
        """Return the command beside this interpreter."""
        return shutil.which("svload", path=str(Path(sys.executable).parent))

    def command(self, job: Job) -> list[str]:
        """Return what a user would type; headers can't be added, so its requests are shorter by the pad."""
        ca = ["--ca", str(job.ca)] if job.scheme == "https" else []
        pace = ["--rate", f"{job.rate_rps:g}"] if job.rate_rps else ["--vus", str(job.connections)]
        return [str(self.program()), "load", job.url, *pace, "--duration", f"{job.seconds}s", *ca, "--json"]

    def environment(self) -> dict[str, str]:
        """The bench holds the machine's lock already."""
        return {"SVLOAD_LOCK": "/dev/shm/svload-bench.lock"}

    def read(self, job: Job, out: Path) -> Numbers:
        found = _json(out)
        requests = found["requests"]
        head = _head(0.0)
        return Numbers(requests, requests - found["ok"], found["bytes_received"] / max(requests, 1), head)


class Floor(Tool):
    """floor.c: the cost of only sending requests and reading answers."""

    name, get = "floor (C)", "apt install gcc libc6-dev"
    can_tls = False
    floor = True

    def __init__(self, program: Path | None) -> None:
        self._program = program

    def program(self) -> str | None:
        """Return the program that the bench compiled."""
        return str(self._program) if self._program else None

    def command(self, job: Job) -> list[str]:
        """One header line at most."""
        kind = "new" if job.new else "keep-alive"
        close = "Connection: close" if job.new else ""
        header = "\r\n".join(line for line in [*job.headers, close] if line)
        return [
            str(self._program), str(job.port), job.path, str(job.connections), str(job.seconds), kind, header,
        ]  # fmt: skip

    def read(self, job: Job, out: Path) -> Numbers:
        found = _json(out)
        requests = found["requests"]
        under_way = job.connections * job.body_bytes / max(requests, 1)
        return Numbers(requests, found["bad"], found["body_bytes"] / max(requests, 1), (1.0, 1.0 + under_way))


PEERS: tuple[Tool, ...] = (Wrk(), Ab(), H2load(), Fortio(), Oha())


def share_of(job: Job, think: bool = False) -> dict[str, Any]:
    """Return the job as one share, by svload's own types and code; a rate as arrivals or as think time."""
    from svload.model.executors import ConstantArrivalRate, ConstantVus, ThinkTime
    from svload.model.traffic import Group, Request, SizeCheck, Text

    executor: Any = ConstantVus(vus=job.at_once)
    if job.rate_rps and think:
        pause_ns = round(job.connections / job.rate_rps * 1e9)
        executor = ConstantVus(vus=job.connections, think_time=ThinkTime(constant_ns=pause_ns))
    elif job.rate_rps:
        executor = ConstantArrivalRate(rate_rps=job.rate_rps, max_vus=job.connections)
    request = Request(
        name="get",
        scheme=job.scheme,
        host="127.0.0.1",
        path=(Text(text=job.path),),
        headers=(("X-Pad", (Text(text=job.pad),)),) if job.pad else (),
        expect_status=((200, 200),),
        checks=(SizeCheck(name="size", size_bytes=job.body_bytes),),
    )
    group = Group(
        name="load",
        executor=executor,
        request=request,
        connection="new" if job.new else "keep-alive",
        http2=job.streams > 0,
        streams=max(job.streams, 1),
        pacing_quantum_ns=job.quantum_ns,
        spin_ns=job.spin_ns,
        record="histogram",
    )
    ca_pem = job.ca.read_text() if job.ca and job.scheme == "https" else None
    share = share_of_group(group, job.scheme, job.port, job.seconds, ca_pem)
    return share | {"interval_ns": SAMPLES_INTERVAL_NS}


def share_of_group(
    group: Group, scheme: str, port: int, seconds: int, ca_pem: str | None = None
) -> dict[str, Any]:
    """Return a group that sends requests to 127.0.0.1 as one share, made by svload's own code."""
    from svload.drive.share.cut import build_shares
    from svload.drive.share.timeline import Timeline
    from svload.drive.share.write import plain
    from svload.model.facts import Endpoint
    from svload.model.study import Case, CaseConfig

    config = CaseConfig(case=Case(name="bench", levels={}), services=(), groups=(group,))
    endpoint = Endpoint(scheme=scheme, address="127.0.0.1", port=port, ca_pem=ca_pem)  # type: ignore[arg-type]
    times = Timeline(ramp_ns=0, duration_ns=seconds * 1_000_000_000)
    (share,) = build_shares(config, 1, times, {f"{scheme}://127.0.0.1": endpoint}, ["127.0.0.0/8"])
    spec: dict[str, Any] = plain(share.spec)
    return spec


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
        err = out.with_suffix(".err")
        said = err.read_text(errors="replace") if err.exists() else ""
        raise Failed(f"its output is no JSON ({why}): {(said or text).strip()[-300:]!r}") from why


def _head(slack: float) -> tuple[float, float]:
    """Return the slack for an answer's head that is counted with the body: it has at most 400 bytes here."""
    return (1.0 + slack, 400.0 + slack)
