"""Many machines, as namespaces of this one, each with a separate sshd and clock (root):

    python -m benches.fleet starts    # how far apart ten machines start a load: a median of at most 1 ms
    python -m benches.fleet equal     # whether 1, 2, 5 and 10 machines send and measure the same; six minutes
    python -m benches.fleet ten       # from a wheel (make wheel) to results on ten machines; 8 minutes, 8 GB

*starts*: for each start, the last machine's first request minus that of the first, in true time, which the
known offsets of the clocks give: a machine's lateness by its own clock plus the error of its offset. No
machine spins before.

*equal*: the same total load, open loop, in random order of --rounds; the server has one core, the
generators the other. Compared with one machine: requests due, exactly; throughput and median response
within 2 %; and in each trial the merged histograms of response, service, lag and slot wait must equal
those of all its rows.

*ten*: machines at three sites have only the parts of svload that `fleet install` brings from a wheelhouse,
because they reach no index. Every trial of the first paper's study must be sealed, every machine must make
load, no request may fail, and nothing may be left. Exit 1 if one of these does not hold. Tables of the last
two are written beside this file.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from tests.fleet.fabric import Fabric, Host, fabric, is_open
from tests.servers import wait_until

from benches.harness import KEPT, arguments, markdown, page, publish
from benches.measure import SERVER_CORE
from svload.model.columns import bucket
from svload.store import RunDir, TrialData, read_trial

ROOT = Path(__file__).resolve().parents[1]
MACHINES = 10
LIMIT_MS = 1.0
AHEAD_S = 1_000
"""A machine's clock is ahead by its number times this."""
SPREAD = (1, 2, 5, 10)
RATE, SECONDS, TRIALS, SERVICE_MS = 400, 4, 3, 20
SERVER, PORT = Host("server", 20, 20_000), 8080
LIMIT = 0.02
TIMES = {
    0: ("due_ns", "done_ns"),
    2: ("begun_ns", "done_ns"),
    3: ("ready_ns", "begun_ns"),
    4: ("due_ns", "ready_ns"),
}
"""Code of a histogram → the stamps between which it counts (all requests are ok here)."""
SITES = {"brno": range(1, 5), "praha": range(5, 8), "ostrava": range(8, 11)}
PAPER = "studies/001-svload"
STUDY = """\
name: {name}
question: Do machines ask and measure together as one does?
lab: {{web: {{{web}}}}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: {rate}/s
    generators: {machines}
    record: rows
    request: {{get: http://web/v1/a/c/o, expect_status: 404, timeout: 2s}}
measure: {{duration: {seconds}s, replicates: {trials}}}
"""
_BOUND_S = 3600


def machines(own_tmp: bool = False) -> list[Host]:
    """Return ten machines with different clocks."""
    return [Host(f"h{n}", n, n * AHEAD_S, own_tmp=own_tmp) for n in range(1, MACHINES + 1)]


def inventory(made: Fabric, hosts: Sequence[Host]) -> str:
    """Write an inventory in which these machines make load with this interpreter."""
    lines = "".join(f"    {host.name}: {{ansible_host: {host.address}}}\n" for host in hosts)
    return made.inventory(f"generators:\n  vars: {{svload_python: {sys.executable}}}\n  hosts:\n{lines}")


def made_run(made: Fabric, hosts: Sequence[Host], name: str, *words: str, **study: object) -> RunDir:
    """Make one run with these machines. Raise SystemExit if it fails."""
    path = made.folder / name / "study.yaml"
    path.parent.mkdir()
    path.write_text(STUDY.format(name=name, machines=len(hosts), **study))
    done = made.svload("run", str(path), "-i", inventory(made, hosts), *words, "--json")
    if not done.stdout.startswith("{") or done.returncode not in (0, 4):
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return RunDir(made.folder / json.loads(done.stdout)["run"])


def starts(asked_starts: int) -> bool:
    """Print how far apart the machines start; return whether the limit is kept."""
    hosts = machines()
    study = {"web": "kit: truth, role: store, workers: 16", "rate": 4 * len(hosts), "seconds": 0.5}
    with fabric(hosts) as made:
        run = made_run(made, hosts, "starts", **study, trials=asked_starts)
        found_ms = np.array([skew_ns(run, trial) for trial in run.sealed_trials()]) / 1e6
    middle = float(np.median(found_ms))
    print(
        f"{len(found_ms)} starts of {len(hosts)} machines on this one: median {middle:.3f} ms apart, ", end=""
    )
    print(f"largest {found_ms.max():.3f} ms (limit {LIMIT_MS:g} ms)")
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


