"""Judge timing tests by the state of the machine while they ran: ``pytest -p tests.calm -m timing`` (``make
test-timing``).

A process beside the tests reads the machine ten times a second. If the readings are within the limits, the
test's single outcome counts. Otherwise the outcome is meaningless, and the test is repeated after a calm
moment; if the machine is never calm long enough it is "not run: machine busy", neither a pass nor a failure.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout
from _pytest.runner import runtestprotocol
from tests.conftest import not_run

WAIT_S = 1800.0
"""Total wait for calm moments: looks at a busy machine, and repeated tests."""
LOOK_S = 0.5
EVERY_S = 0.1
NOT_ALL_RUN = 10
"""Exit status when nothing failed and some tests were not run."""

OTHERS = 0.05
"""Share of all cores that other processes may use."""
STOLEN = 0.02
"""Share of all cores that the hypervisor may give to other guests."""
UNSEEN = 0.15
"""Share of all cores used by no visible process: some of it is the kernel's."""
WAITED = 0.01
"""Share of the time that the test's threads may wait for a core while others used one."""
BURST_S = 0.05
"""The longest such wait within one reading."""
SLOWED = 1.5
"""A fixed piece of work may take this multiple of its time on the calm machine: the test's own load shares
caches."""

MARK = "TIMING_TESTS"
"""Set in the environment of everything that the tests start."""


@dataclass
class Readings:
    """The readings of the machine during a test."""

    seconds: float = 0.0
    cores: int = 1
    others_s: float = 0.0
    """CPU time of processes that are not the test's"""
    stolen_s: float = 0.0
    waited_s: float = 0.0
    """time that the test's threads waited for a core while others used one"""
    burst_s: float = 0.0
    """the longest such wait in one reading"""
    slowed: float = 1.0
    """median time of the fixed piece of work over its time at the start of the session"""
    unseen_s: float = 0.0
    """CPU time of no process that is visible from here"""
    busiest: dict[str, float] = field(default_factory=dict)


def disturbances(found: Readings) -> list[str]:
    """Return what makes a test's outcome meaningless, one clause each."""
    whole_s = max(found.seconds, EVERY_S)
    given = (found.others_s, found.unseen_s, found.stolen_s, found.waited_s)
    others, unseen, stolen, waited = (one / whole_s for one in given)
    named = ", ".join(sorted(found.busiest, key=lambda name: found.busiest[name], reverse=True)[:3])
    cores, once_s = found.cores, 0.0 if waited > WAITED else found.burst_s
    rows = [
        (others, OTHERS * cores, f"other processes used {others:.2g} of {cores} cores: {named}"),
        (unseen, UNSEEN * cores, f"processes that can't be seen used {unseen:.2g} of {cores} cores"),
        (stolen, STOLEN * cores, f"the hypervisor gave {100 * stolen / cores:.2g} % to other guests"),
        (waited, WAITED, f"the test waited {100 * waited:.2g} % of the time for cores of others"),
        (once_s, BURST_S, f"the test waited {1000 * once_s:.0f} ms at once for cores of others"),
        (found.slowed, SLOWED, f"a core took {found.slowed:.2g} times as long for a fixed piece of work"),
    ]
    return [clause for value, limit, clause in rows if value > limit]


# --- the process that reads the machine ---


def _work_s() -> float:
    data = b"x" * (1 << 18)
    began = time.thread_time()
    hashlib.sha256(data).digest()
    return time.thread_time() - began


