"""`svload capacity` on servers whose capacity is known (docs/method.md §4): each search is the command
itself, in a process of its own.

    python -m benches.capacity                       # at most a quarter of an hour on two cores that nobody else uses
    python -m benches.capacity --only closed-2       # some of the searches
    python -m benches.capacity --full                # trials of 4 s and intervals of 5 %: half an hour and more

The truth server with 1, 2 and 8 workers of 10 ms, by users and by rate, beside the arithmetic; and nginx
(root) that compresses each answer, with a CPU quota of 0.5, five times, then with half of it. Each search has its part of the time that is
left (--minutes), and is kept in build/bench/capacity.json: a call makes those that are missing. When all are
there the table is written to benches/capacity.md. Exit 1 if a search misses the arithmetic, intervals of equal
searches lie apart, or the limit does not move with the quota.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from benches.command import KEPT, Clock, Kept, findings_of

SERVICE_S, LIMIT_S = 0.010, 0.047
"""Of a request on a worker; and what users may wait: in the mean, which is a straight line
over users; by rate, their p95."""
WORKERS = (1, 2, 8)
BACKLOG = 1.05
"""A backlog that grows by less than 5 % of what is due is not seen as one (docs/method.md §3)."""
INDIFFERENT = 1.03
"""A mean within 3 % of its limit counts as kept (docs/method.md §4), and the mean grows as the users do."""
QUOTAS = {"nginx": (0.5, 5), "nginx-half": (0.25, 2)}
"""Name → (CPU quota in cores, how often it is searched)."""
NGINX_P95_MS = 60
_LEAST_S = 30.0
"""A search that has less time than this says nothing."""
_MOVES = (1.6, 2.5)
"""The limit at twice the quota over that at half of it."""

TRUTH = """\
name: {name}
question: How much do {workers} workers of 10 ms bear?
lab:
  server: {{kit: truth, role: store, service_time: 10 ms, workers: {workers}, spin: 60 us}}
factors:
  {over}: {{open: [{least}, {most}]}}
