"""Sides that take turns against trials one after the other, on real servers with svload's own engine.

    python -m benches.turns_real --minutes 10      # both servers, equal and 15 % slower; prints a table
    python -m benches.turns_real --kind sleep --strangers 0.35 --starts 6 --minutes 5

Each start has two servers up, equal or B 15 % slower, and is measured both ways: in turns, and by two trials of 5 s. Who burns has one process
and takes 2.6 ms of CPU an answer; who sleeps has a pool of four, and takes 20 ms. What judges is the product's own. Beside whatever else the
machine does, `--strangers` keeps two processes busy for that share of the time.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from math import exp
from typing import Any, NamedTuple

import numpy as np

from benches.shared import busy_share, strangers
from benches.turns import MARGIN, PERCENTILES, TRIAL_S, Blocks, judged
from svload.analysis.claims.turn_guards import drift_of, growth_in_turn, is_cold, rises, saturates, waits
from svload.analysis.claims.turns import (
    Requests,
    Turns,
    block_effect,
    by_turn,
    in_flight,
    log_ratio,
    measured,
    round_logs,
    too_short,
)
from svload.analysis.quantiles import Ranked
from svload.analysis.turn_plan import TurnPlan, turn_plan, turns_of

MS = 1_000_000
SLOWER, LOOK_S, START_NS = 1.15, 1.0, 300 * MS
SERVER = """
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
kind, seconds = sys.argv[1], float(sys.argv[2])
pool = threading.Semaphore(4 if kind == "sleep" else 1)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        with pool:
            if kind == "sleep":
                time.sleep(seconds)
            end = time.thread_time() + seconds
            while kind == "burn" and time.thread_time() < end:
                pass
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
"""


class Kind(NamedTuple):
    """A server's service time, and the open loop that asks it."""

    seconds: float
    rate_per_s: float
    slots: int


KINDS = {"burn": Kind(0.0026, 80.0, 8), "sleep": Kind(0.02, 120.0, 16)}


class Start(NamedTuple):
    """What one start of both servers says, by `PERCENTILES`: in turns [effect, error, pooled], by trials; and what the guards
    look at."""

    turns: tuple[tuple[float, float, float], ...]
    trials: tuple[float, ...]
    growth: tuple[float, ...]
    drift: float
    flights: tuple[bool, ...]
    waits: tuple[bool, ...]


@contextmanager
def serving(kind: str, seconds: float) -> Iterator[int]:
    """The port of a server, which ends with its standard input."""
    command = [sys.executable, "-c", SERVER, kind, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield int(child.stdout.readline())
        finally:
            child.terminate()


def share(kind: Kind, port: int, seed: int, turns_ns: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """An open loop of evenly spaced arrivals, as `drive/share` writes it."""
    load_ns = sum(end - begin for begin, end in turns_ns)
    group = {
        "name": "load", "client": "engine", "connection": "keep-alive", "record": "rows", "start_offset_ns": 0, "stop_offset_ns": load_ns,
        "graceful_stop_ns": 5_000 * MS, "follow_redirects": 0,
        "executor": {"kind": "constant-arrival-rate", "rate_rps": kind.rate_per_s, "max_vus": kind.slots},
        "feeders": {},
        "request": {
            "name": "get", "method": "GET", "endpoint": "http://server", "path": [{"text": "/"}], "headers": [], "timeout_ns": 5_000 * MS,
            "expect_status": [[200, 200]], "checks": [],
        },
    }  # fmt: skip
    return {
        "format": 1, "id": "load.0", "seed": seed, "start_at_ns": 0, "stop_fd": -1, "threads": 1, "cpus": [], "interval_ns": 50 * MS,
        "window_ns": [0, load_ns], "turns_ns": [list(one) for one in turns_ns],
        "endpoints": {"http://server": {"address": f"127.0.0.1:{port}", "tls": None}}, "allowed": ["127.0.0.0/8"], "groups": [group],
    }  # fmt: skip


def made(shares: Sequence[dict[str, Any]], turns: Sequence[Turns]) -> list[Requests]:
    """The requests of shares that begin together."""
    from svload import _native

    start_at_ns = time.monotonic_ns() + START_NS

    def run(one: dict[str, Any]) -> dict[str, Any]:
        tables = _native.run_share(json.dumps(one | {"start_at_ns": start_at_ns}), {}, lambda _: None)
        return {name: np.frombuffer(data, DTYPES[code]) for name, (code, data) in tables["samples"].items()}

    with ThreadPoolExecutor(len(shares)) as pool:
        return [Requests.of_rows(rows, own) for rows, own in zip(pool.map(run, shares), turns, strict=True)]


DTYPES = {"u64": "<u8", "i64": "<i8", "u32": "<u4", "u16": "<u2", "u8": "u1", "f64": "<f8"}


def _turns(sides: Sequence[Sequence[tuple[int, int]]]) -> list[Turns]:
    begins = np.sort([begin for side in sides for begin, _ in side])
    found = []
    for side in sides:
        begin, end = (np.array(column) for column in zip(*side, strict=True))
        after = np.searchsorted(begins, begin, "right")
        following = np.where(
            after < len(begins), begins[np.minimum(after, len(begins) - 1)], np.iinfo(np.int64).max
        )
        found.append(Turns(begin, end, following))
    return found


class Planned(NamedTuple):
    """The turns of all starts of a kind, and the p99 that they come from."""

    plan: TurnPlan
    p99_ns: float


def planned(kind: Kind, ports: Sequence[int]) -> Planned:
    """By each side loaded alone: the slower one's p99, of three looks the least, since a stall of the machine is none of a
    server's."""
    alone = [(0, round(LOOK_S * 1e9))]
    p99s = []
    for port in ports:
        looks = [made([share(kind, port, 0, alone)], _turns([alone]))[0] for _ in range(3)]
        p99s.append(min(one.ranked(one.due_ns >= 0).quantile(0.99) or 0.0 for one in looks))
    return Planned(turn_plan(max(p99s), kind.rate_per_s, kind.slots), max(p99s))


def start(name: str, ratio: float, number: int, known: Planned | None) -> tuple[Start, Planned]:
    """One start of both servers, loaded alone first; the first start of all plans the turns."""
    kind = KINDS[name]
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(name, kind.seconds * factor)) for factor in (1.0, ratio)]
        warmed = planned(kind, ports)
        now = known or warmed
        sides = turns_of(now.plan, 2, 1, number)
        turns = _turns(sides)
        shares = [share(kind, port, number, side) for port, side in zip(ports, sides, strict=True)]
        both = list(zip(made(shares, turns), turns, strict=True))
        ranked = [by_turn(*one, now.p99_ns) for one in both]
        effects = [block_effect(ranked[0], ranked[1], p) for p in PERCENTILES]
        trials: dict[int, Ranked] = {}
        alone = [(0, round(TRIAL_S * 1e9))]
        for side in random.Random(number).sample((0, 1), 2):
            [one] = made([share(kind, ports[side], number, alone)], _turns([alone]))
            trials[side] = one.ranked(one.due_ns >= 0)
    return Start(
        turns=tuple((one.effect, one.error, one.pooled) for one in effects),
        trials=tuple(log_ratio(trials[0], trials[1], p) for p in PERCENTILES),
        growth=tuple(growth_in_turn(*one, measured(*one, now.p99_ns), 0.5) for one in both),
        drift=drift_of(round_logs(ranked[0], ranked[1], 0.5)),
        flights=tuple(np.concatenate([in_flight(*one) for one in both]).tolist()),
        waits=tuple(np.concatenate([waits(*one) for one in both]).tolist()),
    ), now


