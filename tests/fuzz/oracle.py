"""The rules for every case: no internal error, no wait over five seconds, no undocumented exit code."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.bounds import HANG_S

CODES = (0, 1, 2, 3, 4, 130)
WAIT_S = 5.0
MEMORY_KIB = 1 << 20
"""More than any case takes, including this process's own memory."""
judges_waits = False
"""Whether a case that takes longer is a failure: for `python -m tests.fuzz`, on a machine that is not busy."""


@dataclass(frozen=True)
class Case:
    """The result of a case: how it ended, and what is wrong with that (empty: nothing)."""

    ended: str
    wrong: str = ""


@dataclass
class Tally:
    """The number of cases by how they ended, and the failures with all that is needed to repeat them."""

    kind: str
    seed: int
    ended: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    cpu_s: float = 0.0

    def __str__(self) -> str:
        ways = ", ".join(f"{name} {count:,}" for name, count in sorted(self.ended.items()))
        return (
            f"{self.kind}: {self.ended.total():,} cases in {self.cpu_s:.0f} s of CPU, {len(self.failures)} "
            f"failures ({ways})"
        )


Fuzzer = Callable[[Random, Path], Case]


def fuzz(kind: str, one: Fuzzer, seed: int, seconds: float, first: int = 0, most: int | None = None) -> Tally:
    """Run cases for that long. Each has its own seed, so that its number alone repeats it."""
    tally, begun, number = Tally(kind, seed), time.monotonic(), first
    before_s = _cpu_s()
    while time.monotonic() - begun < seconds and (most is None or number - first < most):
        with tempfile.TemporaryDirectory(prefix="svload-fuzz-") as folder:
            found = one(Random(f"{kind} {seed} {number}"), Path(folder))
        tally.ended[found.ended] += 1
        if found.wrong:
            again = f"python -m tests.fuzz --only {kind} --seed {seed} --case {number}"
            tally.failures.append(f"{found.wrong}\n  again: {again}")
            print(tally.failures[-1], file=sys.stderr, flush=True)
        number += 1
    tally.cpu_s = _cpu_s() - before_s
    return tally


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def has_waited(waited_s: float, cpu_s: float) -> str:
    """Return what is wrong with a case's time; empty for nothing."""
    if not judges_waits:
        return ""
    if cpu_s > WAIT_S:
        return f"took {cpu_s:.1f} s of CPU"
    return f"waited for {waited_s:.1f} s" if waited_s > WAIT_S and cpu_s < waited_s / 20 else ""


def command(words: Sequence[str], folder: Path, environment: Mapping[str, str] = {}) -> Case:
    """Run `svload WORDS` in a fork of this process and judge how it ended."""
    text = folder / "said"
    pid = os.fork()
    if pid == 0:
        _become(words, folder, text, environment)
    begun = time.monotonic()
    status, used = _wait(pid, begun)
    expected = text.read_text(encoding="utf-8", errors="replace") if text.exists() else ""
    waited_s = time.monotonic() - begun
    cpu_s = used.ru_utime + used.ru_stime
    ended = f"exit {os.waitstatus_to_exitcode(status)}"
    shown = f"svload {' '.join(map(str, words))}"[:300]
    if os.WIFSIGNALED(status):
        how = f"ended by signal {os.WTERMSIG(status)} after {waited_s:.1f} s"
        return Case("killed", f"{shown}: {how}\n{expected[-2000:]}")
    if os.waitstatus_to_exitcode(status) not in CODES:
        return Case(ended, f"{shown}: {ended}\n{expected[-2000:]}")
    # SVLOAD_DEBUG also shows where the system refused a file.
    if "[internal]" in expected or ("Traceback" in expected and "[file-refused]" not in expected):
        return Case(ended, f"{shown}: an internal error\n{expected[-4000:]}")
    if used.ru_maxrss > MEMORY_KIB:
        return Case(ended, f"{shown}: took {used.ru_maxrss >> 10} MiB")
    late = has_waited(waited_s, cpu_s)
    return Case(ended, late and f"{shown}: {late}")


def _wait(pid: int, begun: float) -> tuple[int, resource.struct_rusage]:
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], HANG_S)[0]:
            os.kill(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
    finally:
        os.close(handle)
    return status, used


def _become(words: Sequence[str], folder: Path, text: Path, environment: Mapping[str, str]) -> None:
    """Run the command in this process; never returns."""
    from svload.cli import main

    code = 99
    try:
        out = os.open(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(out, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.argv = ["svload", *map(str, words)]
        os.environ.update(environment, SVLOAD_DEBUG="1")
        os.chdir(folder)
        main.run()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
