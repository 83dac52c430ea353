"""The works, how one is measured (rounds of short and long runs of every tool, in random order), and the
table of all results."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import TypeVar

from benches.figures import Ratio, Slope, best_of, paired_ratio, slope
from benches.measure import CLIENT_CORE, SERVER_CORE, Cost, Failed, noted, run
from benches.peers import SVLOAD, Job, Numbers, Tool
from benches.servers import Server, recorded

ENGINE = SVLOAD.name
"""The judged row of svload."""
_COUNT_SLACK = 0.005
"""A tool's own count may differ from the server's by this share and by its connections (cut-off requests)."""
QUIET_SHARE = 0.05
"""Foreign CPU above this share of a core makes figures weak (docs/method.md §3)."""
Name = TypeVar("Name")
USUAL = Job()


@dataclass(frozen=True)
class Work:
    """One kind of traffic; `limit` is the highest allowed upper end of svload ÷ best peer; `by_point`: of the
    ratio itself. `server`: nginx, fast_server or redis. `half`: also measured at half the saturation rate, by
    tools that can pace, because batching flatters saturation."""

    key: str
    title: str
    limit: float
    job: Job = USUAL
    server: str = "nginx"
    half: bool = False
    by_point: bool = False

    @property
    def names(self) -> list[str]:
        """Return the names of its results."""
        return [self.key, f"{self.key}@half"] if self.half else [self.key]


WORKS: tuple[Work, ...] = (
    Work("keep-alive", "HTTP/1.1 keep-alive, 64 connections, 1 KiB, nginx", 0.85, half=True),
    Work("fast-server", "the same against a very fast server", 0.85, server="fast_server", half=True),
    Work("tls", "TLS 1.3 keep-alive, 64 connections, 1 KiB, nginx", 0.90, Job("https"), half=True),
    Work("new", "new connection per request, 64 at once, 1 KiB, nginx", 1.00, Job(new=True)),
    Work("100k", "100 KiB bodies, keep-alive, nginx", 0.90, Job(path="/100k.bin", body_bytes=102_400)),
    Work("http2-64x1", "HTTP/2, 64 connections of 1 stream, 1 KiB, nginx", 0.90, Job(streams=1)),
    Work("http2-4x16", "HTTP/2, 4 connections of 16 streams, nginx", 0.90, Job(connections=4, streams=16)),
    Work("redis", "Redis: GET of 64 B, 64 connections", 1.5, Job(depth=1), "redis", by_point=True),
    Work("redis-16", "the same, 16 commands together", 1.5, Job(depth=16), "redis", by_point=True),
)


@dataclass(frozen=True)
class Effort:
    """The amount of measurement. Spans in whole seconds: wrk accepts no others."""

    rounds: int
    short_s: int
    long_s: int


EFFORTS = {"full": Effort(10, 1, 5), "quick": Effort(4, 1, 3), "smoke": Effort(1, 1, 2)}


@dataclass
class Cell:
    """One tool on one work: its slope by round, and why runs were not counted."""

    tool: str
    ours: bool
    floor: bool
    slopes: dict[int, Slope] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    foreign_shares: list[float] = field(default_factory=list)

    def by_round(self) -> dict[int, float]:
        """Return the CPU of processes by round, in µs."""
        return {number: one.process_us for number, one in self.slopes.items()}

    def median(self, what: str) -> float | None:
        """Return the median of a field of the slopes."""
        values = [float(getattr(one, what)) for one in self.slopes.values()]
        return median(values) if values else None


@dataclass
class Outcome:
    """One work at one load. `rate_rps` None: saturation."""

    work: Work
    rate_rps: float | None
    cells: list[Cell]

    @property
    def best(self) -> str | None:
        """Return the name of the cheapest peer."""
        peers = [cell for cell in self.cells if not cell.ours and not cell.floor]
        return best_of({cell.tool: cell.by_round() for cell in peers})

    @property
    def ratio(self) -> Ratio:
        """Return svload over the best peer, process CPU."""
        return self.ratio_of(ENGINE)

    @property
    def passed(self) -> bool:
        """Return whether the interval's upper end, or the ratio, is within the limit, and no run of the
        engine was bad."""
        clean = not any(cell.failures for cell in self.cells if cell.tool == ENGINE)
        most = self.ratio.value if self.work.by_point else self.ratio.high
        return clean and self.ratio.rounds > 0 and most <= self.work.limit

    @property
    def foreign_share(self) -> float:
        """Return the foreign CPU as a share of one core: the median over all counted runs."""
        shares = [share for cell in self.cells for share in cell.foreign_shares]
        return median(shares) if shares else 0.0

    def ratio_of(self, tool: str) -> Ratio:
        """Return the ratio of any tool to the best peer, paired by round."""
        found = {cell.tool: cell.by_round() for cell in self.cells}
        return paired_ratio(found.get(tool, {}), found.get(self.best or "", {}))

    @property
    def figure(self) -> str:
        """Return the limit and the measured value, as words."""
        return f"≤ {self.work.limit:.2f} × {self.best}: {self.ratio}"

    @property
    def lines(self) -> list[str]:
        """Return its lines of the table: its title, then the tools, the cheapest first."""
        load = "at saturation" if self.rate_rps is None else f"at {self.rate_rps:.0f} req/s"
        lines = [f"{self.work.title}, {load}"]
        if self.foreign_share > QUIET_SHARE:
            lines.append(f"  ! not quiet: other processes took {self.foreign_share:.0%} of a core")
        lines.append(f"  {'tool':<19} {'process µs':>10} {'req/s':>8}   ÷ {self.best or 'best peer'} (95 %)")
        for cell in sorted(self.cells, key=lambda one: one.median("process_us") or inf):
            cpu_us, rate_rps = cell.median("process_us"), cell.median("rate_rps")
            shown = f"{cpu_us:>10.2f} {rate_rps:>8.0f}" if cell.slopes else f"{'–':>19}"
            lines.append(f"  {cell.tool:<19} {shown}   {self.ratio_of(cell.tool)}")
            lines += [f"    ! {failure}" for failure in cell.failures]
        return lines


def pads_for(tools: Sequence[Tool], folder: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Return what each tool must add so that all requests have the same size (within 10 %), and the resulting
    sizes. Each tool sends one request to a recording server; a tool that sends none gets no pad."""
    probed = [tool for tool in tools if tool.can(USUAL)]
    bare = {tool.name: size for tool in probed if (size := _request_bytes(tool, "", folder))}
    wanted = max(bare.values(), default=0)
    pads = {name: "x" * (wanted - size - len("X-Pad: \r\n")) for name, size in bare.items()}
    sizes = {tool.name: _request_bytes(tool, pads.get(tool.name, ""), folder) for tool in probed}
    return pads, sizes


