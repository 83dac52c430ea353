"""The works, and how one is measured: rounds of short and long runs of every tool, in random order."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benches.figures import Ratio, Run, Slope, best_of, paired_ratio, slope
from benches.measure import Cost, Failed, noted, run
from benches.peers import Job, Numbers, Svload, Tool
from benches.servers import Server, recorded

CONNECTIONS = 64
ENGINE = Svload.name
"""The judged row of svload."""
_COUNT_SLACK = 0.005
"""A tool's own count may differ from the server's by this share and by its connections (cut-off requests)."""


@dataclass(frozen=True)
class Work:
    """One kind of traffic; `limit` is the highest allowed upper end of svload ÷ best peer. `server`: nginx or
    fast. `streams` on each connection: HTTP/2; 0: HTTP/1.1."""

    key: str
    title: str
    limit: float
    server: str = "nginx"
    scheme: str = "http"
    path: str = "/1k.bin"
    body_bytes: int = 1024
    new: bool = False
    connections: int = CONNECTIONS
    streams: int = 0
    half: bool = False
    """Also measured at half the rate of saturation, by tools that can pace: batching flatters saturation."""


WORKS: tuple[Work, ...] = (
    Work("keep-alive", "HTTP/1.1 keep-alive, 64 connections, 1 KiB, nginx", 0.85, half=True),
    Work("fast-server", "the same against a very fast server", 0.85, server="fast", half=True),
    Work("tls", "TLS 1.3 keep-alive, 64 connections, 1 KiB, nginx", 0.90, scheme="https", half=True),
    Work("new", "new connection per request, 64 at once, 1 KiB, nginx", 1.00, new=True),
    Work(
        "100k",
        "100 KiB bodies, keep-alive, 64 connections, nginx",
        0.90,
        path="/100k.bin",
        body_bytes=102_400,
    ),
    Work("http2-64x1", "HTTP/2, 64 connections of 1 stream, 1 KiB, nginx", 0.90, streams=1),
    Work("http2-4x16", "HTTP/2, 4 connections of 16 streams, 1 KiB, nginx", 0.90, connections=4, streams=16),
)


@dataclass(frozen=True)
class Effort:
    """The amount of measurement. Spans in whole seconds: wrk accepts no others."""

    rounds: int
    short_s: int
    long_s: int


FULL = Effort(rounds=10, short_s=1, long_s=5)
QUICK = Effort(rounds=4, short_s=1, long_s=3)
SMOKE = Effort(rounds=1, short_s=1, long_s=2)
EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


@dataclass
class Cell:
    """One tool on one work: its slope by round, and why runs were not counted."""

    tool: str
    ours: bool
    floor: bool
    slopes: dict[int, Slope] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    foreign_shares: list[float] = field(default_factory=list)
    note: str = ""

    def by_round(self, what: str) -> dict[int, float]:
        """Return `process_us` or `core_us` by round, where positive."""
        found = {number: float(getattr(one, what)) for number, one in self.slopes.items()}
        return {number: value for number, value in found.items() if value > 0}

    def median(self, what: str) -> float | None:
        values = [float(getattr(one, what)) for one in self.slopes.values()]
        return median(values) if values else None


@dataclass
class Outcome:
    """One work at one load. `rate_rps` None: saturation. `ratio`: svload over the best peer, process CPU."""

    work: Work
    rate_rps: float | None
    cells: list[Cell]
    best: str | None
    ratio: Ratio | None
    core_ratio: Ratio | None

    @property
    def passed(self) -> bool:
        """Return whether the interval's upper end is within the limit, and no run of the engine was bad."""
        clean = not any(cell.failures for cell in self.cells if cell.tool == ENGINE)
        return clean and self.ratio is not None and self.ratio.high <= self.work.limit

    @property
    def foreign_share(self) -> float:
        """Foreign CPU, as a share of one core: the median over all counted runs."""
        shares = [share for cell in self.cells for share in cell.foreign_shares]
        return median(shares) if shares else 0.0

    def ratio_of(self, cell: Cell, what: str = "process_us") -> Ratio | None:
        """Return the ratio of any tool to the best peer, paired by round."""
        theirs = next((one for one in self.cells if one.tool == self.best), None)
        if theirs is None or not cell.by_round(what):
            return None
        return paired_ratio(cell.by_round(what), theirs.by_round(what))


Say = Callable[[str], None]


