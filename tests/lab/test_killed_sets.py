"""Kill -9 in the middle of applying a parameter set: what the next command finds it finishes, and every
parameter is back, by read-back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.lab.set_holder import SETS, read_set
from tests.servers import wait_until

from svload.host import finish_leftovers, start_agent
from svload.host.agent.client import try_lock
from svload.host.machine import linux
from svload.lab import Lab
from svload.lab.kits.varnish import _number

pytestmark = pytest.mark.real
HOLDER = Path(__file__).with_name("set_holder.py")
MOST_LINES = 70
"""Lines that two to three sets leave in the journal: processes, files, settings."""


def kernel(sysctl: dict[str, str]) -> dict[str, str]:
    """These settings as this thread's network has them."""
    return {name: Path("/proc/sys", *name.split(".")).read_text().strip() for name in sysctl}


def processes_of(folder: Path) -> list[int]:
    """Those that name the lab's folder on their command line, as Varnish does."""
    return [one.pid for one in linux.processes() if str(folder) in linux.read(f"/proc/{one.pid}/cmdline")]


def lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n")


@contextmanager
def in_a_network_of_nobody() -> Iterator[None]:
    """A fresh network namespace for this thread: what a kernel begins with."""
    child = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        here = linux.namespace("net")
        wait_until(lambda: os.readlink(f"/proc/{child.pid}/ns/net") != here)
        with linux.in_network(f"/proc/{child.pid}/ns/net"):
            yield
    finally:
        child.kill()
        child.wait(HANG_S)


@pytest.mark.parametrize("moment", range(10))
def test_killed_within_a_set_all_is_restored(tmp_path: Path, needs: Callable[..., None], moment: int) -> None:
    """Everybody at once, at a random line of the journal."""
    needs("root", "varnishd", "unshare")
    after = random.Random(moment).randrange(1, MOST_LINES)
    own = "own" if moment % 2 else "machine"
    folder, cache = tmp_path / "labs" / "lab", tmp_path / "cache"
    _, asked = read_set("final")
    with in_a_network_of_nobody():
        before = kernel(asked)
    holder = subprocess.Popen(
        [sys.executable, str(HOLDER), str(folder), str(cache), own], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    network = None
    try:
        agent = int(holder.stdout.readline())
        keeper = linux.process_stat(agent)
        assert keeper is not None
        # The machine's network, as the lab sees it: the holder's own thread has joined the lab's.
        network = os.open(f"/proc/{keeper.parent}/ns/net", os.O_RDONLY)
        journal = folder / "journal.jsonl"
        enough = lines(journal) + after
        assert processes_of(folder)
        wait_until(lambda: lines(journal) >= enough)
        for pid in (keeper.parent, agent, holder.pid):
            os.kill(pid, signal.SIGKILL)
        holder.wait(HANG_S)
        wait_until(lambda: all(linux.process_stat(pid) is None for pid in (keeper.parent, agent)))
        assert b'"name":"net.core.somaxconn"' in journal.read_bytes(), "there is something to put back"
        with linux.in_network(f"/proc/self/fd/{network}"):
            try:
                wait_until(lambda: finish_leftovers(tmp_path) == [] and not folder.exists())
            except AssertionError:
                free, left = try_lock(folder) is not None, sorted(map(str, folder.rglob("*")))
                pytest.fail(f"lock free: {free}; undone: {finish_leftovers(tmp_path)}; files: {left}")
            assert kernel(asked) == before, f"killed after {after} lines"
        wait_until(lambda: not processes_of(folder))
    finally:
        holder.kill()
        if network is not None:
            os.close(network)
    if moment == 0:
        begins_with_its_own_values(tmp_path, cache)


def amount(text: str | None) -> float | None:
    """A parameter's value in plain units: Varnish writes 2k as 2048, and a default as it was declared."""
    return None if text is None else _number(text)


def begins_with_its_own_values(tmp_path: Path, cache: Path) -> None:
    """The next lab under `stock` has each server's own defaults, by read-back."""
    services, sysctl = read_set("stock")
    with (
        start_agent(tmp_path / "labs" / "next", "after the kill", own_network=True) as agent,
        agent.joined(),
    ):
        lab = Lab(services, agent, agent.dir, cache, sysctl=sysctl)
        try:
            lab.up()
            shown = lab._here._standing["cache"].kit.parameters()
            named = {
                name
                for path in SETS.glob("*.yaml")
                for service in read_set(path.stem)[0]
                for name in service.options.get("tuning", {})
            }
            assert named
            begun = {name: (shown[name].value, shown[name].default) for name in named}
            assert all(amount(value) == amount(default) is not None for value, default in begun.values()), (
                begun
            )
        finally:
            lab.down()
