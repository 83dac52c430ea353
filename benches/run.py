"""The speed bench: prints a table; exit code 1 if a limit is missed.

python -m benches.run [--quick] [--only keep-alive tls] [--seed 7]    # all works: 1.5 hours, or a quarter
python -m benches.run --against ../other [--quick]                    # this engine and that of another tree
python -m benches.run --smoke                                         # does it work? its figures mean nothing
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benches import servers, works
from benches.figures import paired_ratio
from benches.harness import KEPT, arguments
from benches.measure import CLIENT_CORE, SERVER_CORE, build, busy_share, noted
from benches.peers import PEERS, QUANTUM, SVLOAD, THINKING, Tool, engine, floor
from benches.specials import SPECIALS
from benches.works import EFFORTS, WORKS, Bench, Outcome, Result, table
from svload.host.machine.lock import machine_lock

MISSED, INTERRUPTED = 1, 130
KEYS = [*(work.key for work in WORKS), *SPECIALS]


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if every limit that was asked for is kept, 1 if one is missed or was not measured, 130 on
    Ctrl-C; what was measured until then is printed."""
    asked = arguments(__doc__, given, quick=False, smoke=False, only=KEYS, seed=int, against=Path)
    effort = "smoke" if asked.smoke else "quick" if asked.quick else "full"
    result = Result(effort, int(time.time()) if asked.seed is None else asked.seed)
    other = engine("other svload", _python_of(asked.against), ours=False) if asked.against else None
    with _alone() as folder:
        try:
            _measure(result, asked.only, folder, other)
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            text, kept = compared(result.found, result.troubles) if other else judged(result, asked.only)
            print(text)
    return 0 if kept else MISSED


def judged(result: Result, only: Sequence[str]) -> tuple[str, bool]:
    """Return the table, and whether all limits were measured and are kept."""
    wanted = [name for work in WORKS if work.key in only for name in work.names]
    wanted += [name for name in SPECIALS if name in only]
    kept = all(name in result.found and result.found[name].passed for name in wanted)
    return table(result), kept and not result.troubles


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
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        yield KEPT.resolve()


def _measure(result: Result, only: Sequence[str], folder: Path, other: Tool | None) -> None:
    result.busy_before = busy_share(0.5)
    programs = {}
    for source in ("floor", "pacer", "fast_server"):
        with noted(result.troubles, f"{source}: "):
            programs[source] = build(Path(__file__).with_name(f"{source}.c"), folder)
    all_tools = [SVLOAD, THINKING, QUANTUM, *PEERS, floor(programs.get("floor"))]
    tools = [SVLOAD, other] if other else [tool for tool in all_tools if tool.program()]
    if other is None:
        result.missing = {tool.name: tool.get for tool in all_tools if not tool.program()}
        for name, get in result.missing.items():
            _say(f"{name} is not here and is left out ({get})")
    pads, result.request_bytes = works.pads_for(tools, folder)
    ours_bytes = result.request_bytes.get(SVLOAD.name, 0)
    sizes = [size for peer in PEERS if (size := result.request_bytes.get(peer.name))]
    if any(abs(ours_bytes - size) > 0.1 * size for size in sizes):
        result.troubles.append("svload's request is more than 10 % from a peer's: the works are not the same")
    effort, order = EFFORTS[result.effort], random.Random(result.seed)
    run = Bench(tools, pads, folder, effort, order, _say, programs)
    _traffic(run, only, result)
    for name, measure in SPECIALS.items():
        if name in only and other is None:
            with noted(result.troubles, f"{name}: "):
                result.found[name] = measure(run)


def _traffic(run: Bench, only: Sequence[str], result: Result) -> None:
    started = {
        "nginx": lambda: servers.nginx(run.folder / "nginx"),
        "fast_server": lambda: servers.fast_server(run.program("fast_server"), run.folder),
        "redis": lambda: servers.redis(run.folder),
    }
    for name, start in started.items():
        asked = [work for work in WORKS if work.key in only and work.server == name]
        if not asked:
            continue
        with noted(result.troubles, f"{name}: "), start() as server:
            for work in asked:
                outcome = result.found[work.key] = run.measure(work, server)
                if work.half and (rate := works.half_rate(outcome, run.tools)):
                    result.found[work.names[1]] = run.measure(work, server, rate)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


LIMIT = 1.02
"""The highest ratio of this engine's CPU to another's, over all works; for one work, if surely above it."""


def _python_of(tree: Path) -> str:
    """Return the interpreter of another tree, which finds the svload and the engine of that tree."""
    python = tree.resolve() / ".venv/bin/python"
    if not python.exists():
        raise SystemExit(f"{tree} has no engine: run make setup there")
    return str(python)


def compared(outcomes: Mapping[str, Outcome], troubles: Sequence[str] = ()) -> tuple[str, bool]:
    """Return the ratios of this engine's CPU per request to the other's, by work and over all works and
    rounds, equally weighted, and whether the limit is kept: every run counted, no work is surely above it,
    and the ratio over all is not above it."""
    rounds: dict[bool, dict[int, float]] = {True: {}, False: {}}
    lines, failures = ["this engine ÷ the other, process CPU a request (95 %)"], list(troubles)
    for at, (name, outcome) in enumerate(outcomes.items()):
        lines.append(f"  {name:<20} {outcome.ratio}")
        for cell in outcome.cells:
            rounds[cell.ours] |= {1_000 * at + number: us for number, us in cell.by_round().items()}
            failures += [f"{name}: {why}" for why in cell.failures]
        if outcome.ratio.low > LIMIT:
            failures.append(f"{name} is surely slower")
    overall = paired_ratio(rounds[True], rounds[False])
    kept = not failures and overall.value <= LIMIT
    lines += [f"  {'all':<20} {overall}", *(f"  ! {why}" for why in failures)]
    return "\n".join([*lines, f"{'kept' if kept else 'MISSED'}: at most {LIMIT:.2f} over all"]), kept


if __name__ == "__main__":
    sys.exit(main())