traffic:
  people: {{{executor}, request: {{get: http://server/v1/a/c/o, expect_status: 404}}}}
measure: {{duration: {duration}, replicates: 3}}
"""
NGINX = """\
name: {name}
question: How many requests a second does nginx bear with {quota} of a core?
lab:
  server:
    kit: nginx
    cpus: {quota}
    files: {{/page: 256 KiB}}
    tuning: {{gzip: "on", gzip_comp_level: 9, gzip_types: "*"}}
factors:
  rate: {{open: [20, 2000]}}
traffic:
  people:
    executor: constant-arrival-rate
    rate: "${{rate}}/s"
    max_vus: 512
    request: {{get: http://server/page, headers: {{Accept-Encoding: gzip}}}}
measure: {{duration: {duration}, replicates: 3}}
"""


@dataclass(frozen=True)
class Search:
    """One search: its study, its criterion, and between which loads the limit must lie; None: only its like can say."""

    name: str
    study: str
    that: str
    known: tuple[float, float] | None
    arithmetic: str
    quota: float | None = None


def searches(full: bool) -> Iterator[Search]:
    """Every search, by its name. Their ends lie a factor of ten around the arithmetic, and a
    server of 100/s has longer trials.
    """
    for workers in WORKERS:
        limit = workers * LIMIT_S / SERVICE_S
        duration = "4s" if full else "2s" if workers == 1 else "1s"
        executor = 'executor: constant-vus, vus: "${users}"'
        text = TRUTH.format(
            name=f"closed-{workers}",
            workers=workers,
            over="users",
            least=max(1, round(limit / 10)),
            most=round(limit * 10),
            executor=executor,
            duration=duration,
        )
        yield Search(
            f"closed-{workers}",
            text,
            f"mean <= {1000 * LIMIT_S:g} ms and success_rate >= 99 %",
            (limit, limit * INDIFFERENT),
            f"{workers} · {1000 * LIMIT_S:g} ms / 10 ms = {limit:.3g} users",
        )
    for workers in WORKERS:
        top = workers / SERVICE_S
        duration = "4s" if full else "2s"
        executor = 'executor: constant-arrival-rate, rate: "${rate}/s", max_vus: 1024'
        text = TRUTH.format(
            name=f"open-{workers}",
            workers=workers,
            over="rate",
            least=round(top / 10),
            most=round(top * 10),
            executor=executor,
            duration=duration,
        )
        yield Search(
            f"open-{workers}",
            text,
            f"p95 <= {1000 * LIMIT_S:g} ms and success_rate >= 99 %",
            (top, top * BACKLOG),
            f"{workers} / 10 ms = {top:,.0f}/s",
        )
    for name, (quota, often) in QUOTAS.items():
        for number in range(1, often + 1):
            text = NGINX.format(name=f"{name}-{number}", quota=quota, duration="4s" if full else "2s")
            that = f"p95 <= {NGINX_P95_MS} ms and success_rate >= 99 %"
            yield Search(f"{name}-{number}", text, that, None, "quota / CPU of a request", quota)


def run(search: Search, tolerance: str, within_s: float) -> dict[str, Any]:
    """The command to its end; its answer, and what the arithmetic of its own CPU says."""
    begun = time.monotonic()
    options = ["--that", search.that, "--tolerance", tolerance]
    if within_s < float("inf"):
        options += ["--for", f"{max(within_s, _LEAST_S):.0f}s"]
    found = findings_of(search.name, search.study, "capacity", options)
    capacity, curves = found["capacity"], found["curves"]
    demands = [one for curve in curves for one in curve["demands"] if one["bottleneck"]]
    grades = [trial["verdict"]["instrument"] for trial in found["trials"]]
    return {
        "limit": capacity["limit"],
        "low": capacity["low"],
        "high": capacity["high"],
        "state": capacity["state"],
        "over": capacity["over"],
        "trials": len(grades),
        "refused": grades.count("REFUSED"),
        "minutes": (time.monotonic() - begun) / 60,
        "top_rps": search.quota / demands[0]["demand_s"] if demands and search.quota else None,
        "sentence": capacity["sentence"],
    }


def verdicts(known: Sequence[Search], results: dict[str, dict[str, Any]]) -> list[str]:
    """What is missed, a sentence each."""
    missed = []
    for search in known:
        one = results.get(search.name)
        if one is None:
            continue
        if one["state"] != "found":
            missed.append(f"{search.name} has no answer: {one['sentence']}")
        elif search.known and not (one["low"] <= search.known[1] and one["high"] >= search.known[0]):
            missed.append(f"{search.name}: {one['low']} to {one['high']} does not hold {search.arithmetic}")
    for name in QUOTAS:
        equal = [
            one for key, one in results.items() if key.rpartition("-")[0] == name and one["state"] == "found"
        ]
        for first, second in combinations(equal, 2):
            if first["low"] > second["high"] or second["low"] > first["high"]:
                missed.append(
                    f"{name}: {first['low']} to {first['high']} and {second['low']} to {second['high']} lie apart"
                )
    whole, half = (_middle(results, name) for name in QUOTAS)
    if whole and half and not _MOVES[0] <= whole / half <= _MOVES[1]:
        missed.append(f"half the quota moves the limit by {whole / half:.2f}, not by 2")
    return missed


def _middle(results: dict[str, dict[str, Any]], name: str) -> float | None:
    """Mean limit of equal searches."""
    found = [
        one for key, one in results.items() if key.rpartition("-")[0] == name and one["state"] == "found"
    ]
    middles = [one["limit"] for one in found]
    return sum(middles) / len(middles) if middles else None


def table(known: Sequence[Search], results: dict[str, dict[str, Any]]) -> str:
    """All that was searched so far."""
    lines = ["| search | arithmetic | found | trials (REFUSED) | minutes |", "|---|---|---|---|---|"]
    for search in known:
        one = results.get(search.name)
        if one is None:
            continue
        told = search.arithmetic
        if one["top_rps"]:
            told = f"{search.quota:g} of a core / CPU of a request = {one['top_rps']:,.0f}/s"
        found = (
            f"{one['limit']:.4g} ({one['low']} to {one['high']}) {one['over']}"
            if one["state"] == "found"
            else one["state"]
        )
        lines.append(
            f"| {search.name} | {told} | {found} | {one['trials']} ({one['refused']}) | {one['minutes']:.1f} |"
        )
    whole, half = (_middle(results, name) for name in QUOTAS)
    if whole and half:
        lines += ["", f"Half the quota: the limit moves by a factor of {whole / half:.2f}."]
    lines += [f"MISSED {told}" for told in verdicts(known, results)]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Search what is missing, keep it, print the table; of all write it, too."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full", action="store_true", help="trials of 4 s, an interval of 5 %% instead of 10"
    )
    names = [search.name for search in searches(full=False)]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="SEARCH", help=f"some of: {', '.join(names)}"
    )
    parser.add_argument("--minutes", type=float, help="default: 15, with --full as long as it takes")
    parser.add_argument("--anew", action="store_true", help="drop what is kept")
    parser.add_argument("--show", action="store_true", help="search nothing: the table of what is there")
    asked = parser.parse_args(arguments)
    known = list(searches(asked.full))
    clock = Clock(asked.minutes or (None if asked.full else 15))
    kept = Kept.at(KEPT / "capacity.json", {"full": asked.full}, asked.anew)
    chosen = [one for one in known if asked.only is None or one.name in asked.only]
    missing = [] if asked.show else [one for one in chosen if one.name not in kept.results]
    for at, search in enumerate(missing):
        if clock.left_s < _LEAST_S:
            print(f"no time is left for {len(missing) - at} searches: call it again", file=sys.stderr)
            break
        kept.keep(search.name, run(search, "5" if asked.full else "10", clock.left_s / (len(missing) - at)))
        print(f"{search.name}: {kept.results[search.name]['sentence']}", file=sys.stderr, flush=True)
    text = table(known, kept.results)
    print(text, end="")
    if len(kept.results) == len(known):
        head = (
            f"# Searches on servers whose capacity is known\n\n`python -m "
            f"benches.capacity{' --full' if asked.full else ''}`\n\n"
        )
        (Path(__file__).parent / "capacity.md").write_text(head + text, encoding="utf-8")
    return 1 if verdicts(known, kept.results) else 0


if __name__ == "__main__":
    sys.exit(main())
