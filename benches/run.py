"""The speed bench as a command: a table on stdout, JSON under build/bench/.

python -m benches.run [--quick] [--only keep-alive tls] [--seed 7]    # all works: 1.5 hours, or a quarter
python -m benches.run --against ../other [--quick]                    # this engine and that of another tree
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
from dataclasses import asdict, replace
from pathlib import Path

from benches import specials, works
from benches.figures import paired_ratio
from benches.harness import KEPT, arguments
from benches.measure import CLIENT_CORE, SERVER_CORE, build, busy_share, noted
from benches.peers import PEERS, QUANTUM, SVLOAD, THINKING, floor
from benches.servers import fast_server, nginx
from benches.specials import SPECIALS
from benches.works import EFFORTS, WORKS, Bench, Outcome, Result, table
from svload.host.machine.facts import processor
from svload.host.machine.lock import machine_lock

MISSED, NOTHING, INTERRUPTED = 1, 2, 130
NAMES = [*(work.key for work in WORKS), *SPECIALS]


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if every measured limit is kept, 1 if one is missed, 2 if none was measured, 130 on Ctrl-C."""
    asked = arguments(__doc__, given, quick=False, smoke=False, only=NAMES, seed=int, against=Path)
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


@contextlib.contextmanager
def _alone() -> Iterator[Path]:
    """Reserve the machine: svload's lock, this process on the server's core. Yield the bench's folder."""
    KEPT.mkdir(parents=True, exist_ok=True)
    before = os.sched_getaffinity(0)
    if not {SERVER_CORE, CLIENT_CORE} <= before:
        raise SystemExit(f"it needs cores {SERVER_CORE} and {CLIENT_CORE}, and may use {sorted(before)}")
    with machine_lock("svload's bench", None, lambda holder: _say(f"waiting for the machine: {holder}")):
        os.sched_setaffinity(0, {SERVER_CORE})
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
    programs = {}
    for source in ("floor", "pacer", "fast_server"):
        with noted(result.troubles, f"{source}: "):
            programs[source] = build(Path(__file__).with_name(f"{source}.c"), folder)
    all_tools = [SVLOAD, THINKING, QUANTUM, *PEERS, floor(programs.get("floor"))]
    tools = [tool for tool in all_tools if tool.program()]
    result.missing = {tool.name: tool.get for tool in all_tools if not tool.program()}
    if missing := specials.lacking():
        result.missing[specials.PEER] = f"{', '.join(missing)} (apt install redis-server redis-tools)"
    for name, get in result.missing.items():
        _say(f"{name} is not here and is left out ({get})")
    pads, result.request_bytes = works.pads_for(tools, folder)
    ours_bytes = result.request_bytes.get(SVLOAD.name, 0)
    sizes = [size for peer in PEERS if (size := result.request_bytes.get(peer.name))]
    if any(abs(ours_bytes - size) > 0.1 * size for size in sizes):
        result.troubles.append("svload's request is more than 10 % from a peer's: the works are not the same")
    order = random.Random(result.seed)
    run = Bench(tools, pads, folder, EFFORTS[result.effort], order, _say, programs)
    _traffic(run, chosen, result, lambda: _save(result, folder))
    for name, measure in SPECIALS.items():
        if name in chosen and not (name == "redis" and missing):
            with noted(result.troubles, f"{name}: "):
                result.specials[name] = measure(run)
            _save(result, folder)


def _traffic(run: Bench, chosen: Sequence[str], result: Result, save: Callable[[], None]) -> None:
    asked = [work for work in WORKS if work.key in chosen]
    for name in dict.fromkeys(work.server for work in asked):
        with noted(result.troubles, f"{name}: "), contextlib.ExitStack() as stack:
            is_nginx = name == "nginx"
            started = nginx(run.folder / name) if is_nginx else fast_server(run.program(name), run.folder)
            server = stack.enter_context(started)
            for work in (one for one in asked if one.server == name):
                result.outcomes.append(run.measure(work, server))
                save()
                if work.half and (rate := works.half_rate(result.outcomes[-1], run.tools)):
                    result.outcomes.append(run.measure(work, server, rate))
                    save()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


LIMIT = 1.02
"""The highest ratio of this engine's CPU to another's, over all works; for one work, if surely above it."""


def against(tree: Path, effort: str, only: Sequence[str], seed: int | None) -> int:
    """Measure this engine and that of another tree in turn, with the same shares, as if it were a peer.
    Return 0 if the limit of `compared` is kept, 1 if not, 2 if nothing was measured."""
    module = next((tree / "src/svload").resolve().glob("_native*.so"), None)
    if module is None:
        raise SystemExit(f"{tree} has no engine: run make setup there")
    other = replace(
        SVLOAD, name="other svload", ours=False, make=lambda job: [*SVLOAD.command(job), str(module)]
    )
    with _alone() as folder:
        result = Result(effort, int(time.time()) if seed is None else seed, {})
        run = Bench([SVLOAD, other], {}, folder, EFFORTS[effort], random.Random(result.seed), _say, {})
        try:
            run.programs = {"fast_server": build(Path(__file__).with_name("fast_server.c"), folder)}
            _traffic(run, only, result, lambda: None)
        except KeyboardInterrupt:
            return INTERRUPTED
    text, kept = compared(result.outcomes, result.troubles)
    print(text)
    return NOTHING if not result.outcomes else 0 if kept else MISSED


def compared(outcomes: Sequence[Outcome], troubles: Sequence[str] = ()) -> tuple[str, bool]:
    """Return the ratios of this engine's CPU per request to the other's, by work and over all works and
    rounds, equally weighted, and whether the limit is kept: every run counted, no work is surely above it,
    and the ratio over all is not above it."""
    rounds: dict[bool, dict[int, float]] = {True: {}, False: {}}
    lines, failures = ["this engine ÷ the other, process CPU a request (95 %)"], list(troubles)
    for at, outcome in enumerate(outcomes):
        lines.append(f"  {outcome.name:<20} {outcome.ratio}")
        for cell in outcome.cells:
            rounds[cell.ours] |= {1_000 * at + number: us for number, us in cell.by_round().items()}
            failures += [f"{outcome.name}: {why}" for why in cell.failures]
        if outcome.ratio.low > LIMIT:
            failures.append(f"{outcome.name} is surely slower")
    overall = paired_ratio(rounds[True], rounds[False])
    kept = not failures and overall.value <= LIMIT
    lines += [f"  {'all':<20} {overall}", *(f"  ! {why}" for why in failures)]
    return "\n".join([*lines, f"{'kept' if kept else 'MISSED'}: at most {LIMIT:.2f} over all"]), kept


if __name__ == "__main__":
    sys.exit(main())
