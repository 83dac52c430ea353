"""Links of a lab: shaped by the kernel, delayed by a process, and removed with their owner."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host import Agent, start_agent
from svload.host.machine import fabric, linux
from svload.host.machine.delay_line import read_line_state
from svload.host.machine.qdiscs import qdiscs
from svload.lab.kit import KitOptions
from svload.lab.links import ServiceLinks
from svload.model.errors import SvloadError
from svload.model.messages import DropLink, HoldSysctls, LinkLimits, MakeLink, Spawn

pytestmark = pytest.mark.truth
RATE = 1_250_000
SLOW = KitOptions.model_validate({"link": {"latency": "20 ms", "rate": "100 Mbit/s"}})


@pytest.fixture
def linked(tmp_path: Path, needs: Callable[..., None]) -> Iterator[Agent]:
    """Return an agent whose lab has its own network."""
    needs("root")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)
    with start_agent(tmp_path / "lab", "test", own_network=True) as agent:
        yield agent


def names_here() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def served(made: Mapping[str, Any], port: int = 7) -> socket.socket:
    """Return a socket that listens within a link's network."""
    with linux.in_network(made["network"]):
        return socket.create_server((made["address"], port))


def connected(linked: Agent, to: socket.socket) -> socket.socket:
    """Return a connection to it from the lab's own network."""
    with linked.joined():
        return socket.create_connection(to.getsockname(), timeout=HANG_S)


def test_a_link_is_held_both_ways_and_goes_when_it_is_dropped(linked: Agent) -> None:
    before = names_here()
    order = MakeLink(name="web", limits=LinkLimits(rate_bytes_per_s=RATE))
    [made] = linked.prepare([order])
    assert made["rate_bytes_per_s"] == RATE
    assert names_here() == before, "nothing is added to the machine's own network"
    with linux.in_network(made["network"]):
        assert names_here() == {"lo", made["inside"]}
    with linked.joined():
        assert names_here() == {"lo", made["outside"]}
    faster = MakeLink(name="web", limits=LinkLimits(rate_bytes_per_s=2 * RATE))
    assert linked.prepare([faster])[0]["rate_bytes_per_s"] == 2 * RATE
    free = MakeLink(name="web", limits=LinkLimits())
    assert linked.prepare([free])[0]["rate_bytes_per_s"] is None
    assert linked.prepare([DropLink(name="web")]) == [{"removed": True}]
    assert linked.prepare([DropLink(name="web")]) == [{"removed": False}]
    with linked.joined():
        assert names_here() == {"lo"}
    assert linked.prepare([order])[0]["address"] == made["address"], "the same address again"


def test_its_service_has_the_congestion_control_asked_for(linked: Agent) -> None:
    for control in ("cubic", "reno"):
        [made] = linked.prepare([MakeLink(name=control, limits=LinkLimits(congestion=control))])
        with served(made) as listener, connected(linked, listener), listener.accept()[0] as accepted:
            found = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert found.rstrip(b"\0").decode() == control
    with pytest.raises(SvloadError, match="congestion"):
        linked.prepare([MakeLink(name="web", limits=LinkLimits(congestion="nonsense"))])


@pytest.mark.timing
def test_bytes_come_at_its_rate_and_those_of_a_link_without_one_at_once(linked: Agent) -> None:
    for limits, least_s, most_s in ((LinkLimits(rate_bytes_per_s=RATE), 0.7, 1.3), (LinkLimits(), 0.0, 0.5)):
        [made] = linked.prepare([MakeLink(name="web", limits=limits)])
        with served(made) as listener, connected(linked, listener) as client, listener.accept()[0] as server:
            began = time.monotonic()
            sender = threading.Thread(target=server.sendall, args=(bytes(RATE),))
            sender.start()
            got = 0
            while got < RATE:
                got += len(client.recv(1 << 20))
            took_s = time.monotonic() - began
            sender.join()
        linked.prepare([DropLink(name="web")])
        assert least_s <= took_s < most_s


def test_two_linked_services_and_one_that_is_not_reach_each_other(linked: Agent) -> None:
    one, other = linked.prepare([MakeLink(name=name, limits=LinkLimits()) for name in ("a", "b")])
    with linked.joined():
        hub = socket.create_server((fabric.HUB, 7))
    with hub, served(other), linux.in_network(one["network"]):
        for address in (fabric.HUB, other["address"]):
            socket.create_connection((address, 7), timeout=HANG_S).close()


