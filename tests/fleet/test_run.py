"""`svload run --inventory` on machines that are namespaces; the controller is inside their network."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.bounds import HANG_S
from tests.fleet.fabric import Fabric, Host, begin, fabric, left, load, process
from tests.servers import wait_until

from svload.analysis.quantiles import bucket_middles
from svload.host import machine_lock
from svload.model.columns import bucket
from svload.store import RunDir, TrialData, read_trial

pytestmark = pytest.mark.real
HOSTS = [
    *(Host(f"h{number}", number, 1_000 * number, own_tmp=number < 3) for number in range(1, 8)),
    *(Host(f"h{number}", number, 1_000 * number, rate="4mbit") for number in range(8, 11)),
]
SITES = {"brno": HOSTS[:4], "praha": HOSTS[4:7], "ostrava": HOSTS[7:]}
"""The paper's three sites; the last one has the narrowest link."""
PROGRAMS = ("root", "ip", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter")
FAR = """\
name: far
question: What does a narrow link cost?
lab: {web: {kit: truth, role: store, service_time: 1 ms, workers: 16}}
data: {objects: {in: web, containers: 1, count: 20, size: 60 kB, content: random}}
feeders: {object: {from: objects, take: random}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: 8/s
    generators: 2
    request: {get: "http://web${object.path}", timeout: 5s}
measure: {duration: 3s, replicates: 1}
"""
SPANS = {
    0: ("due_ns", "done_ns"),
    2: ("begun_ns", "done_ns"),
    3: ("ready_ns", "begun_ns"),
    4: ("due_ns", "ready_ns"),
}
"""Code of a histogram → the stamps between which it counts."""
STUDY = """\
name: fleet
question: Do ten machines ask for the same as one?
lab: {{web: {{kit: truth, role: store, service_time: 1 ms, workers: 16}}}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: 200/s
    generators: {generators}
    record: {record}
    request: {{get: http://web/v1/a/c/o, expect_status: 404, timeout: 2s}}
measure: {{duration: {duration}, replicates: {replicates}}}
"""


@pytest.fixture(scope="module")
def machines(needs: Callable[..., None]) -> Iterator[Fabric]:
    needs(*PROGRAMS)
    with fabric(HOSTS) as made:
        yield made


def inventory(machines: Fabric, hosts: list[Host], python: str = sys.executable) -> str:
    """Write an inventory with the hosts as generators at their sites; svload is where this test's is."""
    return machines.fleet(hosts, sites=SITES, svload_python=python)


def study(
    machines: Fabric, generators: int, duration: str = "2s", replicates: int = 1, record: str = "rows"
) -> str:
    text = STUDY.format(generators=generators, duration=duration, replicates=replicates, record=record)
    return machines.study(f"study-{generators}-{replicates}-{record}", text)


def first_trial(run: RunDir) -> TrialData:
    return read_trial(run.trial(run.sealed_trials()[0]).path)


def test_ten_machines_ask_for_what_one_asks_for(machines: Fabric) -> None:
    run = load(machines, study(machines, 10), "-i", inventory(machines, HOSTS))
    placement = run.placement()
    assert placement.apart
    assert placement.sites == {host.name: site for site, stand in SITES.items() for host in stand}
    shares = {name: len(shares) for name, shares in placement.machines.items()}
    assert shares == {host.name: 1 for host in HOSTS}
    trial = first_trial(run)
    (users,) = trial.summary.groups
    assert (users.due, users.ok, users.failed) == (400, 400, 0)
    assert [part.ok for part in trial.summary.parts] == [40] * 10
    assert_merged_as_rows(trial)
    places = {(one.kind, one.place): one for one in trial.summary.places}
    assert {place for kind, place in places if kind == "site"} == set(SITES)
    assert [places["machine", host.name].ok for host in HOSTS] == [40] * 10
    assert [places["site", site].ok for site in SITES] == [160, 120, 120]
    clocks = {clock.machine: clock for clock in trial.lab.conditions.clocks}
    for host in HOSTS:
        assert abs(clocks[host.name].offset_ns - host.ahead_s * 10**9) <= clocks[host.name].bound_ns
    wait_until(lambda: not left(machines))

    alone = first_trial(load(machines, study(machines, 1), "-i", inventory(machines, HOSTS[:1])))
    assert (alone.summary.groups[0].due, alone.summary.groups[0].ok) == (400, 400)


def assert_merged_as_rows(trial: TrialData) -> None:
    """Compare each bucket of the merged histograms with the rows, all of which are ok."""
    rows, table = trial.samples, trial.histograms
    columns = [
        one.tolist() for one in (rows["group"], rows["step"], rows["due_ns"] // trial.summary.interval_ns)
    ]
    for code, (since, until) in SPANS.items():
        counted = Counter(zip(*columns, map(bucket, (rows[until] - rows[since]).tolist()), strict=True))
        names = ("group", "step", "interval", "bucket", "count")
        merged = zip(*(table[name][table["metric"] == code].tolist() for name in names), strict=True)
        assert {tuple(cell): count for *cell, count in merged} == counted


@pytest.mark.timing
def test_a_site_behind_a_narrow_link_is_seen_as_one(machines: Fabric) -> None:
    far = machines.study("far", FAR)
    trial = first_trial(load(machines, far, "-i", inventory(machines, [HOSTS[0], HOSTS[7]])))
    places = {one.place: one for one in trial.summary.places if one.kind == "site"}
    medians = {site: one.response_p50_ns or 0.0 for site, one in places.items()}
    assert medians["ostrava"] > medians["brno"] + 10e6  # 60 kB at 4 Mbit/s take 0.1 s


def test_merged_histograms_need_no_rows(machines: Fabric) -> None:
    asked = study(machines, 2, record="histogram")
    trial = first_trial(load(machines, asked, "-i", inventory(machines, HOSTS[:2])))
    table = trial.histograms
    mine = table["metric"] == 0
    assert int(table["count"][mine].sum()) == sum(part.ok for part in trial.summary.parts) == 400
    assert bucket_middles(np.asarray(table["bucket"][mine], dtype=np.int64)).min() > 1e6


VICTIMS = {
    "a generator": ("svload.drive.generator", False),
    "a worker": ("svload.host.machines.worker", False),
    "an SSH session": ("root@notty", False),
    "the scheduler": ("svload.host.machines.scheduler", True),
    "the controller": ("svload", True),
}


@pytest.mark.parametrize("victim", list(VICTIMS))
def test_whoever_is_killed_nothing_is_left_and_the_plan_is_completed(machines: Fabric, victim: str) -> None:
    hosts = HOSTS[:2]
    chosen = random.Random(victim)
    where = inventory(machines, hosts)
    module, is_here = VICTIMS[victim]
    before = set((machines.folder / "runs").iterdir()) if (machines.folder / "runs").exists() else set()
    running = begin(machines, "run", study(machines, 2, "3s", replicates=2), "-i", where)
    try:
        runs = machines.folder / "runs"
        wait_until(lambda: runs.exists() and bool(fresh(runs, before)))
        (path,) = fresh(runs, before)
        wait_until(lambda: bool(list((path / "trials").glob("*/events.jsonl"))))
        time.sleep(chosen.uniform(0.5, 3.0))  # any moment of a trial
        os.kill(process(machines, None if is_here else chosen.choice(hosts), module), signal.SIGKILL)
        text = running.communicate(timeout=HANG_S)[1]
    finally:
        running.kill()
        running.wait()
    assert "Traceback" not in text, text
    wait_until(lambda: not left(machines))
    wait_until(lambda: not files(machines, hosts))
    if victim == "a generator":  # its machine is available: the trial is repeated at once
        assert len(list((path / "attempts").iterdir())) == 1
    else:
        assert running.returncode == (-signal.SIGKILL if victim == "the controller" else 3), text
    resumed = machines.svload("resume", str(path), "-i", where, "--json")
    found = json.loads(resumed.stdout)
    assert found["complete"] and found["sealed"] == 2, resumed.stderr
    for trial in RunDir(path).sealed_trials():
        (users,) = read_trial(RunDir(path).trial(trial).path).summary.groups
        assert (users.due, users.ok) == (600, 600)


def files(machines: Fabric, hosts: list[Host]) -> list[Path]:
    """Return temporary files on this machine and these, and their labs' folders."""
    folders = [folder for host in hosts for folder in (machines.temporary(host), machines.labs(host))]
    found = [path for folder in (machines.folder / "tmp", *folders) for path in folder.glob("*")]
    return [path for path in found if path.name != machines.folder.name]


def fresh(runs: Path, before: set[Path]) -> list[Path]:
    return [path for path in set(runs.iterdir()) - before if path.is_dir() and not path.is_symlink()]


def test_each_thing_that_can_be_wrong_is_one_line_that_says_what_to_do(machines: Fabric) -> None:
    def runs(where: str) -> str:
        done = machines.svload("run", study(machines, 1), "-i", where)
        assert done.returncode == 3
        return done.stderr

    elsewhere = inventory(machines, [HOSTS[0]], python="/no/such/python")
    assert "has no svload at /no/such/python" in runs(elsewhere)
    assert "h99 can't be reached by SSH" in runs(machines.fleet([Host("h99", 99, 0)]))
    with machine_lock("another one", 0.0, path=machines.folder / HOSTS[0].name / "lock"):
        said = runs(inventory(machines, [HOSTS[0]]))
    assert "Another svload load is running on h1 (another one, pid" in said
