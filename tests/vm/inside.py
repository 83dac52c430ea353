"""What `make test-vm` runs inside the other kernel: a real agent, version 2 of the control groups, netem.
Prints one line per check; not a test itself.

The machine is emulated, at about a twentieth of the speed: nothing here is a figure, and every bound is
generous.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svload.host import Agent, start_agent
from svload.host.process import cgroups
from svload.model.errors import SvloadError
from svload.model.messages import Action, DropGroup, GroupLimits, HoldSysctls, MakeGroup, SetLimits, Spawn

LOGS = Path("/tmp/logs")
BUSY = "while True: pass"
GREEDY = "x = bytearray(96 << 20)"
FORKS = """
import os, sys
for _ in range(30):
    try:
        pid = os.fork()
    except OSError as why:
        print("refused", why.errno)
        sys.exit(3)
    if pid == 0:
        import time; time.sleep(60)
        os._exit(0)
"""
ROUND_TRIP = """
import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
def answer():
    one, _ = server.accept()
    one.sendall(one.recv(1))
threading.Thread(target=answer, daemon=True).start()
client = socket.create_connection(server.getsockname())
began = time.monotonic()
client.sendall(b"x"); client.recv(1)
print(round(1000 * (time.monotonic() - began)))
"""


class Bench:
    """An agent, and short ways to ask it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def ask(self, *actions: Action) -> list[dict[str, Any]]:
        return self.agent.prepare(actions, timeout_s=120.0)

    def python(self, child: str, code: str, role: str = "server", group: str | None = None) -> Spawn:
        return self.spawn(child, (sys.executable, "-c", code), role, group)

    def spawn(self, child: str, argv: tuple[str, ...], role: str = "tool", group: str | None = None) -> Spawn:
        return Spawn.read(
            {"child": child, "role": role, "argv": argv, "log": str(LOGS / child), "group": group}
        )

    def group(self, name: str, within: str | None = None, **limits: Any) -> dict[str, Any]:
        return self.ask(MakeGroup(name=name, limits=GroupLimits(**limits), within=within))[0]


def wait_until(condition: Callable[[], bool], bound_s: float = 240.0) -> None:
    until = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < until, "the condition never came true"
        time.sleep(0.05)


def the_kernel_offers_version_2_alone(bench: Bench) -> None:
    assert set(cgroups._mounts()) == {"unified"}
    made = bench.group("one", cpus=0.5, memory_bytes=64 << 20, pids=9)
    assert list(made["paths"]) == ["unified"]
    assert made["found"] == {"cpus": 0.5, "memory_bytes": 64 << 20, "pids": 9}, made
    bench.ask(DropGroup(name="one"))
    assert not Path(made["paths"]["unified"]).exists()


def stat_of(paths: Mapping[str, str]) -> dict[str, int]:
    lines = Path(paths["unified"], "cpu.stat").read_text().splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def two_processes_share_one_quota_and_it_changes_live(bench: Bench) -> None:
    paths = bench.group("busy", cpus=0.2)["paths"]
    bench.ask(bench.python("busy.one", BUSY, group="busy"), bench.python("busy.two", BUSY, group="busy"))
    wait_until(lambda: (cgroups.throttled_s(paths) or 0.0) > 0.3)
    for cpus in (0.2, 0.6):
        [found] = bench.ask(SetLimits(name="busy", limits=GroupLimits(cpus=cpus)))
        assert found["found"]["cpus"] == cpus
        quota_us, period_us = map(int, Path(paths["unified"], "cpu.max").read_text().split())
        assert quota_us == cpus * period_us
        before = stat_of(paths)
        wait_until(lambda before=before: stat_of(paths)["nr_throttled"] >= before["nr_throttled"] + 10)
        now = stat_of(paths)
        periods = now["nr_periods"] - before["nr_periods"]
        used_us = now["usage_usec"] - before["usage_usec"]
        assert used_us <= quota_us * (periods + 2), "by the kernel's own periods, however slow the machine is"
    bench.agent.stop(["busy.one", "busy.two"], now=True)
    bench.ask(DropGroup(name="busy"))


def more_memory_than_allowed_is_a_kill_that_is_counted(bench: Bench) -> None:
    paths = bench.group("eats", memory_bytes=32 << 20)["paths"]
    [result] = bench.ask(bench.python("eats.it", GREEDY, "tool", "eats"))
    assert result["exit"] == -9, result
    assert cgroups.oom_kills(paths) == 1
    bench.ask(DropGroup(name="eats"))


def one_process_too_many_is_refused(bench: Bench) -> None:
    bench.group("forks", pids=8)
    [result] = bench.ask(bench.python("forks.it", FORKS, "tool", "forks"))
    assert (result["exit"], result["tail"]) == (3, "refused 11"), result
    bench.ask(DropGroup(name="forks"))