def test_a_links_network_has_the_labs_settings_of_the_kernel(linked: Agent) -> None:
    def queue(network: str) -> str:
        with linux.in_network(network):
            return Path("/proc/sys/net/core/somaxconn").read_text().strip()

    [before] = linked.prepare([MakeLink(name="before", limits=LinkLimits())])
    old = queue(before["network"])
    assert old != "77"
    linked.prepare([HoldSysctls(values={"net.core.somaxconn": "77"}, host=False)])
    [after] = linked.prepare([MakeLink(name="after", limits=LinkLimits())])
    assert (queue(before["network"]), queue(after["network"])) == ("77", "77")
    linked.prepare([HoldSysctls(values={}, host=False)])
    assert (queue(before["network"]), queue(after["network"])) == (old, old), "put back with the lab's own"


def test_a_lab_without_a_network_of_its_own_refuses(agent: Agent) -> None:
    with pytest.raises(SvloadError, match="no network of its own"):
        agent.prepare([MakeLink(name="web", limits=LinkLimits())])


def test_a_latency_is_in_effect_and_reported(linked: Agent, tmp_path: Path) -> None:
    links = ServiceLinks(linked, tmp_path / "links", None)
    address = links.make("web", SLOW)
    [fact] = links.facts("web")
    held = {"link_rate_bytes_per_s": "12500000", "link_latency_s": "0.02"}
    assert {one.name: one.found for one in fact.settings} == held
    with served({"network": fact.network, "address": address}) as listener:
        connected(linked, listener).close()
        found = read_line_state(fact.delay_line)
        assert found.packets >= 2 and found.dropped == 0 and found.late_ns > 0
    slower = {"link_latency_s": 0.1, "link_rate_bytes_per_s": 1_250_000.0}
    assert links.change("web", slower) == slower
    with linked.joined():
        assert {one.rate_bytes_per_s for one in qdiscs() if one.kind == "tbf"} == {1_250_000}
    first = {"link_latency_s": 0.02, "link_rate_bytes_per_s": 12_500_000}
    assert links.restore("web", tuple(slower)) == first
    links.drop("web")
    with linked.joined():
        assert names_here() == {"lo"}
    with pytest.raises(SvloadError, match="no link of its own"):
        links.change("web", {"link_latency_s": 0.1})


def test_nothing_is_left_when_the_agent_is_killed(linked: Agent, tmp_path: Path) -> None:
    links = ServiceLinks(linked, tmp_path / "links", None)
    links.make("slow", KitOptions.model_validate({"link": {"latency": "2 ms"}}))
    [made] = linked.prepare([MakeLink(name="web", limits=LinkLimits(rate_bytes_per_s=RATE))])
    wait = (sys.executable, "-c", "import time; time.sleep(600)")
    order = Spawn(child="web.one", role="server", argv=wait, log=str(tmp_path / "log"), link="web")
    [started] = linked.prepare([order])
    inside, outside = (os.stat(made[name]).st_ino for name in ("network", "fabric"))
    assert os.stat(f"/proc/{started['pid']}/ns/net").st_ino == inside
    os.kill(linked.pid, signal.SIGKILL)

    def left() -> list[int]:
        found = []
        for one in linux.processes():
            with suppress(OSError):
                if os.stat(f"/proc/{one.pid}/ns/net").st_ino in (inside, outside):
                    found.append(one.pid)
        return found

    wait_until(lambda: left() == [])
    assert not [name for name in names_here() if name.startswith("link")]


@pytest.mark.pure
def test_a_tool_that_hangs_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric, "_BOUND_S", 0.05)
    with pytest.raises(OSError, match=r"did not end within 0\.05 s"):
        fabric._run(("sleep", "60"))


def test_without_root_or_tools_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert fabric.lacking(latency=False) == "links need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fabric, "_PATH", "/nowhere")
    assert "iproute2" in (fabric.lacking(latency=False) or "")
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fabric.shutil, "which", lambda name, path: name)
    monkeypatch.setattr(fabric, "_works", lambda words: "tuntap" not in words)
    assert fabric.lacking(latency=False) is None
    assert "TUN" in (fabric.lacking(latency=True) or "")
    monkeypatch.setattr(fabric, "_works", lambda words: "tbf" not in words)
    assert "tbf" in (fabric.lacking(latency=False) or "")
