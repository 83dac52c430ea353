"""Samples the call stacks of one service beside a load: `perf record`, started and stopped through the agent.

Samples are triggered by the kernel's `cpu-clock`, which needs no hardware counters. Threads that do not run
give no samples, so the samples show CPU use and no waiting.

Every core is sampled with everything that runs there, and the service's samples are selected afterwards. A
clock per process would restart with each thread: threads that live for less than a period would give no
sample, and a server that starts a thread per connection has only these. Other processes' samples are deleted
with perf's file.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.host.machine.linux import namespace_pids
from svload.model.errors import Problem, SvloadError
from svload.model.messages import Limits, Spawn
from svload.model.stacks import Stacks
from svload.watch.folding import FIELDS, fold
from svload.watch.proc import ProcessTable, families

if TYPE_CHECKING:
    from svload.host.agent.client import Agent
    from svload.model.facts import ServiceFacts

CHILD = "stacks"
RATE_HZ = 99
"""Samples per second of CPU; not a round number, so as not to keep step with a server's own clock."""
MOST_SAMPLES = 12_000
"""With many cores each is sampled less often, so that `LONGEST_S` gives no more than this."""
LONGEST_S = 30.0
"""The longest sampling, from the start of the measured time."""
STACK_BYTES = 8_192
"""The bytes of stack that each sample copies: functions are found by the programs' unwinding tables, which
Debian's have, whether or not they were compiled with frame pointers."""
DATA_MIB = 256
READY_S = 5.0
STARTS_WITHIN_S = 10.0
"""The longest time from perf's start to the load's."""
STOP_S = 15.0
READ_S = 120.0
_POLL_S = 0.02
TIMED = 'trap : INT; perf "$@"; code=$?; times; exit $code'
"""perf in a shell that reports its CPU time at the end."""
_TIMES = re.compile(r"^(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", re.MULTILINE)
_DENIED = ("perf_event_paranoid", "permission", "not permitted", "EACCES", "EPERM")


def rate_hz(cores: int) -> int:
    """Return how often to sample each core, so that no trial gives more than `MOST_SAMPLES`."""
    return max(1, min(RATE_HZ, int(MOST_SAMPLES / (LONGEST_S * cores))))


def not_measured(service: str, reason: str, hint: str = "") -> Problem:
    """Return why there is no profile, and what to do."""
    return Problem("profile-not-measured", {"service": service, "reason": reason, "hint": hint})


def lacks(service: str) -> Problem | None:
    """Return what this machine lacks for sampling; None if it lacks nothing."""
    if shutil.which("perf"):
        return None
    hint = "As root: apt-get install linux-perf."
    return not_measured(service, "perf is not on this machine", hint)


def in_words(problem: Problem) -> str:
    """Return what is wrong and what to do, in one line."""
    return f"{problem.sentence} {problem.remedy}".strip()