def _request_bytes(tool: Tool, pad: str, folder: Path) -> int:
    with recorded() as (port, heads), contextlib.suppress(Failed):
        job = Job(port=port, connections=1, pad=pad, folder=folder)
        run(tool.command(job), folder / "size.out", 30, codes=range(256))
        return len(heads[-1][1]) if heads else 0
    return 0


@dataclass
class Special:
    """The result of a measurement without compared costs: whether the limits are kept, each with the measured
    value, and the lines of the table, the title first."""

    passed: bool
    figure: str
    lines: list[str]

    @classmethod
    def of(cls, lines: list[str], failures: list[str], *limits: tuple[str, float, float]) -> Special:
        """Return a result that passes if nothing failed and all limits, at least one, are kept: a text with
        places for the measured value and the most that it may be, and these two."""
        kept = bool(limits) and not failures and all(value <= most for _, value, most in limits)
        figure = "; ".join(text.format(value, most) for text, value, most in limits)
        return cls(kept, figure or "not measured", lines + [f"  ! {why}" for why in failures])


@dataclass
class Bench:
    """The bench's tools and folders for one call. `order` decides who runs when; `programs` are compiled."""

    tools: Sequence[Tool]
    pads: dict[str, str]
    folder: Path
    effort: Effort
    order: random.Random
    say: Callable[[str], None]
    programs: Mapping[str, Path]

    def program(self, name: str) -> Path:
        """Return a compiled program of the bench. Raise Failed if there is none."""
        if name not in self.programs:
            raise Failed(f"{name}.c could not be compiled")
        return self.programs[name]

    def measure(self, work: Work, server: Server, rate_rps: float | None = None) -> Outcome:
        """Measure all rounds of one work. Runs with wrong bytes, statuses or counts are reported and left
        out."""
        port = server.https_port if work.job.scheme == "https" else server.port
        port = server.http2_port if work.job.streams else port
        job = replace(work.job, port=port, ca=server.ca, rate_rps=rate_rps, folder=self.folder)
        tools = [tool for tool in self.tools if tool.can(job)]
        cells = {tool.name: Cell(tool.name, tool.ours, tool.floor) for tool in tools}
        for number, tool in self.rounds(work.key, tools):
            with noted(cells[tool.name].failures, f"round {number + 1}: "):
                one = replace(job, pad=self.pads.get(SVLOAD.name if tool.variant else tool.name, ""))
                ran = partial(self._once, cells[tool.name], tool, one, server)
                cells[tool.name].slopes[number] = self.pair(ran)
        return Outcome(work, rate_rps, list(cells.values()))

    def rounds(self, what: str, names: Sequence[Name], most: int = 100) -> Iterator[tuple[int, Name]]:
        """Yield the number of each round with each name, in random order; after a round say that it ended."""
        rounds = min(self.effort.rounds, most)
        for number in range(rounds):
            yield from ((number, name) for name in self.order.sample(names, len(names)))
            self.say(f"{what}: round {number + 1} of {rounds}")

    def _once(self, cell: Cell, tool: Tool, job: Job, server: Server, seconds: int) -> Cost:
        cost, _ = self.counted(tool, replace(job, seconds=seconds), server)
        cell.foreign_shares.append(cost.foreign_share)
        return cost

    def pair(self, ran: Callable[[int], Cost]) -> Slope:
        """Return the slope of a short and a long run next to each other, either first: their difference is
        the figure, and a virtual machine's speed drifts from one half minute to the next."""
        spans_s = (self.effort.short_s, self.effort.long_s)
        costs = {span: ran(span) for span in self.order.sample(spans_s, 2)}
        return slope(*(costs[span] for span in spans_s))

    def run(self, tool: Tool, job: Job, server: Server) -> tuple[Cost, Numbers]:
        """Run a tool to its end. Raise Failed if an answer was bad."""
        out = self.folder / f"{tool.name.split()[0]}.out"
        cost = run(tool.command(job), out, job.seconds * 2 + 60.0, server.pids)
        found = tool.account(job, out)
        if found.bad:
            raise Failed(f"{found.bad} of {found.requests} were not a whole answer of status 200")
        return cost, found

    def counted(self, tool: Tool, job: Job, server: Server) -> tuple[Cost, Numbers]:
        """Run a tool with a server that counts requests. Raise Failed if the tool counts others."""
        before = server.requests()
        cost, found = self.run(tool, job, server)
        requests = server.requests() - before
        if abs(found.requests - requests) > job.at_once + _COUNT_SLACK * requests:
            raise Failed(f"{tool.name} counts {found.requests} requests, the server {requests}")
        below, above = found.bytes_slack
        if not (job.depth or job.body_bytes - below <= found.bytes_each <= job.body_bytes + above):
            raise Failed(f"{tool.name}: {found.bytes_each:.0f} bytes an answer, {job.body_bytes} are right")
        return replace(cost, requests=requests), found