def members_share_a_machine(bench: Bench) -> None:
    vm = bench.group("vm", memory_bytes=48 << 20)["paths"]
    bench.group("a", "vm")
    two = bench.group("b", "vm", cpus=0.9)["paths"]
    assert two["unified"] == f"{vm['unified']}/b"
    [result] = bench.ask(bench.python("b.it", GREEDY, "tool", "b"))
    assert result["exit"] == -9, result
    assert cgroups.oom_kills(two) == 1
    bench.ask(DropGroup(name="b"))
    assert Path(vm["unified"]).exists()
    bench.ask(DropGroup(name="a"), DropGroup(name="vm"))
    assert not Path(vm["unified"]).exists()


def a_part_of_a_service_is_limited_alone_and_with_the_whole(bench: Bench) -> None:
    """A group with processes can't have groups below it: the other processes are in `rest`."""
    whole = MakeGroup(name="svc", limits=GroupLimits(), open_to=("pids",))
    part = MakeGroup(name="svc.one", limits=GroupLimits(), within="svc", open_to=("cpus",))
    rest = MakeGroup(name="svc.rest", limits=GroupLimits(), within="svc")
    paths = [one["paths"] for one in bench.ask(whole, part, rest)]
    bench.ask(
        bench.python("svc.busy", BUSY, group="svc.one"), bench.python("svc.other", BUSY, group="svc.rest")
    )
    [found] = bench.ask(SetLimits(name="svc.one", limits=GroupLimits(cpus=0.2)))
    assert found["found"] == {"cpus": 0.2}, found
    [found] = bench.ask(SetLimits(name="svc", limits=GroupLimits(pids=9)))
    assert found["found"] == {"pids": 9}, found
    wait_until(lambda: (cgroups.throttled_s(paths[1]) or 0.0) > 0.3)
    assert not cgroups.throttled_s(paths[2])
    [result] = bench.ask(bench.python("svc.forks", FORKS, "tool", "svc.one"))
    assert (result["exit"], result["tail"]) == (3, "refused 11"), result
    bench.agent.stop(["svc.busy", "svc.other"], now=True)
    bench.ask(*(DropGroup(name=name) for name in ("svc.rest", "svc.one", "svc")))
    assert not Path(paths[0]["unified"]).exists()


def what_is_left_in_a_group_ends_with_it(bench: Bench) -> None:
    strays = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
    paths = bench.group("strays", pids=20)["paths"]
    bench.ask(bench.python("strays.it", strays + "\nelse: time.sleep(600)", group="strays"))
    procs = Path(paths["unified"], "cgroup.procs")
    wait_until(lambda: len(procs.read_text().split()) == 2)
    bench.ask(DropGroup(name="strays"))
    assert not procs.exists()
    bench.agent.stop(["strays.it"], now=True)


def the_labs_network_has_settings_of_its_own(bench: Bench) -> None:
    before = Path("/proc/sys/net/core/somaxconn").read_text()
    [result] = bench.ask(HoldSysctls(values={"net.core.somaxconn": "77", "fs.file-max": "4321"}))
    found = {one["name"]: (one["found"], one["layer"]) for one in result["settings"]}
    assert found["net.core.somaxconn"] == ("77", "network")
    assert found["fs.file-max"][1] == "machine"
    assert found["fs.file-max"][0] != "4321"
    assert Path("/proc/sys/net/core/somaxconn").read_text() == before


def netem_delays_what_goes_through_the_labs_network(bench: Bench) -> None:
    [made] = bench.ask(
        bench.spawn("tc", ("/usr/sbin/tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "200ms"))
    )
    assert made["exit"] == 0, made
    [slow] = bench.ask(bench.python("rtt", ROUND_TRIP, "tool"))
    assert int(slow["tail"]) >= 400, slow


CHECKS = (
    the_kernel_offers_version_2_alone,
    two_processes_share_one_quota_and_it_changes_live,
    more_memory_than_allowed_is_a_kill_that_is_counted,
    one_process_too_many_is_refused,
    members_share_a_machine,
    a_part_of_a_service_is_limited_alone_and_with_the_whole,
    what_is_left_in_a_group_ends_with_it,
    the_labs_network_has_settings_of_its_own,
    netem_delays_what_goes_through_the_labs_network,
)


def main() -> int:
    failed = 0
    with start_agent(Path("/tmp/labs/vm"), "make test-vm", own_network=True) as agent:
        assert agent.own_network
        for check in CHECKS:
            began = time.monotonic()
            try:
                check(Bench(agent))
                text = "ok"
            except (AssertionError, SvloadError, OSError, ValueError):
                failed, text = failed + 1, f"FAILED\n{traceback.format_exc()}"
            print(
                f"vm: {check.__name__.replace('_', ' ')}: {text} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    left = [str(path) for path in Path("/sys/fs/cgroup").glob("svload*")]
    print(f"vm: {len(CHECKS) - failed} of {len(CHECKS)} checks passed; left: {left or 'nothing'}", flush=True)
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