@dataclass(frozen=True)
class Trial:
    """One trial by a number of machines; `same`: its histograms are those of its rows."""

    machines: int
    due: int
    ok: int
    rate_rps: float
    median_ns: float
    same: bool

    @classmethod
    def of(cls, machines: int, data: TrialData) -> Trial:
        """Compute it from the rows alone."""
        (users,) = data.summary.groups
        rows = data.samples
        took = rows["done_ns"] - rows["due_ns"]
        lasted_s = (int(rows["done_ns"].max()) - int(rows["due_ns"].min())) / 1e9
        return cls(machines, users.due, users.ok, len(took) / lasted_s, float(np.median(took)), is_same(data))


def is_same(data: TrialData) -> bool:
    """Return whether the merged histograms equal those of all rows, bucket for bucket."""
    rows, table = data.samples, data.histograms
    interval = rows["due_ns"] // data.summary.interval_ns
    for code, (since, until) in TIMES.items():
        buckets = [bucket(one) for one in (rows[until] - rows[since]).tolist()]
        own = np.column_stack([rows["group"], rows["step"], interval, buckets])
        places, counts = np.unique(own, axis=0, return_counts=True)
        mine = table["metric"] == code
        names = ("group", "step", "interval", "bucket", "count")
        merged = np.unique(np.column_stack([table[name][mine] for name in names]), axis=0)
        if not np.array_equal(np.column_stack([places, counts]), merged):
            return False
    return True


@contextmanager
def served(made: Fabric) -> Iterator[None]:
    """Run the server of known service time until the block ends."""
    config = made.folder / "truth.json"
    found = {"role": "store", "address": SERVER.address, "http_port": PORT, "admin_port": PORT + 1}
    found |= {"allow_any_address": True, "service_time": {"constant_ns": SERVICE_MS * 10**6}, "workers": 64}
    config.write_text(json.dumps(found))
    words = ["nsenter", f"--net=/run/netns/{made.namespace(SERVER)}", "taskset", "-c", str(SERVER_CORE)]
    words += [sys.executable, "-m", "svload.truth", "--config", str(config)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: is_open(made, SERVER, PORT), 20)
            yield
        finally:
            process.kill()


def equal(rounds: int, seed: int) -> bool:
    """Write the table by number of machines; return whether all limits are kept."""
    draw, hosts = random.Random(seed), machines()
    found: list[Trial] = []
    web = f'at: "http://{SERVER.address}:{PORT}"'
    study = {"web": web, "rate": RATE, "seconds": SECONDS, "trials": TRIALS}
    with fabric([*hosts, SERVER]) as made, served(made):
        for number in range(rounds):
            for count in draw.sample(SPREAD, len(SPREAD)):
                name = f"equal-{count}-{number}"
                run = made_run(made, hosts[:count], name, "--authorise", SERVER.address, **study)
                found += [Trial.of(count, read_trial(run.trial(one).path)) for one in run.sealed_trials()]
                print(found[-TRIALS:], flush=True)
    text, kept = equal_table(found, seed)
    publish(page(__file__).with_name("equal.md"), text)
    return kept


def equal_table(made: Sequence[Trial], seed: int) -> tuple[str, bool]:
    """Return the page, and whether all limits are kept."""
    alone = [one for one in made if one.machines == 1]
    rate, middle = median(one.rate_rps for one in alone), median(one.median_ns for one in alone)
    kept, lines = True, []
    for machines in SPREAD:
        own = [one for one in made if one.machines == machines]
        rates, medians = median(one.rate_rps for one in own), median(one.median_ns for one in own)
        off = rates / rate - 1, medians / middle - 1
        same = all(one.same for one in own)
        kept &= {(one.due, one.ok) for one in own} == {(RATE * SECONDS, RATE * SECONDS)}
        kept &= same and max(map(abs, off)) <= LIMIT
        counts = [" ".join(sorted({f"{getattr(one, what):,}" for one in own})) for what in ("due", "ok")]
        shown = [f"{rates:.2f}", f"{off[0]:+.2%}", f"{medians / 1e6:.3f}", f"{off[1]:+.2%}"]
        lines.append([machines, len(own), *counts, *shown, "equal, exactly" if same else "**differ**"])
    columns = "machines|trials|due|ok|requests/s|beside one|median ms|beside one|histograms of all rows"
    head = f"""\
# N machines compared with one

`python -m benches.fleet equal`, seed {seed}: {RATE} requests/s for {SECONDS} s, open loop, \
from 1 to {SPREAD[-1]} machines (namespaces of one guest with {os.cpu_count()} cores).
The server has a service time of {SERVICE_MS} ms, its own namespace and its own core. \
Values are medians over trials.
Limits: counts equal; throughput and median within {LIMIT:.0%} of one machine's; merged histograms \
equal to those of all rows.

"""
    return head + markdown(columns, lines) + f"\n{'All kept.' if kept else '**Not all kept.**'}\n", kept