def half_rate(outcome: Outcome, tools: Sequence[Tool]) -> float | None:
    """Return half of the lowest saturation rate of tools that can pace, in hundreds: below all saturation."""
    able = {tool.name for tool in tools if "pace" in tool.can_do}
    rates = [rate for cell in outcome.cells if cell.tool in able and (rate := cell.median("rate_rps"))]
    return max(min(rates) / 2 // 100 * 100, 100.0) if rates else None


@dataclass
class Result:
    """All results of one invocation."""

    effort: str
    seed: int
    busy_before: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)
    request_bytes: dict[str, int] = field(default_factory=dict)
    found: dict[str, Outcome | Special] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)


def table(result: Result) -> str:
    """Return a table for people: a block for each work, then the limits."""
    lines = _head(result)
    for one in result.found.values():
        lines += ["", *one.lines]
    limits = [
        f"  {'kept  ' if one.passed else 'MISSED'}  {name}  {one.figure}"
        for name, one in result.found.items()
    ]
    missing = [f"  missing  {name}: {get}" for name, get in result.missing.items()]
    return "\n".join([*lines, "", "Limits", *limits, *missing, *(f"  ! {why}" for why in result.troubles)])


def _head(result: Result) -> list[str]:
    effort, busy = EFFORTS[result.effort], result.busy_before
    sizes = ", ".join(f"{name} {size}" for name, size in result.request_bytes.items() if size)
    lines = [
        f"{result.effort}: {effort.rounds} rounds of runs of {effort.short_s} and {effort.long_s} s in "
        f"random order (seed {result.seed}); server on core {SERVER_CORE}, client on core {CLIENT_CORE}",
        f"request bytes: {sizes}",
    ]
    if busy > QUIET_SHARE:
        lines.append(f"! busy before the first run ({busy:.0%} of the cores): these figures are not quiet")
    return lines
