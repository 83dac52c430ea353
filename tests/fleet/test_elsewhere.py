"""Servers on other machines (`on:`): nginx on one, Varnish before it on another, the load on a third."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.fleet.fabric import Fabric, Host, begin, fabric, left, load, newest, process, processes
from tests.servers import wait_until

from svload.lab.setup import find_mistakes
from svload.model.study import ServiceSpec
from svload.store import read_trial

pytestmark = pytest.mark.real
GEN, BRNO, PRAHA = HOSTS = [Host("gen", 1, 1_000), Host("brno", 2, 2_000), Host("praha", 3, 3_000)]
FAULTS = """\
name: struck
question: Does a server on another machine come back?
lab: {web: {kit: nginx, on: brno}}
traffic:
  users: {executor: constant-arrival-rate, rate: 100/s, request: {get: "http://web/1k", timeout: 1s}}
faults:
  - {at: 1 s, kill: web, for: 1 s}
  - {at: 2.5 s, limit: {web: {cpus: 0.5}}, for: 1 s}
measure: {duration: 5s, replicates: 1}
"""
ROOT = Path(__file__).resolve().parents[2]
STUDY = """\
name: elsewhere
question: What does it cost to ask a cache at another site?
lab:
  files: {kit: nginx, files: {/1k: 1 KiB}, on: "servers[0]"}
  cache: {kit: varnish, of: files, on: "${site.at}", tls: %s}
factors:
  site: {brno: {at: brno}, praha: {at: praha}}
before_trial: [{reset: cache}]
traffic:
  users: {executor: constant-arrival-rate, rate: 100/s, request: {get: %s://cache/1k, timeout: 5s}}
measure: {duration: %s, replicates: 1}
"""


@pytest.fixture(scope="module")
def machines(needs: Callable[..., None]) -> Iterator[Fabric]:
    needs("root", "ip", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "nginx", "varnishd", "hitch")
    with fabric(HOSTS) as made:
        yield made


def inventory(machines: Fabric, serving: Sequence[Host] = (BRNO, PRAHA)) -> str:
    """Write an inventory with one machine that generates load, and those that run servers."""
    return machines.fleet([GEN], serving, svload_python=sys.executable)


def study(machines: Fabric, duration: str = "2s", tls: str = "") -> str:
    text = STUDY % (tls or "null", "https" if tls else "http", duration)
    return machines.study(f"elsewhere-{duration}{tls}", text)


@pytest.mark.parametrize("tls", ["", "hitch"])
def test_the_place_of_a_cache_is_a_factor(machines: Fabric, tls: str) -> None:
    began_ns = time.monotonic_ns()
    run = load(machines, study(machines, tls=tls), "-i", inventory(machines))
    assert len(run.sealed_trials()) == 2
    places = {}
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name).path)
        facts = {one.service: one for one in trial.lab.services}
        assert (facts["files"].machine, facts["files"].endpoints[0].address) == ("brno", BRNO.address)
        places[facts["cache"].machine] = {end.address for end in facts["cache"].endpoints}
        (users,) = trial.summary.groups
        assert (users.due, users.ok) == (200, 200)
        before, after = trial.lab.before["cache"], trial.lab.after["cache"]
        assert after.values["requests"] - before.values["requests"] == 200
        assert began_ns < after.at_ns < time.monotonic_ns(), "by the commander's clock"
        read = set(zip(trial.monitors["service"], trial.monitors["monitor"], strict=True))
        assert {("cache", "varnish"), ("files", "nginx"), ("cache", "process"), ("files", "process")} <= read
    assert places == {"brno": {BRNO.address}, "praha": {PRAHA.address}}
    wait_until(lambda: not left(machines) and not served(machines))


def test_the_place_study_runs_where_a_machine_makes_load_and_serves(machines: Fabric) -> None:
    place = ROOT / "studies/001-svload/place.yaml"
    run = load(machines, str(place), "--profile", "demo", "-i", inventory(machines, [BRNO, PRAHA, GEN]))
    found = [read_trial(run.trial(name).path).lab.services for name in run.sealed_trials()]
    places = Counter(one.machine for services in found for one in services if one.service == "cache")
    assert places == {"brno": 2, "gen": 2, "praha": 2}


def test_planned_faults_strike_servers_elsewhere(machines: Fabric) -> None:
    run = load(machines, machines.study("struck", FAULTS), "-i", inventory(machines))
    (name,) = run.sealed_trials()
    trial = read_trial(run.trial(name).path)
    done = [(one.do, one.target) for one in trial.lab.faults]
    assert done == [("kill", "web"), ("start", "web"), ("limit", "web"), ("restore", "web")]
    assert trial.lab.faults[2].found == {"cpus": 0.5}
    (users,) = trial.summary.groups
    assert users.failed > 0, "it was away for a second"
    assert users.ok > 0
    facts = next(one for one in trial.lab.services if one.service == "web")
    assert facts.machine == "brno"


def served(machines: Fabric) -> list[str]:
    """Return the servers that still run on any machine."""
    found = []
    for host in HOSTS:
        for pid in processes(machines.namespace(host)):
            with suppress(OSError):
                found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return [name for name in found if name in ("nginx", "varnishd", "cache-main", "hitch")]


@pytest.mark.parametrize("victim", ["the controller", "the machine of the cache"])
def test_servers_elsewhere_end_with_whoever_holds_them(machines: Fabric, victim: str) -> None:
    where = inventory(machines)
    before = set((machines.folder / "runs").glob("*/trials/*/events.jsonl"))
    running = begin(machines, "run", study(machines, "8s"), "-i", where)
    try:
        wait_until(lambda: bool(set((machines.folder / "runs").glob("*/trials/*/events.jsonl")) - before))
        time.sleep(1)
        here = victim == "the controller"
        module = "svload" if here else "svload.host.machines.worker"
        os.kill(process(machines, None if here else BRNO, module), signal.SIGKILL)
        text = running.communicate(timeout=HANG_S)[1]
    finally:
        running.kill()
        running.wait()
    assert "Traceback" not in text, text
    assert running.returncode == (-signal.SIGKILL if here else 3), text
    wait_until(lambda: not left(machines) and not served(machines))
    assert not newest(machines).sealed_trials()


def test_a_machine_that_is_not_there_is_reported(machines: Fabric) -> None:
    done = machines.svload("run", study(machines))
    assert done.returncode == 2
    assert "files can't run on servers[0]: no inventory is given" in done.stderr
    lost = machines.study("lost", (STUDY % ("null", "http", "1s")).replace("servers[0]", "servers[7]"))
    done = machines.svload("run", lost, "-i", inventory(machines))
    assert done.returncode == 2
    assert "servers[7]" in done.stderr
    assert "servers[0] or brno" in done.stderr


def test_what_a_server_elsewhere_cannot_have_is_a_mistake() -> None:
    vm = ServiceSpec(name="vm", kit="machine", options={"memory": "1 GiB"})
    asked = {"web": {"within": "vm"}, "far": {"link": {"rate": "1 Mbit/s"}}, "near": {}}
    there = [ServiceSpec(name=name, kit="nginx", options={"on": "db1", **own}) for name, own in asked.items()]
    found = sorted(mistake.path for mistake in find_mistakes([vm, *there]))
    assert found == [("lab", "far", "link"), ("lab", "web", "within")]
