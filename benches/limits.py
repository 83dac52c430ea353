"""Limits of a real nginx, changed under load: `python -m benches.limits`.

Runs nginx with 2 and with 4 workers. Every limit is lowered by a planned fault and restored: the table has
what the whole service used without it and with it, as counted by the kernel. It goes to benches/limits.md;
the exit code is 1 if a limit did not hold. Root.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.journeys import limited
from tests.journeys.world import World

from benches.harness import arguments, markdown, page, publish
from svload.host import cache_dir
from svload.host.machine.facts import describe_machine
from svload.host.process import cgroups
from svload.model.faults import limit_text

PHASE_S = 2.0
MOST_USED = 1.1
"""Highest use over the limit: it includes a rate's first burst, and readings are 0.2 s apart."""
PAGE = """# Limits that hold

`python -m benches.limits`. Cores: {cores}; Linux {kernel}, cgroup v{version}.
nginx serves {files} files of {each} MiB, more than fits in its memory. 4 users read them in turn, so every \
read goes to the disk, and 8 users
request 1 KiB. A planned fault (`limit`) lowers a limit for {phase:g} s and restores it. “Used” is the total \
of all workers as counted by the
kernel: for memory the peak, for latency the mean response time of the 8 users.

{rows}"""


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if every limit held, else 1."""
    arguments(__doc__, given)
    seen: list[limited.Seen] = []
    for name, write in (("limited", limited.write_study), ("delayed", limited.write_latency_study)):
        with tempfile.TemporaryDirectory(prefix="svload-limits-") as folder:
            world = World(Path(folder), cache_dir(), anew=True)
            seen += limited.measure(world, write(world.root / name, PHASE_S))
    machine, version = describe_machine(), 1 if cgroups.writes_escape() else 2
    columns = "workers|limit|asked|read back|put back to|used without it|used with it|"
    text = PAGE.format(
        cores=machine["cores"], kernel=machine["kernel"], version=version, files=limited.FILES,
        each=limited.EACH_MIB, phase=PHASE_S, rows=markdown(columns, map(_row, seen)),
    )  # fmt: skip
    publish(page(__file__), text)
    return 0 if all(map(_held, seen)) else 1


def _held(one: limited.Seen) -> bool:
    return one.is_set_and_back and one.holds(MOST_USED)


def _row(one: limited.Seen) -> list[object]:
    values = (one.held.asked, one.found, one.restored, one.without, one.with_it)
    shows = [limit_text(one.held.setting, float(f"{value:.3g}")) for value in values]
    return [one.workers, f"`{one.held.option}`", *shows, "held" if _held(one) else "NOT HELD"]


if __name__ == "__main__":
    sys.exit(main())
