"""Ctrl-C ends an endless statement, whatever DuckDB is doing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until
from tests.support import SyntheticRun, make_run

pytestmark = pytest.mark.slow

BUSY_S = 2.5
ENDLESS = {
    "join": "select count(*) from range(10000000) a, range(10000000) b where a.range * b.range = 7",
    "recursion": "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
    "sort": "select md5(x::varchar) from range(1000000000) t(x) order by 1",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return make_run(tmp_path_factory.mktemp("runs"), replicates=1, cases=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS)
def test_it_ends_at_once(run: SyntheticRun, sql: str, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "svload", "query", str(run.path), sql]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: cpu_s(process.pid) > BUSY_S or process.poll() is not None)
            process.send_signal(number)
            before_s, ended_s = cpu_s(process.pid), of_children_s()
            assert process.wait(HANG_S) == 130
            # The CPU time of the process itself, because other processes may use the cores.
            assert of_children_s() - ended_s - before_s < 1.0
            assert process.stderr.read() == "svload: interrupted\n"
        finally:
            process.kill()


def of_children_s() -> float:
    """Return the CPU of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> float:
    """Return the CPU of a process: well more than its start once it is at the statement."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
