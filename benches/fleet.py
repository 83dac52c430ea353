"""Ten machines, as namespaces of this one, each with a separate sshd and clock (root):

    python -m benches.fleet starts    # how far apart they start a load: a median of at most 1 ms
    python -m benches.fleet ten       # from a wheel (make wheel) to results on them; 8 minutes, 8 GB

*starts*: for each start, the last machine's first request minus that of the first, in true time, which the
known offsets of the clocks give: a machine's lateness by its own clock plus the error of its offset. No
machine spins before.

*ten*: machines at three sites have only the parts of svload that `fleet install` brings from a wheelhouse,
because they reach no index. Every trial of the first paper's study must be sealed, every machine must make
load, no request may fail, and nothing may be left.

Exit 1 if one of these does not hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.fleet.fabric import Fabric, Host, fabric, load

from benches.harness import KEPT, arguments
from svload.store import RunDir, read_trial

ROOT = Path(__file__).resolve().parents[1]
MACHINES = 10
LIMIT_MS = 1.0
AHEAD_S = 1_000
"""A machine's clock is ahead by its number times this."""
SITES = {"brno": range(1, 5), "praha": range(5, 8), "ostrava": range(8, 11)}
STUDY = """\
name: starts
question: Do machines begin together?
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
_BOUND_S = 3600


def machines(own_tmp: bool = False) -> list[Host]:
    """Return ten machines with different clocks."""
    return [Host(f"h{n}", n, n * AHEAD_S, own_tmp=own_tmp) for n in range(1, MACHINES + 1)]


def starts(count: int) -> bool:
    """Print how far apart the machines start; return whether the limit is kept."""
    hosts = machines()
    study = STUDY.format(rate=4 * MACHINES, machines=MACHINES, starts=count)
    with fabric(hosts) as made:
        inventory = made.fleet(hosts, svload_python=sys.executable)
        run = load(made, made.study("starts", study), "-i", inventory)
        found_ms = np.array([skew_ns(run, trial) for trial in run.sealed_trials()]) / 1e6
    middle = float(np.median(found_ms))
    apart = f"median {middle:.3f} ms apart, largest {found_ms.max():.3f} ms (limit {LIMIT_MS:g} ms)"
    print(f"{len(found_ms)} starts of {MACHINES} machines on this one: {apart}")
    return middle <= LIMIT_MS


def skew_ns(run: RunDir, trial: str) -> int:
    """Return how far apart the machines begin one start, in true time."""
    data = read_trial(run.trial(trial).path)
    late = data.samples["begun_ns"] - data.samples["due_ns"]
    assert data.lab.conditions is not None
    offsets = {one.machine: one.start_offset_ns for one in data.lab.conditions.clocks}
    machine_of = {part.share: part.machine for part in data.summary.parts}
    begun = []
    for place, share in enumerate(data.summary.generators):
        machine = machine_of[share.share]
        wrong = offsets[machine] - int(machine.removeprefix("h")) * AHEAD_S * 10**9
        begun.append(int(late[data.samples["share"] == place][0]) + wrong)
    return max(begun) - min(begun)


def wheelhouse() -> Path:
    """Fetch every package of dist/requirements.txt, once."""
    folder = (KEPT / "wheelhouse").resolve()
    if not (folder / "complete").exists():
        words = ["download", "-q", "-r", str(ROOT / "dist/requirements.txt"), "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=_BOUND_S)
        (folder / "complete").touch()
    return folder


def command(made: Fabric, *words: str) -> str:
    """Run svload in the middle's network and in this machine's groups, which `ip netns exec` hides; print
    how long it took. Return its output; raise SystemExit if it fails."""
    begun = time.monotonic()
    done = subprocess.run(
        ["nsenter", f"--net=/run/netns/{made.middle}", sys.executable, "-m", "svload", *words],
        cwd=made.folder, env=os.environ | made.own | {"ANSIBLE_SSH_CONTROL_PATH_DIR": f"{made.folder}/cp"},
        text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_BOUND_S,
    )  # fmt: skip
    took_s = time.monotonic() - begun
    print(f"svload {' '.join(words[:2])}: exit {done.returncode}, {took_s:.0f} s", flush=True)
    if done.returncode not in (0, 4):
        raise SystemExit(done.stdout[-2000:] + done.stderr[-3000:])
    return done.stdout


def ten() -> bool:
    """Run a paper's study from nothing to results; return whether all limits are kept."""
    house, wheel = str(wheelhouse()), next((ROOT / "dist").glob("svload-*.whl"))
    hosts = machines(own_tmp=True)
    sites = {site: [hosts[number - 1] for number in numbers] for site, numbers in SITES.items()}
    with fabric(hosts) as made:
        where = ("-i", made.fleet(hosts, sites=sites))
        command(made, "fleet", "check", *where)
        command(made, "fleet", "install", "--wheel", str(wheel), "--wheelhouse", house, *where)
        study = str(ROOT / "studies/001-svload")
        verdicts = json.loads(command(made, "run", study, "--profile", "machines", "--json", *where))
        command(made, "fleet", "clean", *where)
        run = RunDir(made.folder / verdicts["run"])
        summaries = [read_trial(run.trial(one).path).summary for one in run.sealed_trials()]
        left = [host.name for host in hosts if (made.home(host) / ".svload-fleet").exists()]
    places = {part.place for one in summaries for part in one.places if part.kind == "machine"}
    groups = [group for one in summaries for group in one.groups]
    ok, failed = sum(one.ok for one in groups), sum(one.failed for one in groups)
    planned = int(verdicts["planned"])
    print(
        f"{len(summaries)} of {planned} trials sealed; load from {len(places)} machines; {ok:,} requests ok, "
        f"{failed} failed; left on the machines after clean: {', '.join(left) or 'nothing'}"
    )
    return not left and len(summaries) == planned and len(places) == len(hosts) and not failed


def main(given: Sequence[str] | None = None) -> int:
    """Run one of the benches; return 1 if a limit is not kept."""
    asked = arguments(__doc__, given, bench=("starts", "ten"), starts=20)
    return 0 if (starts(asked.starts) if asked.bench == "starts" else ten()) else 1


if __name__ == "__main__":
    sys.exit(main())