def wheelhouse() -> Path:
    """Fetch every package of dist/requirements.txt, once."""
    folder = (KEPT / "wheelhouse").resolve()
    if not (folder / "complete").exists():
        words = ["download", "-q", "-r", str(ROOT / "dist/requirements.txt"), "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=_BOUND_S)
        (folder / "complete").touch()
    return folder


def sites(made: Fabric) -> str:
    """Write an inventory in which all machines make load, at their sites, with what is installed there."""
    lines = "".join(f"    {host.name}: {{ansible_host: {host.address}}}\n" for host in made.hosts)
    own = {site: ", ".join(f"h{number}: " for number in numbers) for site, numbers in SITES.items()}
    places = "".join(f"    {site}: {{hosts: {{{names}}}}}\n" for site, names in own.items())
    return made.inventory(f"generators:\n  hosts:\n{lines}sites:\n  children:\n{places}")


def in_middle(made: Fabric, *words: str, **more: str) -> subprocess.Popen[str]:
    """Start svload in the middle's network and this machine's groups (`ip netns exec` hides these)."""
    return subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{made.middle}", sys.executable, "-m", "svload", *words],
        cwd=made.folder, env={**os.environ, **made.own, **more}, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def command(made: Fabric, *words: str) -> tuple[str, float]:
    """Run a svload command in the middle; return its output and the seconds that it took."""
    begun = time.monotonic()
    with in_middle(made, *words, ANSIBLE_SSH_CONTROL_PATH_DIR=str(made.folder / "cp")) as running:
        try:
            out, errors = running.communicate(timeout=_BOUND_S)
        except BaseException:
            running.kill()
            raise
    took_s = time.monotonic() - begun
    print(f"svload {' '.join(words[:2])}: exit {running.returncode}, {took_s:.0f} s", flush=True)
    if running.returncode not in (0, 4):
        raise SystemExit(out[-2000:] + errors[-3000:])
    return out, took_s


def ten() -> bool:
    """Write the table of a paper's study from nothing to results; return whether all limits are kept."""
    house, wheel = str(wheelhouse()), next((ROOT / "dist").glob("svload-*.whl"))
    hosts = machines(own_tmp=True)
    with fabric(hosts) as made:
        where, paper = sites(made), ("run", str(ROOT / PAPER), "--profile", "machines", "--json")
        steps = {
            "svload fleet check": ("fleet", "check"),
            "svload fleet install": ("fleet", "install", "--wheel", str(wheel), "--wheelhouse", house),
            f"svload run {PAPER} --profile machines": paper,
            "svload fleet status": ("fleet", "status"),
            "svload fleet clean": ("fleet", "clean"),
        }
        done = {name: command(made, *words, "-i", where) for name, words in steps.items()}
        verdicts = json.loads(next(out for name, (out, _) in done.items() if PAPER in name))
        run = RunDir(made.folder / verdicts["run"])
        summaries = [read_trial(run.trial(one).path).summary for one in run.sealed_trials()]
        left = [host.name for host in hosts if (made.home(host) / ".svload-fleet").exists()]
    places = {part.place for one in summaries for part in one.places if part.kind == "machine"}
    groups = [group for one in summaries for group in one.groups]
    ok, failed = sum(one.ok for one in groups), sum(one.failed for one in groups)
    planned = int(verdicts["planned"])
    kept = not left and len(summaries) == planned and len(places) == len(hosts) and not failed
    head = f"""\
# The first paper's study on ten machines

`python -m benches.fleet ten`: {len(hosts)} machines (namespaces of one guest) at three sites,
each with only what `svload fleet install` installed from a wheelhouse.

"""
    tail = (
        f"\n{len(summaries)} of {planned} trials sealed; load from {len(places)} machines; {ok:,} "
        f"requests ok, {failed} failed; left on the machines after clean: {', '.join(left) or 'nothing'}. "
        f"{'All kept.' if kept else '**Not all kept.**'}\n"
    )
    steps_s = markdown("step|seconds", [[f"`{name}`", f"{took:.0f}"] for name, (_, took) in done.items()])
    publish(page(__file__).with_name("ten.md"), head + steps_s + tail)
    return kept


def main(given: Sequence[str] | None = None) -> int:
    """Run one of the benches; return 1 if a limit is not kept."""
    asked = arguments(__doc__, given, bench=("starts", "equal", "ten"), starts=20, rounds=2, seed=1)
    if asked.bench == "ten":
        return 0 if ten() else 1
    kept = starts(asked.starts) if asked.bench == "starts" else equal(asked.rounds, asked.seed)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