def pads_for(tools: Sequence[Tool], folder: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Return what each tool must add so that all requests have the same size (within 10 %), and the resulting
    sizes.

    Each tool sends one request to a recording server; a tool that sends none gets no pad.
    """
    bare: dict[str, int] = {}
    probed = [tool for tool in tools if not (isinstance(tool, Svload) and tool.is_variant)]
    for tool in probed:
        size = _request_bytes(tool, "", folder)
        if size:
            bare[tool.name] = size
    wanted = max(bare.values(), default=0)
    pads = {name: "x" * (wanted - size - len("X-Pad: \r\n")) for name, size in bare.items()}
    sizes = {tool.name: _request_bytes(tool, pads.get(tool.name, ""), folder) or 0 for tool in probed}
    return pads, sizes


def _request_bytes(tool: Tool, pad: str, folder: Path) -> int | None:
    with recorded() as (port, heads), contextlib.suppress(Failed):
        job = Job("http", port, "/1k.bin", 1024, 1, 1, pad=pad, folder=folder)
        run(tool.command(job), folder / "size.out", 30, frozenset(), tool.environment(), codes=range(256))
        return len(heads[-1][1]) if heads else None
    return None


@dataclass
class Special:
    """The result of a measurement without compared costs: whether the limit is kept, the limit with the
    measured value, and the lines of the table, the title first. `samples`: the underlying data, for the
    JSON."""

    passed: bool
    figure: str
    lines: list[str]
    failures: list[str] = field(default_factory=list)
    samples: Any = None

    def block(self) -> list[str]:
        """Return the lines of the table, with what went wrong."""
        return [*self.lines, *(f"  ! {why}" for why in self.failures)]


@dataclass
class Bench:
    """The bench's tools and folders for one call. `order` decides who runs when; `programs` are compiled."""

    tools: Sequence[Tool]
    pads: dict[str, str]
    folder: Path
    effort: Effort
    order: random.Random
    say: Say
    programs: Mapping[str, Path]

    def program(self, name: str) -> Path:
        """Return a compiled program of the bench. Raise Failed if there is none."""
        if name not in self.programs:
            raise Failed(f"{name}.c could not be compiled")
        return self.programs[name]

    def measure(self, work: Work, server: Server, rate_rps: float | None = None) -> Outcome:
        """Measure all rounds of one work. Runs with wrong bytes, statuses or counts are reported and left
        out."""
        job = Job(
            work.scheme, server.port(work.scheme, work.streams > 0), work.path, work.body_bytes,
            work.connections, self.effort.short_s, work.new, rate_rps, ca=server.ca, folder=self.folder,
            streams=work.streams,
        )  # fmt: skip
        tools = [tool for tool in self.tools if tool.can(job)]
        cells = {tool.name: Cell(tool.name, tool.ours, tool.floor) for tool in tools}
        for number in range(self.effort.rounds):
            plan = self._turns(tools)
            runs: dict[tuple[str, int], Run] = {}
            for tool, seconds in plan:
                with noted(cells[tool.name].failures, f"round {number + 1}, {seconds} s: "):
                    one = replace(job, seconds=seconds, pad=self.pads.get(tool.name, ""))
                    runs[tool.name, seconds], cost, found = self.counted(tool, one, server)
                    cells[tool.name].foreign_shares.append(cost.foreign_share)
                    cells[tool.name].note = found.note
            for cell in cells.values():
                ends = [runs.get((cell.tool, span)) for span in (self.effort.short_s, self.effort.long_s)]
                if ends[0] and ends[1]:
                    with noted(cell.failures, f"round {number + 1}: "):
                        cell.slopes[number] = slope(ends[0], ends[1])
            self.say(f"{work.key}: round {number + 1} of {self.effort.rounds}")
        return _judge(work, rate_rps, list(cells.values()))

    def _turns(self, tools: Sequence[Tool]) -> list[tuple[Tool, int]]:
        """Return tools in random order, the short and the long run of each next to each other (either first):
        their difference is the figure, and a virtual machine's speed drifts from one half minute to the
        next."""
        spans = [self.effort.short_s, self.effort.long_s]
        turns = [(tool, self.order.sample(spans, 2)) for tool in tools]
        self.order.shuffle(turns)
        return [(tool, span) for tool, mine in turns for span in mine]

    def run(self, tool: Tool, job: Job, server: Server) -> tuple[Cost, Numbers]:
        """Run a tool to its end. Raise Failed if an answer was bad."""
        out = self.folder / f"{tool.name.split()[0]}.out"
        cost = run(tool.command(job), out, job.seconds * 2 + 60.0, server.pids, tool.environment())
        expected = tool.read(job, out)
        if expected.bad:
            raise Failed(
                f"{tool.name}: {expected.bad} of {expected.requests} were not a whole answer of status 200"
            )
        return cost, expected

    def counted(self, tool: Tool, job: Job, server: Server) -> tuple[Run, Cost, Numbers]:
        """Run a tool with a server that counts requests. Raise Failed if the tool counts others."""
        before = server.requests()
        cost, expected = self.run(tool, job, server)
        requests = server.requests() - before
        if abs(expected.requests - requests) > job.at_once + _COUNT_SLACK * requests:
            raise Failed(f"{tool.name} counts {expected.requests} requests, the server {requests}")
        below, above = expected.bytes_slack
        if not job.body_bytes - below <= expected.bytes_each <= job.body_bytes + above:
            raise Failed(
                f"{tool.name}: {expected.bytes_each:.0f} bytes an answer, {job.body_bytes} are right"
            )
        return Run(requests, cost.process_s, cost.core_s, cost.wall_s), cost, expected


def half_rate(outcome: Outcome, tools: Sequence[Tool]) -> float | None:
    """Return half of the lowest saturation rate of tools that can pace, in hundreds: below all saturation."""
    able = {tool.name for tool in tools if tool.can_pace}
    rates = [rate for cell in outcome.cells if cell.tool in able and (rate := cell.median("rate_rps"))]
    return max(min(rates) / 2 // 100 * 100, 100.0) if rates else None


def _judge(work: Work, rate_rps: float | None, cells: list[Cell]) -> Outcome:
    peers = {cell.tool: cell.by_round("process_us") for cell in cells if not cell.ours and not cell.floor}
    best = best_of(peers)
    outcome = Outcome(work, rate_rps, cells, best, None, None)
    ours = next((cell for cell in cells if cell.tool == ENGINE), None)
    if ours is not None:
        outcome.ratio = outcome.ratio_of(ours)
        outcome.core_ratio = outcome.ratio_of(ours, "core_us")
    return outcome