def line(name: str, ratio: float, starts: Sequence[Start]) -> str:
    """Ratio and half width by both orders, what a gate of 5 % says, and which guards spoke."""
    cells = []
    for at in range(len(PERCENTILES)):
        turned = Blocks(
            *(np.array(column) for column in zip(*(one.turns[at] for one in starts), strict=True))
        )
        alone = np.array([one.trials[at] for one in starts])
        for blocks in (turned, Blocks(alone, np.zeros_like(alone), alone)):
            found = judged(blocks)
            answer = "pass" if found.passes() else "fail" if found.fails() else "open"
            cells.append(f"{exp(float(found.effect.mean)):.3f} ± {100 * float(found.half):.1f} {answer}")
    number = range(len(starts))
    told = (
        too_short([one for each in starts for one in each.flights]),
        saturates([one for each in starts for one in each.waits]),
        rises(np.array([one.growth for one in starts]).T, number),
        is_cold([[one.drift for one in starts]], number, MARGIN),
    )
    return f"| {name}, {ratio} | {len(starts)} | {' | '.join(cells)} | {'; '.join(filter(None, told)) or 'none'} |"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--kind", choices=KINDS, help="only this server")
    words.add_argument("--starts", type=int, default=12)
    words.add_argument("--strangers", type=float, default=0.0, metavar="SHARE")
    words.add_argument("--minutes", type=float, default=20.0, help="no start begins later")
    chosen = words.parse_args()
    cells = [(name, ratio) for name in KINDS for ratio in (1.0, SLOWER) if chosen.kind in (None, name)]
    found: dict[tuple[str, float], list[Start]] = defaultdict(list)
    plans: dict[tuple[str, float], Planned] = {}
    until = time.monotonic() + 60 * chosen.minutes
    busy = []
    with strangers(chosen.strangers, 1) if chosen.strangers else nullcontext():
        for number, cell in ((number, cell) for number in range(chosen.starts) for cell in cells):
            if time.monotonic() > until:
                break
            one, plans[cell] = start(*cell, number, plans.get(cell))
            found[cell].append(one)
            busy.append(busy_share(0.2))
            print(f"{cell}: {one.turns} {one.trials}", file=sys.stderr, flush=True)
    asked = " ".join(["python -m benches.turns_real", *sys.argv[1:]])
    print(f"`{asked}`: others had {100 * np.mean(busy):.0f} % of the machine between the starts.\n")
    print(
        "| server, planted ratio | starts | p50: turns | trials | p95: turns | trials | guards |\n|"
        + "---|" * 7
    )
    for cell, starts in found.items():
        print(line(*cell, starts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
