"""A service's CPU is that of its control group: children that nobody waits for count, too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers import wait_until

from svload.host import Agent
from svload.lab import Lab
from svload.watch.monitors.process import ProcessMonitor

from .conftest import spec

BURNT_S = 0.6
BURNER = f"""\
import os, signal, socket, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)   # children are forgotten as they end, with their CPU time
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < {BURNT_S / 3}:
            pass
        os._exit(0)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()
"""


@pytest.mark.parametrize(("limit", "sees_all"), [({"memory": "256 MiB"}, True), ({}, False)])
def test_children_that_nobody_waits_for_count_where_there_is_a_group(
    agent: Agent, tmp_path: Path, needs: Callable[..., None], limit: dict[str, str], sees_all: bool
) -> None:
    needs("root")
    (tmp_path / "burner.py").write_text(BURNER)
    run = f"{sys.executable} -S burner.py ${{port}}"
    lab = Lab(
        [spec("web", "command", run=run, tcp=True, **limit)],
        agent,
        tmp_path / "work",
        tmp_path / "cache",
        study_dir=tmp_path,
    )
    facts = lab.up()["web"]
    monitor = ProcessMonitor("web", facts.model_dump(mode="json"))
    read = {one.metric: one.value for one in monitor.sample() if not one.entity}

    def ended() -> bool:
        ProcessMonitor.table.renew()
        nonlocal read
        read = {one.metric: one.value for one in monitor.sample() if not one.entity}
        return read["processes"] == 1

    wait_until(ended)
    lab.down()
    assert (read["cpu_seconds_total"] >= BURNT_S) is sees_all
