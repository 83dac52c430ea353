"""The bench as a command: `python -m benches.run [--quick] [--only WORK …]`: a table on stdout, JSON under build/bench/."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benches import timing, works
from benches.figures import Ratio
from benches.measure import CLIENT_CORE, SERVER_CORE, Failed, adopt_orphans, build, core_times
from benches.peers import PEERS, Floor, Svload, SvloadCommand, Tool
from benches.servers import fast_server, nginx, nginx_program
from benches.works import FULL, QUICK, SMOKE, UNMEASURED, WORKS, Bench, Outcome

EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
TIMING = ("pacing", "first")
MISSED = 1
FOLDER = Path("build/bench")


@dataclass
class Result:
    """All that one invocation found."""

    effort: str
    seed: int
    machine: dict[str, Any]
    missing: dict[str, str]
    request_bytes: dict[str, int] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    pacing: timing.PacingOutcome | None = None
    first: timing.FirstOutcome | None = None
    troubles: list[str] = field(default_factory=list)

    def verdicts(self) -> dict[str, bool]:
        """Each limit that was measured, and whether it is kept."""
        found = {_name(outcome): outcome.passed for outcome in self.outcomes}
        if self.pacing is not None:
            found["pacing"] = self.pacing.passed
        if self.first is not None:
            found["first"] = self.first.passed
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every limit measured is kept, 1 if one is missed, 2 if nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m benches.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: about ten minutes")
    parser.add_argument("--smoke", action="store_true", help="does it work at all? its figures mean nothing")
    names = [work.key for work in WORKS] + list(TIMING)
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="WORK", help=f"some of: {', '.join(names)}"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the order of runs; default: the time")
    asked = parser.parse_args(arguments)
    effort = "smoke" if asked.smoke else "quick" if asked.quick else "full"
    result = bench(effort, asked.only, asked.seed)
    print(table(result))
    verdicts = result.verdicts()
    if not verdicts:
        return 2
    return 0 if all(verdicts.values()) else MISSED


def bench(effort: str, only: Sequence[str] | None = None, seed: int | None = None) -> Result:
    """Measure, holding svload's machine-wide lock; the result also goes to build/bench/<effort>.json."""
    from svload.host.lock import machine_lock

    chosen = list(only or [*(work.key for work in WORKS), *TIMING])
    seed = int(time.time()) if seed is None else seed
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = FOLDER.resolve()
    before = os.sched_getaffinity(0)
    if not {SERVER_CORE, CLIENT_CORE} <= before:
        raise SystemExit(
            f"the bench needs cores {SERVER_CORE} and {CLIENT_CORE} for itself; it may use {sorted(before)}"
        )
    with machine_lock("svload's bench", None, lambda holder: _say(f"waiting for the machine: {holder}")):
        os.sched_setaffinity(0, {SERVER_CORE})
        adopt_orphans()
        try:
            result = _measure(effort, chosen, seed, folder)
        finally:
            os.sched_setaffinity(0, before)
    (folder / f"{effort}.json").write_text(json.dumps(_plain(result), indent=1) + "\n", encoding="utf-8")
    return result


def _measure(effort_name: str, chosen: Sequence[str], seed: int, folder: Path) -> Result:
    effort, order = EFFORTS[effort_name], random.Random(seed)
    programs = {}
    result = Result(effort_name, seed, _machine(), {})
    for source in ("floor", "pacer", "fast_server"):
        try:
            programs[source] = build(Path(__file__).with_name(f"{source}.c"), folder)
        except Failed as why:
            result.troubles.append(f"{source}: {why}")
    all_tools: list[Tool] = [Svload(), SvloadCommand(), *PEERS, Floor(programs.get("floor"))]
    tools = [tool for tool in all_tools if tool.program()]
    result.missing = {tool.name: tool.get for tool in all_tools if not tool.program()}
    for name, get in result.missing.items():
        _say(f"{name} is not here and is left out ({get})")
    pads, result.request_bytes = works.pads_for(tools, folder)
    run = Bench(tools, pads, folder, effort, order, _say)
    _traffic(run, [work for work in WORKS if work.key in chosen], programs.get("fast_server"), result)
    if "pacing" in chosen:
        seconds = 2 * effort.long_s
        result.pacing = timing.measure_pacing(
            tools, programs.get("pacer"), folder, min(effort.rounds, 5), seconds, order, _say
        )
    if "first" in chosen:
        result.first = timing.measure_first(folder, effort.rounds, _say)
    return result


def _traffic(run: Bench, chosen: Sequence[works.Work], fast: Path | None, result: Result) -> None:
    for name in dict.fromkeys(work.server for work in chosen):
        with contextlib.ExitStack() as stack:
            try:
                if name == "nginx":
                    server = stack.enter_context(nginx(run.folder / "nginx"))
                elif fast is not None:
                    server = stack.enter_context(fast_server(fast, run.folder))
                else:
                    continue
            except Failed as why:
                result.troubles.append(f"{name}: {why}")
                continue
            for work in (one for one in chosen if one.server == name):
                result.outcomes.append(run.measure(work, server))
                if work.half and (rate := works.half_rate(result.outcomes[-1], run.tools)):
                    result.outcomes.append(run.measure(work, server, rate))