def _waited_s(pids: frozenset[int]) -> dict[str, float]:
    """Return thread → seconds that it has waited for a core."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError, IndexError, ValueError):
                    text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
                    found[thread] = int(text.split()[1]) / 1e9
    return found


class _Reader:
    """Reads the machine; `tests` is the process that runs the tests."""

    def __init__(self, tests: int) -> None:
        from svload.watch import proc

        self._proc = proc
        self._table = proc.ProcessTable()
        self._own = frozenset({tests, os.getpid()})
        self._strangers: set[tuple[int, int]] = set()
        self._calm_s = statistics.median(_work_s() for _ in range(50))
        self._work: list[float] = []
        self.found = Readings()
        self.begin()

    def begin(self) -> None:
        self.found = Readings(cores=os.cpu_count() or 1)
        self._work = []
        self._now = time.monotonic()
        self._before = self._table.renew()
        self._waits = _waited_s(self._own)
        self._stolen_s, self._used_s = self._machine_s()

    def _machine_s(self) -> tuple[float, float]:
        """Return the CPU time of all cores so far: given to other guests, and used."""
        cores = self._proc.parse_cpu(Path("/proc/stat").read_text()).values()
        return sum(core["steal"] for core in cores), sum(core["user"] + core["system"] for core in cores)

    def _belongs(self, now: Mapping[int, Any]) -> frozenset[int]:
        """Return the test's processes: its family, those that once belonged to it, and those with its
        mark."""
        own = set(self._table.families(self._own)) & now.keys()
        for one in now.values():
            key = (one.pid, one.start_ticks)
            if one.pid in own or one.kernel or key in self._strangers:
                continue
            with suppress(OSError):
                if MARK.encode() + b"=" in Path(f"/proc/{one.pid}/environ").read_bytes():
                    own.add(one.pid)
                    continue
            self._strangers.add(key)
        return frozenset(own)

    def sample(self) -> None:
        """Add what happened since the last reading."""
        at = time.monotonic()
        now = self._table.renew()
        self._own = self._belongs(now)
        used = self._proc.used_between(self._before, now)
        others = [
            one for one in used if one.pid not in self._own and one.pid != 1 and not now[one.pid].kernel
        ]
        others_s = sum(one.seconds for one in others)
        for one in others:
            self.found.busiest[one.name] = self.found.busiest.get(one.name, 0.0) + one.seconds
        waits = _waited_s(self._own)
        waited_s = sum(max(0.0, s - self._waits.get(thread, 0.0)) for thread, s in waits.items())
        waited_s = min(waited_s, others_s)
        stolen_s, used_s = self._machine_s()
        self._work.append(_work_s())
        self.found.seconds += at - self._now
        self.found.others_s += others_s
        self.found.waited_s += waited_s
        self.found.burst_s = max(self.found.burst_s, waited_s)
        self.found.stolen_s += stolen_s - self._stolen_s
        self.found.unseen_s += used_s - self._used_s - sum(one.seconds for one in used)
        self.found.slowed = statistics.median(self._work) / self._calm_s
        self._now, self._before, self._waits = at, now, waits
        self._stolen_s, self._used_s = stolen_s, used_s


def main() -> None:
    """Answer `begin` and `end` on stdin until it closes."""
    reader = _Reader(int(sys.argv[1]))
    print("ready", flush=True)
    while True:
        if not select.select([sys.stdin], [], [], EVERY_S)[0]:
            reader.sample()
            continue
        word = sys.stdin.readline().strip()
        if not word:
            return
        if word == "begin":
            reader.begin()
            print("begun", flush=True)
        else:
            reader.sample()
            print(json.dumps(asdict(reader.found)), flush=True)


# --- the plug-in ---


class Watch:
    """The tests' interface to the process that reads the machine."""

    def __init__(self) -> None:
        os.environ[MARK] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.calm", str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._hear() == "ready"

    def _hear(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def _ask(self, word: str) -> str:
        assert self._process.stdin
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return self._hear()

    def begin(self) -> None:
        """Discard earlier readings."""
        assert self._ask("begin") == "begun"

    def end(self) -> Readings:
        """Return what the machine did since then."""
        return Readings(**json.loads(self._ask("end")))

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class Calm:
    """Runs each timing test in a calm moment, or reports that it was not run.

    With a planted delay (`planted`: where; tests/planted/delay.c) a test that names the place in its mark
    must fail.
    """

    def __init__(self, watch: Watch, left_s: float = WAIT_S, planted: str = "") -> None:
        self._planted = planted
        self._watch = watch
        self._left_s = left_s
        self._all_run = True

    def _wait_for_calm(self) -> None:
        while self._left_s > 0:
            began = time.monotonic()
            self._watch.begin()
            time.sleep(LOOK_S)
            if not disturbances(self._watch.end()):
                return
            self._left_s -= time.monotonic() - began

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("timing") is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        timeout = item.config.pluginmanager.hook
        timeout.pytest_timeout_cancel_timer(item=item)
        while True:
            self._wait_for_calm()
            began = time.monotonic()
            self._watch.begin()
            timeout.pytest_timeout_set_timer(item=item, settings=pytest_timeout._get_item_settings(item))
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            timeout.pytest_timeout_cancel_timer(item=item)
            found = disturbances(self._watch.end())
            if not found or any(report.skipped for report in reports):
                break
            # What the test made for other tests was also made on a busy machine.
            item.session._setupstate.teardown_exact(None)
            self._left_s -= time.monotonic() - began
            if self._left_s <= 0:
                reports = [not_run(item, f"machine busy: {'; '.join(found)}")]
                self._all_run = False
                break
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if self._planted and reporter is not None and exitstatus in (0, 1):
            blind = reporter.stats.get("passed", [])
            for report in blind:
                reporter.write_line(f"passed with a delay in the {self._planted}: {report.nodeid}", red=True)
            exitstatus = session.exitstatus = pytest.ExitCode(
                1 if blind or not reporter.stats.get("failed") else 0
            )
        if exitstatus == 0 and not self._all_run:
            session.exitstatus = NOT_ALL_RUN


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    wait_s = float(session.config.getoption("--wait-calm"))
    watch = Watch()
    try:
        planted = os.environ.get("PLANTED_DELAY", "")
        session.config.pluginmanager.register(Calm(watch, wait_s, planted), "calm")
        return (yield)
    finally:
        watch.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a planted delay, keep only the tests that must notice it."""
    if planted := os.environ.get("PLANTED_DELAY"):
        seeing = [item for item in items if any(planted in mark.args for mark in item.iter_markers("timing"))]
        config.hook.pytest_deselected(items=[item for item in items if item not in seeing])
        items[:] = seeing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--wait-calm", default=WAIT_S, type=float, help="seconds in all to wait for calm moments"
    )


if __name__ == "__main__":
    main()
