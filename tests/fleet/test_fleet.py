"""`svload fleet` on machines that are namespaces with their own sshd, home and clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.fabric import Fabric, Host, fabric, is_open
from tests.fleet.wheel import stand_in
from tests.servers import wait_until

from svload.fleet.inventory import DEFAULT_PORT

pytestmark = pytest.mark.real
FIRST, SECOND = Host("h1", 1, 1_000), Host("h2", 2, 50_000)
BARE, SMALL = Host("h3", 3, 0, bare=True), Host("h4", 4, 0, small=True)
STUDY = str(Path(__file__).resolve().parents[2] / "studies" / "001-svload")
PROGRAMS = ("root", "ip", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter")


def two(machines: Fabric) -> str:
    """Write an inventory with a machine that generates load and one that runs servers."""
    return machines.fleet([FIRST], [SECOND], {"brno": [FIRST], "praha": [SECOND]})


@pytest.fixture(scope="module")
def machines(needs: Callable[..., None]) -> Iterator[Fabric]:
    needs(*PROGRAMS)
    with fabric([FIRST, SECOND, BARE, SMALL]) as made:
        yield made


def told(done: Any) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(done.stdout)["machines"]}


def test_check_says_what_each_bears_and_leaves_nothing(machines: Fabric) -> None:
    inventory = two(machines)
    done = machines.svload("fleet", "check", "--inventory", inventory, "--json")
    assert done.returncode == 0, done.stderr
    found = told(done)
    assert (found["h1"]["site"], found["h2"]["site"]) == ("brno", "praha")
    assert (found["h1"]["generates"], found["h2"]["serves"]) == (True, True)
    for host in (FIRST, SECOND):
        machine = found[host.name]
        assert abs(machine["clock"]["offset_ns"] - host.ahead_s * 10**9) <= machine["clock"]["bound_ns"]
        assert machine["clock"]["bound_ns"] <= 1_000_000
        assert abs(machine["wall"]["offset_ns"]) <= machine["wall"]["bound_ns"]
        assert machine["capacity"]["connections"] > 0
        assert machine["capacity"]["to_bytes_per_s"] > 0 and machine["capacity"]["back_bytes_per_s"] > 0
        assert machine["changed"] == 0
        wait_until(lambda host=host: not is_open(machines, host, DEFAULT_PORT))
        assert not (machines.home(host) / ".svload-fleet").exists()


def test_install_twice_status_clean(machines: Fabric) -> None:
    inventory = two(machines)
    wheel = str(stand_in(machines.folder / "dist"))
    before = machines.on(FIRST, "cat", "/proc/sys/net/core/somaxconn")
    assert before != "65535"

    first = machines.svload("fleet", "install", "-i", inventory, "--wheel", wheel, "--study", STUDY, "--json")
    assert first.returncode == 0, first.stderr
    assert all(one["changed"] > 0 for one in told(first).values())
    assert machines.on(FIRST, "cat", "/proc/sys/net/core/somaxconn") == "65535"

    copied = [(machines.home(host) / ".svload-fleet/study/study.yaml").exists() for host in (FIRST, SECOND)]
    assert copied == [False, True], "only what serves has the study"

    again = machines.svload("fleet", "install", "-i", inventory, "--wheel", wheel, "--study", STUDY)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("nothing to change") == 2

    state = machines.svload("fleet", "status", "-i", inventory)
    assert state.returncode == 0, state.stderr
    assert state.stdout.count("svload 0.0.1, set: net.core.somaxconn = 65535") == 2

    cleaned = told(machines.svload("fleet", "clean", "-i", inventory, "--json"))
    assert [one["changed"] for one in cleaned.values()] == [1, 1]
    for host in (FIRST, SECOND):
        assert machines.on(host, "cat", "/proc/sys/net/core/somaxconn") == before
        assert not (machines.home(host) / ".svload-fleet").exists()
    cleaned = told(machines.svload("fleet", "clean", "-i", inventory, "--json"))
    assert [one["changed"] for one in cleaned.values()] == [0, 0]


def test_what_is_wrong_with_each_machine_is_a_line(machines: Fabric) -> None:
    inventory = machines.inventory(f"""\
generators:
  hosts:
    h1: {{ansible_host: {FIRST.address}}}
    shut: {{ansible_host: {FIRST.address}, ansible_port: 9}}
    bare: {{ansible_host: {BARE.address}}}
    walled: {{ansible_host: {SECOND.address}, svload_address: 127.0.0.1}}
    full: {{ansible_host: {SMALL.address}}}
""")
    done = machines.svload("fleet", "check", "-i", inventory)
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if line.startswith("svload: ")]
    assert len(lines) == 4, done.stderr
    for machine, code, words in (
        ("shut", "fleet-unreachable", "Connection refused"),
        ("bare", "fleet-no-python", "Install Python 3.11"),
        ("walled", "fleet-port-closed", "Open it in the firewall"),
        ("full", "fleet-disk-full", "Free 2 GB"),
    ):
        (line,) = [line for line in lines if f"[{code}]" in line]
        assert machine in line and words in line
    assert "h1 (generates): " in done.stdout and "connections" in done.stdout


def test_packages_that_no_index_gives_are_asked_for(machines: Fabric) -> None:
    inventory = machines.fleet([FIRST])
    wheel = str(stand_in(machines.folder / "other", needs="friend"))
    install = ("fleet", "install", "-i", inventory, "--wheel", wheel)
    try:
        done = machines.svload(*install)
        assert done.returncode == 3
        assert "[fleet-no-index]" in done.stderr and "--wheelhouse" in done.stderr
        house = stand_in(machines.folder / "wheelhouse", name="friend").parent
        done = machines.svload(*install, "--wheelhouse", str(house))
        assert done.returncode == 0, done.stderr
        assert "nothing to change" in machines.svload(*install, "--wheelhouse", str(house)).stdout
    finally:
        machines.svload("fleet", "clean", "-i", inventory)


@pytest.mark.parametrize("text", ["generators: [h1\n", None])
def test_a_wrong_inventory_is_reported(machines: Fabric, text: str | None) -> None:
    done = machines.svload("fleet", "check", "-i", machines.inventory(text) if text else "nowhere.yaml")
    assert (done.returncode, "[fleet-inventory]" in done.stderr) == (2, True), done.stderr


def test_a_missing_wheel_is_reported(machines: Fabric) -> None:
    done = machines.svload("fleet", "install", "-i", two(machines), "--wheel", "nowhere")
    assert (done.returncode, "[fleet-no-wheel]" in done.stderr) == (2, True)
