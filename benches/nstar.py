"""The truth server with 1, 2 and 8 workers of 10 ms against arithmetic: N* of users who think,
and the full rate of arrivals.

    python -m benches.nstar                  # six studies, about seven minutes on two cores; writes benches/nstar.md
    python -m benches.nstar --only closed-2  # some of them

N* = (D + Z)/(D/m) with D = 10 ms and Z = 40 ms is 5 m users; the full rate is m/D. Each is found by
`svload run` from its levels alone, from how busy the workers were. Results are kept in build/bench/nstar.json
as they come, and a call makes those that are missing. Exit 1 where a limit is off by more than 10 %, is not
bracketed, or throughput at the most users is not what the workers bear.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.command import KEPT, Clock, Kept, findings_of

SERVICE_S, THINK_S = 0.010, 0.040
WORKERS = (1, 2, 8)
WITHIN = 0.10
_USERS = (0.2, 0.4, 0.8, 1.2, 2.0, 3.0)
"""Levels of users over N*."""
_RATES = (0.2, 0.4, 0.6, 0.8, 0.95, 1.2)
"""Levels of rate over the full one."""
STUDY = """\
name: {name}
question: What do {workers} workers of 10 ms bear?
lab:
  server: {{kit: truth, role: store, service_time: 10 ms, workers: {workers}, spin: 60 us}}
factors:
  {over}: {levels}
