"""The speed bench as a command: a table on stdout, JSON under build/bench/.

python -m benches.run [--quick] [--only keep-alive tls] [--seed 7]    # all works: 1.5 hours, or a quarter
python -m benches.run --against COMMIT [--quick]                      # this engine and that commit's
python -m benches.run --smoke                                         # does it work? its figures mean nothing
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benches import specials, works
from benches.against import Comparison, other_engine
from benches.harness import KEPT, arguments
from benches.measure import CLIENT_CORE, SERVER_CORE, Failed, adopt_orphans, build, busy_share
from benches.peers import PEERS, QUANTUM, THINKING, Floor, Svload, SvloadCommand, Tool
from benches.report import Result, table
from benches.servers import Server, fast_server, nginx
from benches.specials import SPECIALS
from benches.works import EFFORTS, WORKS, Bench
from svload.host.machine.facts import processor

MISSED, NOTHING, INTERRUPTED = 1, 2, 130
NAMES = [*(work.key for work in WORKS), *SPECIALS]


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if every measured limit is kept, 1 if one is missed, 2 if none was measured, 130 on Ctrl-C."""
    asked = arguments(__doc__, given, quick=False, smoke=False, only=NAMES, seed=int, against=str)
    effort = "smoke" if asked.smoke else "quick" if asked.quick else "full"
    if asked.against:
        return against(asked.against, effort, asked.only, asked.seed)
    result = bench(effort, asked.only, asked.seed)
    print(table(result))
    verdicts = result.verdicts()
    if result.interrupted:
        return INTERRUPTED
    if not verdicts:
        return NOTHING
    return 0 if all(verdicts.values()) and not result.troubles else MISSED


def bench(effort: str, only: Sequence[str] = NAMES, seed: int | None = None) -> Result:
    """Measure, holding svload's machine-wide lock; the result also goes to build/bench/<effort>.json."""
    seed = int(time.time()) if seed is None else seed
    with _alone() as folder:
        machine = {"kernel": platform.release(), "cpu": processor(), "cores": os.cpu_count()}
        result = Result(effort, seed, machine | {"busy_before": busy_share(0.5)})
        try:
            _measure(result, only, folder)
        except KeyboardInterrupt:
            result.interrupted = True
    _save(result, folder)
    return result


def against(commit: str, effort: str, only: Sequence[str], seed: int | None) -> int:
    """Measure this engine and another commit's in turn; return 0 if the limit of `Comparison` is kept, 1 if
    not, 2 if nothing was measured."""
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        other = other_engine(commit, KEPT.resolve(), _say)
    except Failed as why:
        _say(str(why))
        return NOTHING
    with _alone() as folder:
        result = Result(effort, int(time.time()) if seed is None else seed, {})
        run = Bench([Svload(), other], {}, folder, EFFORTS[effort], random.Random(result.seed), _say, {})
        try:
            run.programs = {"fast_server": build(Path(__file__).with_name("fast_server.c"), folder)}
            _traffic(run, only, result, lambda: None)
        except KeyboardInterrupt:
            return INTERRUPTED
    found = Comparison(other.name.removeprefix("svload "), result.outcomes, result.troubles)
    print(found.table())
    return NOTHING if not found.outcomes else 0 if found.passed else MISSED


@contextlib.contextmanager
def _alone() -> Iterator[Path]:
    """Reserve the machine: svload's lock, this process on the server's core. Yield the bench's folder."""
    from svload.host.machine.lock import machine_lock

    KEPT.mkdir(parents=True, exist_ok=True)
    before = os.sched_getaffinity(0)
    if not {SERVER_CORE, CLIENT_CORE} <= before:
        raise SystemExit(f"it needs cores {SERVER_CORE} and {CLIENT_CORE}, and may use {sorted(before)}")
    with machine_lock("svload's bench", None, lambda holder: _say(f"waiting for the machine: {holder}")):
        os.sched_setaffinity(0, {SERVER_CORE})
        adopt_orphans()
        # SIGTERM acts like Ctrl-C: servers end, and what was measured is printed
        on_term = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            yield KEPT.resolve()
        finally:
            signal.signal(signal.SIGTERM, on_term)
            os.sched_setaffinity(0, before)


def _save(result: Result, folder: Path) -> None:
    """Save after every work, so that an hour's figures survive any end; written atomically."""
    part = folder / f"{result.effort}.json.part"
    found = asdict(result) | {"verdicts": result.verdicts()}
    part.write_text(json.dumps(found, indent=1, default=str) + "\n", encoding="utf-8")
    part.replace(folder / f"{result.effort}.json")


def _measure(result: Result, chosen: Sequence[str], folder: Path) -> None:
    effort, order = EFFORTS[result.effort], random.Random(result.seed)
    programs = {}
    for source in ("floor", "pacer", "fast_server"):
        try:
            programs[source] = build(Path(__file__).with_name(f"{source}.c"), folder)
        except Failed as why:
            result.troubles.append(f"{source}: {why}")
    ours: list[Tool] = [Svload(), THINKING, QUANTUM, SvloadCommand()]
    all_tools = [*ours, *PEERS, Floor(programs.get("floor"))]
    tools = [tool for tool in all_tools if tool.program()]
    result.missing = {tool.name: tool.get for tool in all_tools if not tool.program()}
    for name, get in result.missing.items():
        _say(f"{name} is not here and is left out ({get})")
    pads, result.request_bytes = works.pads_for(tools, folder)
    for variant in (THINKING, QUANTUM):
        pads[variant.name] = pads.get(Svload.name, "")
    ours_bytes = result.request_bytes.get(Svload.name, 0)
    sizes = [size for peer in PEERS if (size := result.request_bytes.get(peer.name))]
    if any(abs(ours_bytes - size) > 0.1 * size for size in sizes):
        result.troubles.append("svload's request is more than 10 % from a peer's: the works are not the same")
    run = Bench(tools, pads, folder, effort, order, _say, programs)
    _traffic(run, chosen, result, lambda: _save(result, folder))
    if missing := specials.lacking():
        result.missing[specials.PEER] = f"{', '.join(missing)} (apt install redis-server redis-tools)"
        chosen = [name for name in chosen if name != "redis"]
    for name, measure in SPECIALS.items():
        if name in chosen:
            try:
                result.specials[name] = measure(run)
            except (Failed, OSError) as why:
                result.troubles.append(f"{name}: {why}")
            _save(result, folder)


def _traffic(run: Bench, chosen: Sequence[str], result: Result, save: Callable[[], None]) -> None:
    asked = [work for work in WORKS if work.key in chosen]
    for name in dict.fromkeys(work.server for work in asked):
        try:
            with _server(run, name) as server:
                for work in (one for one in asked if one.server == name):
                    result.outcomes.append(run.measure(work, server))
                    save()
                    if work.half and (rate := works.half_rate(result.outcomes[-1], run.tools)):
                        result.outcomes.append(run.measure(work, server, rate))
                        save()
        except (Failed, OSError) as why:
            result.troubles.append(f"{name}: {why}")


def _server(run: Bench, name: str) -> contextlib.AbstractContextManager[Server]:
    return nginx(run.folder / "nginx") if name == "nginx" else fast_server(run.program(name), run.folder)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
