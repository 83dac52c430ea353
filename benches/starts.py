"""How far apart the machines of a fleet begin: `python -m benches.starts [--starts 20] [--machines 10]`.

Machines are namespaces with a sshd and a monotonic clock of their own, whose true offsets are therefore known. Of each
start: the last machine's first request minus that of the first, in true time. What is counted is the machine's lateness
by its own clock and the error of its offset. No machine spins before the start. The limit is a median of 1 ms. Root.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

import numpy as np
from tests.fleet.fabric import Host, fabric

from svload.store import RunDir, read_trial

LIMIT_NS = 1_000_000
AHEAD_S = 1_000
STUDY = """\
name: starts
question: Do all machines begin together?
lab: {{web: {{kit: truth, role: store, workers: 16}}}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: {rate}/s
    generators: {machines}
    record: rows
    request: {{get: http://web/v1/a/c/o, expect_status: 404, timeout: 2s}}
measure: {{duration: 0.5s, replicates: {starts}}}
"""


def skew_ns(run: RunDir, trial: str) -> int:
    """In true time, over all machines of one start."""
    data = read_trial(run.trial(trial).path)
    late = data.samples["begun_ns"] - data.samples["due_ns"]
    conditions = data.lab.conditions
    assert conditions is not None
    wrong = {clock.machine: clock.start_offset_ns - true_ns(clock.machine) for clock in conditions.clocks}
    begun = []
    for place, share in enumerate(data.summary.generators):
        machine = next(part.machine for part in data.summary.parts if part.share == share.share)
        begun.append(int(late[data.samples["share"] == place][0]) + wrong[machine])
    return max(begun) - min(begun)


def true_ns(machine: str) -> int:
    """How far its clock was put ahead."""
    return int(machine.removeprefix("h")) * AHEAD_S * 10**9


def main() -> int:
    """Print the figures; 1 where the limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--machines", type=int, default=10)
    told = parser.parse_args()
    hosts = [Host(f"h{number}", number, number * AHEAD_S) for number in range(1, told.machines + 1)]
    with fabric(hosts) as made:
        path = made.folder / "study" / "study.yaml"
        path.parent.mkdir()
        path.write_text(STUDY.format(rate=told.machines * 4, machines=told.machines, starts=told.starts))
        lines = [f"    {host.name}: {{ansible_host: {host.address}}}" for host in hosts]
        where = made.inventory(
            f"generators:\n  vars: {{svload_python: {sys.executable}}}\n  hosts:\n" + "\n".join(lines) + "\n"
        )
        done = made.svload("run", str(path), "-i", where, "--json")
        if not done.stdout.startswith("{"):
            print(done.stderr, file=sys.stderr)
            return 2
        run = RunDir(made.folder / Path(json.loads(done.stdout)["run"]))
        found = np.array([skew_ns(run, trial) for trial in run.sealed_trials()])
    print(
        f"{len(found)} starts of {told.machines} machines on this one: median {median(found) / 1e6:.3f} ms apart, "
        f"largest {found.max() / 1e6:.3f} ms (limit {LIMIT_NS / 1e6:g} ms)"
    )
    return 0 if median(found) <= LIMIT_NS else 1


if __name__ == "__main__":
    sys.exit(main())
