"""Whether N machines ask and measure as one does: `python -m benches.equal [--rounds 2] [--seed 1]`.

The same total load, open loop, is made by 1, 2, 5 and 10 machines (namespaces) in random order. The server, whose service time is known, stands in a
namespace of its own on one core, the generators on the other. Held against one machine: requests that were due, exactly; throughput and median
response within 2 %. And in each trial the merged histograms of response, service, lag and slot wait against those made anew of all
its rows, exactly. The table is written beside this file. Root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from tests.fleet.fabric import Fabric, Host, fabric, is_open
from tests.servers import wait_until

from benches.measure import SERVER_CORE
from svload.model.columns import bucket
from svload.store import RunDir, TrialData, read_trial

MACHINES = (1, 2, 5, 10)
RATE, SECONDS, TRIALS = 400, 4, 3
SERVICE_MS = 20
SERVER, PORT = Host("server", 20, 20_000), 8080
LIMIT = 0.02
TIMES = {
    0: ("due_ns", "done_ns"),
    2: ("begun_ns", "done_ns"),
    3: ("ready_ns", "begun_ns"),
    4: ("due_ns", "ready_ns"),
}
"""Code of a histogram → the stamps between which it counts (all requests are ok here)."""
TABLE = Path(__file__).with_suffix(".md")
STUDY = f"""\
name: equal-{{machines}}
question: Do so many machines ask and measure as one does?
lab: {{{{web: {{{{at: "http://{SERVER.address}:{PORT}"}}}}}}}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: {RATE}/s
    generators: {{machines}}
    record: rows
    request: {{{{get: http://web/v1/a/c/o, expect_status: 404, timeout: 2s}}}}
measure: {{{{duration: {SECONDS}s, replicates: {TRIALS}}}}}
"""


@dataclass(frozen=True)
class Trial:
    """What one trial of so many machines gave; `same`: its histograms are those of its rows."""

    machines: int
    due: int
    ok: int
    rate_rps: float
    median_ns: float
    same: bool


@contextmanager
def served(made: Fabric) -> Iterator[None]:
    """The server, until the block ends."""
    config = made.folder / "truth.json"
    config.write_text(
        json.dumps(
            {
                "role": "store",
                "address": SERVER.address,
                "http_port": PORT,
                "admin_port": PORT + 1,
                "allow_any_address": True,
                "service_time": {"constant_ns": SERVICE_MS * 10**6},
                "workers": 64,
            }
        )
    )
    words = ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "svload.truth", "--config", str(config)]
    with subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{made.namespace(SERVER)}", *words], stdout=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: is_open(made, SERVER, PORT), 20)
            yield
        finally:
            process.kill()


def trials(made: Fabric, hosts: Sequence[Host], number: int) -> list[Trial]:
    """One run by these machines."""
    path = made.folder / f"equal-{len(hosts)}-{number}" / "study.yaml"
    path.parent.mkdir()
    path.write_text(STUDY.format(machines=len(hosts)))
    lines = "".join(f"    {host.name}: {{ansible_host: {host.address}}}\n" for host in hosts)
    where = made.inventory(f"generators:\n  vars: {{svload_python: {sys.executable}}}\n  hosts:\n{lines}")
    done = made.svload("run", str(path), "-i", where, "--authorise", SERVER.address, "--json")
    if done.returncode not in (0, 4):
        raise SystemExit(f"{len(hosts)} machines: exit {done.returncode}\n{done.stderr[-2000:]}")
    run = RunDir(made.folder / json.loads(done.stdout)["run"])
    return [measured(len(hosts), read_trial(run.trial(name).path)) for name in run.sealed_trials()]


def measured(machines: int, data: TrialData) -> Trial:
    """Of its rows alone."""
    (users,) = data.summary.groups
    rows = data.samples
    took = rows["done_ns"] - rows["due_ns"]
    lasted_s = (int(rows["done_ns"].max()) - int(rows["due_ns"].min())) / 1e9
    return Trial(machines, users.due, users.ok, len(took) / lasted_s, float(np.median(took)), is_same(data))


def is_same(data: TrialData) -> bool:
    """Whether the merged histograms are those of all rows, bucket for bucket."""
    rows, table = data.samples, data.histograms
    for code, (since, until) in TIMES.items():
        columns = (
            rows["group"],
            rows["step"],
            rows["due_ns"] // data.summary.interval_ns,
            np.array([bucket(one) for one in (rows[until] - rows[since]).tolist()]),
        )
        own = Counter(zip(*(column.tolist() for column in columns), strict=True))
        mine = table["metric"] == code
        keys = zip(
            *(table[name][mine].tolist() for name in ("group", "step", "interval", "bucket")), strict=True
        )
        if own != Counter(dict(zip(keys, table["count"][mine].tolist(), strict=True))):
            return False
    return True


def table(made: Sequence[Trial], seed: int) -> tuple[str, bool]:
    """The page, and whether all is kept."""
    lines = [
        "# N machines beside one\n",
        f"`python -m benches.equal`, seed {seed}: {RATE} requests/s for {SECONDS} s, open loop, of 1 to {MACHINES[-1]} machines (namespaces of one guest of "
        f"{os.cpu_count()} cores), a server with a service time of {SERVICE_MS} ms in a namespace and on a core of its own. Medians over trials;",
        f"limits: counts exactly, throughput and median within {LIMIT:.0%} of one machine's, merged histograms those of all rows.\n",
        "| machines | trials | due | ok | requests/s | beside one | median ms | beside one | histograms of all rows |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    alone = [one for one in made if one.machines == 1]
    rate, middle = median(one.rate_rps for one in alone), median(one.median_ns for one in alone)
    kept = True
    for machines in MACHINES:
        own = [one for one in made if one.machines == machines]
        counts = {(one.due, one.ok) for one in own}
        off = [
            median(one.rate_rps for one in own) / rate - 1,
            median(one.median_ns for one in own) / middle - 1,
        ]
        same = all(one.same for one in own)
        kept &= counts == {(RATE * SECONDS, RATE * SECONDS)} and same and max(map(abs, off)) <= LIMIT
        due, ok = (" ".join(sorted({f"{count[at]:,}" for count in counts})) for at in (0, 1))
        lines.append(
            f"| {machines} | {len(own)} | {due} | {ok} | {rate * (1 + off[0]):.2f} | {off[0]:+.2%} | {middle * (1 + off[1]) / 1e6:.3f} | {off[1]:+.2%} "
            f"| {'equal, exactly' if same else '**differ**'} |"
        )
    lines.append(f"\n{'All kept.' if kept else '**Not all kept.**'}\n")
    return "\n".join(lines), kept


def main() -> int:
    """Print and write the table; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    draw = random.Random(told.seed)
    hosts = [Host(f"h{number}", number, 1_000 * number) for number in range(1, MACHINES[-1] + 1)]
    made: list[Trial] = []
    with fabric([*hosts, SERVER]) as machines, served(machines):
        for number in range(told.rounds):
            for count in draw.sample(MACHINES, len(MACHINES)):
                made += trials(machines, hosts[:count], number)
                print(made[-TRIALS:], flush=True)
    text, kept = table(made, told.seed)
    print(text)
    TABLE.write_text(text, encoding="utf-8")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