traffic:
  people: {{{executor}, request: {{get: http://server/v1/a/c/o, expect_status: 404}}}}
measure: {{duration: {seconds:g}s, replicates: {replicates}, awake: true}}
"""
CLOSED = 'executor: constant-vus, vus: "${users}", think_time: {exponential: 40 ms}'
OPEN = 'executor: constant-arrival-rate, arrivals: poisson, rate: "${rate}/s", max_vus: 1024'


@dataclass(frozen=True)
class Model:
    """One study and what arithmetic says of it."""

    workers: int
    closed: bool

    @property
    def name(self) -> str:
        """Such as closed-2."""
        return f"{'closed' if self.closed else 'open'}-{self.workers}"

    @property
    def top_rps(self) -> float:
        return self.workers / SERVICE_S

    @property
    def limit(self) -> float:
        """N* in users, or the full rate."""
        return (SERVICE_S + THINK_S) * self.top_rps if self.closed else self.top_rps

    @property
    def told(self) -> str:
        if self.closed:
            return f"(10 ms + 40 ms) / (10 ms / {self.workers}) = {self.limit:g} users"
        return f"{self.workers} / 10 ms = {self.limit:g}/s"

    def study(self, seconds: float, replicates: int) -> str:
        shares = _USERS if self.closed else _RATES
        levels = sorted({max(1, round(share * self.limit)) for share in shares})
        return STUDY.format(
            name=self.name, workers=self.workers, over="users" if self.closed else "rate", levels=levels,
            executor=CLOSED if self.closed else OPEN, seconds=seconds, replicates=replicates,
        )  # fmt: skip


def models() -> Iterator[Model]:
    return (Model(workers, closed) for closed in (True, False) for workers in WORKERS)


def run(model: Model, seconds: float, replicates: int) -> dict[str, Any]:
    """The study run; what its curve says."""
    begun = time.monotonic()
    found = findings_of(model.name, model.study(seconds, replicates), "run")
    (curve,) = found["curves"]
    wanted = "N*" if model.closed else "full rate"
    limit = next(one for one in curve["limits"] if one["name"] == wanted)
    grades = [trial["verdict"]["instrument"] for trial in found["trials"]]
    first = next((one for one in curve["demands"] if one["bottleneck"]), None)
    return {
        "limit": limit,
        "demand": first,
        "most_rps": max(point["throughput_rps"] for point in curve["points"]),
        "states": [case["server"] for case in found["cases"]],
        "trials": len(grades),
        "refused": grades.count("REFUSED"),
        "minutes": (time.monotonic() - begun) / 60,
    }


def missed(model: Model, one: dict[str, Any]) -> list[str]:
    """What is not as arithmetic has it."""
    limit, told = one["limit"], []
    value = limit["value"]
    if value is None:
        return [f"{model.name}: no limit ({limit['reason']})"]
    if abs(value / model.limit - 1) > WITHIN:
        told.append(f"{model.name}: {value:.4g} is {100 * (value / model.limit - 1):+.1f} % off {model.told}")
    if limit["state"] not in ("bracketed", "edge"):
        told.append(f"{model.name}: {limit['state']}, though the levels bracket it")
    if model.closed and abs(one["most_rps"] / model.top_rps - 1) > WITHIN:
        told.append(f"{model.name}: at most {one['most_rps']:.4g}/s, by arithmetic {model.top_rps:g}/s")
    return told


def table(known: Sequence[Model], results: dict[str, dict[str, Any]], seconds: float, replicates: int) -> str:
    lines = [
        "# The truth server's limits against arithmetic",
        "",
        f"`python -m benches.nstar`: 10 ms a request, workers 1, 2 and 8; six levels, {replicates} trials of "
        f"{seconds:g} s each. Closed: users who",
        f"think for 40 ms on average. Limits: {100 * WITHIN:.0f} %, bracketed by the levels, and the most "
        f"users get what the workers bear.",
        "",
        "| study | arithmetic | found (95 %) | off | told | D of the workers | most throughput | servers | "
        "trials (REFUSED) | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model in known:
        if (one := results.get(model.name)) is None:
            continue
        limit, demand = one["limit"], one["demand"]
        value, ends = limit["value"], (limit["low"], limit["high"])
        interval = f" ({ends[0]:.4g} … {ends[1]:.4g})" if None not in ends else ""
        found = f"{value:.4g}{interval}" if value is not None else limit["reason"]
        off = f"{100 * (value / model.limit - 1):+.1f} %" if value is not None else "–"
        spent = f"{1000 * demand['demand_s']:.3g} ms of {demand['resource']}" if demand else "–"
        lines.append(
            f"| {model.name} | {model.told} | {found} | {off} | {limit['state']} | {spent} | {one['most_rps']:.4g}/s | "
            f"{', '.join(map(str, one['states']))} | {one['trials']} ({one['refused']}) | {one['minutes']:.1f} |"
        )
    lines += [
        f"MISSED {told}"
        for model in known
        if model.name in results
        for told in missed(model, results[model.name])
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, keep it, print the table; of all write it, too."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.nstar",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = list(models())
    names = [model.name for model in known]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="STUDY", help=f"some of: {', '.join(names)}"
    )
    parser.add_argument("--seconds", type=float, default=3, help="length of a trial")
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="begin nothing after so long; the next call goes on")
    parser.add_argument("--anew", action="store_true", help="drop what is kept")
    parser.add_argument("--show", action="store_true", help="run nothing: the table of what is there")
    asked = parser.parse_args(arguments)
    clock = Clock(asked.minutes)
    kept = Kept.at(
        KEPT / "nstar.json", {"seconds": asked.seconds, "replicates": asked.replicates}, asked.anew
    )
    for model in known:
        chosen = asked.only is None or model.name in asked.only
        if chosen and not asked.show and model.name not in kept.results and clock.left_s > 0:
            kept.keep(model.name, run(model, asked.seconds, asked.replicates))
            print(f"{model.name}: {kept.results[model.name]['limit']}", file=sys.stderr, flush=True)
    text = table(known, kept.results, asked.seconds, asked.replicates)
    print(text, end="")
    if len(kept.results) == len(known):
        (Path(__file__).parent / "nstar.md").write_text(text, encoding="utf-8")
    return 1 if "MISSED" in text else 0


if __name__ == "__main__":
    sys.exit(main())
