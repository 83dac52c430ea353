"""Limits of a real nginx, changed under load, and kill -9 at random moments: `python -m benches.limits`.

Runs nginx with 2 and with 4 workers. First every limit is lowered by a planned fault and restored: the table
has what the whole service used without it and with it, as counted by the kernel. Then all limits are lowered
and restored repeatedly, and svload is killed (`--kills 20`, `--seed`): the command, one of its agent's two
processes, or all of them. After the next command, the bench looks for what is left of the lab. The table goes
to benches/limits.md; the exit code is 1 if a limit did not hold or anything was left. Root.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.journeys import limited
from tests.journeys.world import World

from benches.harness import arguments, page, publish
from svload.host import cache_dir
from svload.host.machine.facts import describe_machine
from svload.host.process import cgroups
from svload.model.faults import limit_text

PHASE_S, KILLED_PHASE_S = 2.0, 0.6
MOST_USED = 1.1
"""Highest use over the limit: it includes a rate's first burst, and readings are 0.2 s apart."""


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if every limit held and nothing was left, else 1."""
    asked = arguments(__doc__, given, kills=20, seed=20_261_123)
    seen, rounds = [], []
    for name, write in (("limited", limited.write_study), ("delayed", limited.write_latency_study)):
        with _world() as world:
            seen += limited.measure(world, write(world.root / name, PHASE_S))
    for number, moment in enumerate(limited.draw_moments(asked.seed, asked.kills, KILLED_PHASE_S), 1):
        with _world() as world:
            study = limited.write_study(world.root / "limited", KILLED_PHASE_S, together=True)
            rounds.append(limited.play(world, study, moment))
        print(f"kill {number}: {_round(rounds[-1])}", file=sys.stderr, flush=True)
    publish(page(__file__), _page(seen, rounds, asked.seed))
    return 0 if all(map(_held, seen)) and not any(one.after for one in rounds) else 1


@contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="svload-limits-") as folder:
        yield World(Path(folder), cache_dir(), anew=True)


def _held(one: limited.Seen) -> bool:
    return one.is_set_and_back and one.holds(MOST_USED)


def _page(seen: Sequence[limited.Seen], rounds: Sequence[limited.Round], seed: int) -> str:
    clean = sum(not one.after for one in rounds)
    kills = "\n".join(f"| {number} | {_round(one)} |" for number, one in enumerate(rounds, 1))
    machine, version = describe_machine(), 1 if cgroups.writes_escape() else 2
    return f"""# Limits that hold

`python -m benches.limits`. Cores: {machine["cores"]}; Linux {machine["kernel"]}, cgroup v{version}.
nginx serves {limited.FILES} files of {limited.EACH_MIB} MiB, more than fits in its memory. 4 users \
read them in turn, so every read goes to the disk, and 8 users
request 1 KiB. A planned fault (`limit`) lowers a limit for {PHASE_S:g} s and restores it. “Used” is \
the total of all workers as counted by the
kernel: for memory the peak, for latency the mean response time of the 8 users.

| workers | limit | asked | read back | put back to | used without it | used with it | |
|---|---|---|---|---|---|---|---|
{chr(10).join(map(_row, seen))}

Second part: cpus, memory, disk_rate and link (rate and latency) are lowered together for \
{KILLED_PHASE_S:g} s and restored for {KILLED_PHASE_S:g} s, three times per trial.
svload gets SIGKILL at random moments (seed {seed}): the command (controller), the lower or \
the upper process of its agent (agent, keeper),
or all three at once (all). `svload lab reset` follows. Before and after it the bench looks for \
the lab's control groups in every hierarchy,
processes of svload and in the lab's networks, and journals. The machine's interfaces and \
queueing disciplines must be unchanged.
“Put right” is the number of things that `lab reset` reported as undone.

**Nothing was left after {clean} of {len(rounds)} kills.**

| | killed | workers | after the limits were | left before the next command | \
put right by it | left after it |
|---|---|---|---|---|---|---|
{kills}
"""


def _row(one: limited.Seen) -> str:
    values = (one.held.asked, one.found, one.restored, one.without, one.with_it)
    shows = [limit_text(one.held.setting, float(f"{value:.3g}")) for value in values]
    cells = (one.workers, f"`{one.held.option}`", *shows, "held" if _held(one) else "NOT HELD")
    return f"| {' | '.join(map(str, cells))} |"


def _round(one: limited.Round) -> str:
    plural = {"group": "groups", "process": "processes", "journal": "journals"}
    counts = {kind: sum(line.startswith(kind) for line in one.before) for kind in plural}
    found = [f"{count} {kind if count == 1 else plural[kind]}" for kind, count in counts.items() if count]
    left, after = ", ".join(found) or "nothing", "; ".join(one.after) or "nothing"
    when = f"{one.doing}, +{one.moment.delay_s:.2f} s"
    return f"{one.moment.victim} | {one.workers or '–'} | {when} | {left} | {one.undone} | {after}"


if __name__ == "__main__":
    sys.exit(main())