class StackSampler:
    """Samples one service during one trial: `begin`, `stop`, then `stacks`.

    `before_s` is the time from the load's start to its measured time; perf runs on `cores` (None: any).
    Failures of perf are reported in the stacks (`why`), and never end a trial. Raises SvloadError agent-lost.
    """

    def __init__(
        self,
        agent: Agent,
        folder: Path,
        facts: ServiceFacts,
        before_s: float,
        cores: tuple[int, ...] | None = None,
    ) -> None:
        self._agent = agent
        self._cores = cores
        self._facts = facts
        self._rate_hz = rate_hz(os.cpu_count() or 1)
        self._most_s = before_s + STARTS_WITHIN_S + LONGEST_S
        self._roots: list[int] = []
        self._data = folder / "perf.data"
        self._text = folder / "perf-script.txt"
        self._log = folder / "perf.log"
        self._problem: Problem | None = None
        self._running = False
        self._stopped_ns: int | None = None

    @property
    def problem(self) -> Problem | None:
        """Return why there will be no profile, if that is known yet."""
        return self._problem

    def begin(self) -> None:
        """Start sampling; return when every core is sampled. The service's processes are those that it has
        now, and all that they start later."""
        service = self._facts.service
        self._problem = lacks(service)
        if self._problem:
            return
        self._roots = self._pids()
        if not self._roots:
            self._problem = not_measured(service, f"{service} has no process of its own")
            return
        self._sweep()
        record = (
            "record", "--event", "cpu-clock:I", "--freq", str(self._rate_hz), "--all-cpus",
            "--call-graph", f"dwarf,{STACK_BYTES}", "--clockid", "monotonic", "--no-buildid", "--no-buildid-cache",
            "--max-size", f"{DATA_MIB}M", "--output", str(self._data), "--", "sleep", f"{self._most_s:.0f}",
        )  # fmt: skip
        try:
            self._agent.prepare([self._spawn("server", ("sh", "-c", TIMED, "perf", *record), self._log)])
            self._running = True
            self._await_attached()
        except SvloadError as why:
            self._failed(why)

    def stop(self) -> None:
        """End the sampling; harmless if it has ended or never started."""
        if not self._running:
            return
        self._running = False
        self._stopped_ns = time.monotonic_ns()
        try:
            self._agent.stop([CHILD], STOP_S)
        except SvloadError as why:
            self._failed(why)

    def stacks(self, from_ns: int, to_ns: int) -> Stacks:
        """Return the samples in [from_ns, to_ns) of CLOCK_MONOTONIC; it takes CPU, so not while measuring."""
        self.stop()
        to_ns = max(from_ns, min(to_ns, self._stopped_ns or to_ns, from_ns + round(LONGEST_S * 1e9)))
        folded: dict[str, int] = {}
        samples = lost = 0
        if self._problem is None:
            try:
                folded, samples, lost = fold(self._lines(), self._roots, from_ns, to_ns)
            except SvloadError as why:
                self._failed(why)
        if self._problem is None and not samples:
            self._problem = not_measured(self._facts.service, self._nothing())
        cpu_s = cpu_seconds(self._last_words()) if self._stopped_ns else None
        self._sweep()
        problem = self._problem
        return Stacks(
            service=self._facts.service,
            rate_hz=self._rate_hz,
            window_s=(to_ns - from_ns) / 1e9,
            samples=samples,
            folded=folded,
            lost=lost,
            sampler_cpu_s=cpu_s,
            why="" if problem is None else in_words(problem),
        )

    def _lines(self) -> list[str]:
        argv = (
            "perf", "script", "--input", str(self._data), "--fields", FIELDS, "--ns", "--no-inline", "--show-task-events",
            "--show-lost-events",
        )  # fmt: skip
        answer = self._agent.prepare([self._spawn("tool", argv, self._text)], READ_S)[0]
        text = self._agent.collect(self._text).decode("utf-8", "replace")
        if answer["exit"] != 0 and not text.strip():
            self._problem = self._problem_of(answer["tail"])
        return text.splitlines()

    def _spawn(self, role: Any, argv: Sequence[str], log: Path) -> Spawn:
        """Return how to start perf. It counts pids in its own PID namespace and looks them up in /proc: in
        another namespace, it needs that one's /proc."""
        own_proc = ("unshare", "--mount", "--mount-proc") if self._agent.isolated else ()
        quiet = {"HOME": str(self._data.parent), "DEBUGINFOD_URLS": "", "LC_ALL": "C"}
        return Spawn(
            child=CHILD if role == "server" else f"{CHILD}-script",
            role=role,
            argv=(*own_proc, *argv),
            env=quiet,
            log=str(log),
            limits=Limits(cores=self._cores),
            timeout_s=READ_S,
            stop_signal="INT",
        )

    def _await_attached(self) -> None:
        """Wait until perf has written the head of its file, which it does when it is attached to all."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self._agent.exited(CHILD) is not None:
                self._running = False
                self._problem = self._problem_of(self._last_words())
                return
            if self._data.exists() and self._data.stat().st_size:
                return
            time.sleep(_POLL_S)

    def _pids(self) -> list[int]:
        """Return all processes of the service as the agent's children see them."""
        table = ProcessTable()
        try:
            found = families({one.pid for one in self._facts.processes}, table.all().values())
        finally:
            table.close()
        depth = 1 if self._agent.isolated else 0
        inner = (namespace_pids(pid)[depth : depth + 1] for pid in sorted(found))
        return [pid for pids in inner for pid in pids] if self._facts.processes else []

    def _last_words(self) -> str:
        try:
            return self._agent.collect(self._log).decode("utf-8", "replace").strip()
        except SvloadError:
            return ""

    def _problem_of(self, words: str) -> Problem:
        """Return what perf printed when it could not sample."""
        service = self._facts.service
        if any(sign in words for sign in _DENIED):
            hint = "Run svload as root, or let users sample: sysctl kernel.perf_event_paranoid=0."
            return not_measured(service, "perf may not sample here", hint)
        last = next((line for line in reversed(words.splitlines()) if line.strip()), "it printed nothing")
        return not_measured(service, f"perf failed: {last.strip()}")

    def _nothing(self) -> str:
        return f"no process of {self._facts.service} used CPU in the measured time"

    def _failed(self, why: SvloadError) -> None:
        if any(problem.code == "agent-lost" for problem in why.problems):
            raise why
        self._problem = self._problem or not_measured(
            self._facts.service, why.problems[0].sentence.rstrip(".")
        )

    def _sweep(self) -> None:
        for path in (self._data, self._text, self._log, Path(f"{self._data}.old")):
            path.unlink(missing_ok=True)


def cpu_seconds(text: str) -> float | None:
    """Return a shell's children's CPU time from its `times`: user and system, on its last line."""
    found = _TIMES.findall(text)
    if not found:
        return None
    user_min, user_s, system_min, system_s = map(float, found[-1])
    return 60 * (user_min + system_min) + user_s + system_s