def table(result: Result) -> str:
    """What people read: a block for each work, then the limits."""
    lines = [_head(result)]
    for outcome in result.outcomes:
        lines += ["", _work_block(outcome)]
    if result.pacing is not None:
        lines += ["", _pacing_block(result.pacing)]
    if result.first is not None:
        tries = " ".join(f"{one:.2f}" for one in result.first.tries_s)
        lines += [
            "",
            f"First request after `svload load` is typed, no agent before: {tries} s (limit {timing.COLD_LIMIT_S} s)",
        ]
        lines += [f"  ! {failure}" for failure in result.first.failures]
    lines += ["", "Limits"]
    lines += [
        f"  {'kept  ' if kept else 'MISSED'}  {name}{_figure(result, name)}"
        for name, kept in result.verdicts().items()
    ]
    lines += [f"  not measured  {name}: {why}" for name, why in UNMEASURED.items()]
    lines += [f"  missing  {name}: {get}" for name, get in result.missing.items()]
    lines += [f"  ! {trouble}" for trouble in result.troubles]
    return "\n".join(lines)


def _head(result: Result) -> str:
    effort = EFFORTS[result.effort]
    sizes = ", ".join(f"{name} {size}" for name, size in result.request_bytes.items() if size)
    busy = result.machine["busy_before"]
    lines = [
        f"{result.effort}: {effort.rounds} rounds of runs of {effort.short_s} and {effort.long_s} s in random order (seed {result.seed}); "
        f"server on core {SERVER_CORE}, client on core {CLIENT_CORE}",
        f"request bytes: {sizes}",
    ]
    if busy > 0.05:
        lines.append(
            f"! this machine was busy before the first run ({busy:.0%} of its cores): these figures are not quiet"
        )
    return "\n".join(lines)


def _work_block(outcome: Outcome) -> str:
    load = "at saturation" if outcome.rate_rps is None else f"at {outcome.rate_rps:.0f} req/s"
    lines = [
        f"{outcome.work.title}, {load}",
        f"  {'tool':<12} {'process µs':>10} {'core µs':>8} {'req/s':>8}   ÷ {outcome.best or 'best peer'} (95 %)",
    ]
    none = math.inf
    for cell in sorted(outcome.cells, key=lambda one: one.median("process_us") or none):
        ratio = outcome.ratio_of(cell)
        shown = [
            _number(cell.median(what), form)
            for what, form in (("process_us", "10.2f"), ("core_us", "8.2f"), ("rate_rps", "8.0f"))
        ]
        lines.append(f"  {cell.tool:<12} {' '.join(shown)}   {_interval(ratio)}")
        lines += [f"    ! {failure}" for failure in cell.failures]
    return "\n".join(lines)


def _pacing_block(outcome: timing.PacingOutcome) -> str:
    lines = [
        f"Pacing at {timing.RATE_RPS:.0f} req/s, {outcome.seconds} s a round: error of the gaps as the receiver stamped them",
        f"  {'tool':<22} {'stdev ms':>9} {'p99 ms':>8}",
    ]
    for name in sorted(outcome.rounds, key=lambda one: outcome.p99_ms(one) or 0.0):
        lines.append(f"  {name:<22} {outcome.stdev_ms(name):>9.3f} {outcome.p99_ms(name):>8.3f}")
    lines += [f"  ! {name}: {why}" for name, failures in outcome.failures.items() for why in failures]
    return "\n".join(lines)


def _figure(result: Result, name: str) -> str:
    for outcome in result.outcomes:
        if _name(outcome) == name:
            return f"  ≤ {outcome.work.limit:.2f} × {outcome.best}: {_interval(outcome.ratio)}"
    if name == "pacing" and result.pacing is not None:
        return f"  p99 {_number(result.pacing.p99_ms('svload'), '.3f')} ms, at most {_number(result.pacing.limit_ms, '.3f')} ms"
    if name == "first" and result.first is not None and result.first.tries_s:
        return f"  slowest {max(result.first.tries_s):.2f} s, at most {timing.COLD_LIMIT_S} s"
    return ""


def _name(outcome: Outcome) -> str:
    return outcome.work.key if outcome.rate_rps is None else f"{outcome.work.key}@half"


def _interval(ratio: Ratio | None) -> str:
    if ratio is None or not ratio.rounds:
        return "–"
    return f"{ratio.value:.3f} ({ratio.low:.3f} … {ratio.high:.3f})"


def _number(value: float | None, form: str) -> str:
    return format("–", ">" + form.split(".")[0]) if value is None else format(value, form)


def _machine() -> dict[str, Any]:
    before = core_times()
    time.sleep(0.5)
    after = core_times()
    idle_s = sum(after[core][name] - before[core][name] for core in after for name in ("idle", "iowait"))
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {
        "kernel": platform.release(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "nginx": nginx_program() is not None,
        "busy_before": max(1 - idle_s / (0.5 * len(after)), 0.0),
    }


def _plain(result: Result) -> dict[str, Any]:
    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): whole(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [whole(one) for one in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    found = {"format": 1, **asdict(result), "verdicts": result.verdicts(), "unmeasured": UNMEASURED}
    plain: dict[str, Any] = whole(found)
    return plain


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
