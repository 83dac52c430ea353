"""A controller to be killed: starts an agent and children, prints what it started, waits. Not a test.

argv: folder, "isolated" | "plain". As root it first enters its own network namespace, so that the setting it
changes affects nobody else.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.bounds import HANG_S

from svload.host import start_agent
from svload.host.machine import linux
from svload.model.messages import GroupLimits, HoldSysctls, MakeGroup, Spawn, WriteFile

SETTING, ASKED = "net.ipv4.tcp_fin_timeout", "37"

DAEMON = """
import os, sys, time
if os.fork(): time.sleep(600)
os.setsid()
if os.fork(): os._exit(0)
with open(sys.argv[1] + ".new", "w") as file: file.write(os.readlink("/proc/self"))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", file=sys.stderr, flush=True)
for line in sys.stdin: pass
time.sleep(600)
"""


def main(folder: Path, isolate: bool) -> None:
    root = os.geteuid() == 0
    if root:
        linux.unshare(linux.CLONE_NEWNET)
    agent = start_agent(folder, "a controller to be killed", isolate=isolate)
    log, daemon = folder.parent.parent / "children.log", folder.parent.parent / "daemon.pid"

    def python(child: str, role: str, code: str, *more: str, group: str | None = None) -> Spawn:
        argv = (sys.executable, "-c", code, *more)
        return Spawn.read({"child": child, "role": role, "argv": argv, "log": str(log), "group": group})

    vm = MakeGroup(name="vm", limits=GroupLimits(memory_bytes=1 << 30))
    made = agent.prepare([vm, MakeGroup(name="server", limits=GroupLimits(cpus=0.9), within="vm")] * root)
    server = python("server", "server", DEAF, group="server" if root else None)
    stray = python("daemon", "server", DAEMON, str(daemon))
    results = agent.prepare([python("generator", "generator", DEAF), server, stray])
    agent.prepare([WriteFile(path=str(folder.parent.parent / "temporary"), text="x", temporary=True)])
    if root:
        agent.prepare([HoldSysctls(values={SETTING: ASKED}, host=True)])
    deadline = time.monotonic() + HANG_S
    while not (daemon.exists() and log.read_text().count("deaf") == 2):
        assert time.monotonic() < deadline, "the children did not come up"
        time.sleep(0.01)
    left = linux.process_stat(int(daemon.read_text()))
    keeper = linux.process_stat(agent.pid)
    children = [[found["pid"], found["start_ticks"]] for found in results] + [[left.pid, left.start_ticks]]
    groups = [path for found in made for path in found["paths"].values()]
    result = {"agent": agent.pid, "keeper": keeper.parent, "isolated": agent.isolated}
    print(json.dumps({**result, "children": children, "cgroups": groups}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "isolated")
