"""numpy starts no threads in svload's commands; programs of a user don't inherit that setting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.servers import completed

from svload.host.process.algebra import THREADS

CODE = """
import os, sys
from pathlib import Path
from svload.host.process.algebra import stay_single_threaded
stay_single_threaded()
import numpy, scipy.special
print(len(os.listdir("/proc/self/task")))
from svload.host import start_agent
from svload.model.messages import Spawn
lab, log = Path(sys.argv[1]) / "lab", Path(sys.argv[1]) / "log"
with start_agent(lab, "a test", isolate=False) as agent:
    agent.prepare([Spawn(child="s", role="server", argv=("sh", "-c", "env; exec sleep 60"), env={}, cwd=sys.argv[1], log=str(log))])
    while "SVLOAD" not in log.read_text():
        pass
print(log.read_text())
"""


@pytest.mark.truth
@pytest.mark.parametrize("own", [None, "2"])
def test_a_command_has_one_thread_and_a_server_the_users_environment(tmp_path: Path, own: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    environment |= {} if own is None else {THREADS: own}
    done = completed([sys.executable, "-c", CODE, str(tmp_path)], env=environment, check=True)
    threads, _, server = done.stdout.partition("\n")
    assert (int(threads) == 1) == (own is None or os.cpu_count() == 1)
    found = dict(line.partition("=")[::2] for line in server.splitlines())
    assert found.get(THREADS) == own
