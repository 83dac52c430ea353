"""Resource limits under which libraries spin, crash or blame a file are checked at the start; a second
signal ends code that ignores the first."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from svload.host.process import limits

MIB = 1 << 20
NEEDED = 5 + limits.LEAST_TASKS
LOW = {
    "as-140M": (resource.RLIMIT_AS, 140 * MIB, "memory is 140 MiB", "ulimit -v 3145728"),
    "data-200M": (resource.RLIMIT_DATA, 200 * MIB, "memory for data is 200 MiB", "ulimit -d 1048576"),
    "fsize-1M": (resource.RLIMIT_FSIZE, MIB, "the size of one file is 1 MiB", "ulimit -f 262144"),
    "nofile-40": (resource.RLIMIT_NOFILE, 40, "open files is 40", "ulimit -n 128"),
}
ENOUGH = {need.flag: (need.limit, need.least) for need in limits.NEEDS}


def limited(limit: int, value: int) -> subprocess.CompletedProcess[str]:
    """Run the command that does least, under this limit."""
    begin = f"import resource; resource.setrlimit({limit}, ({value}, {value})); "
    code = begin + "import sys; sys.argv = ['svload', '--version']; from svload.cli.main import main; main()"
    return completed([sys.executable, "-c", code])


@pytest.mark.parametrize(("limit", "value", "what", "remedy"), LOW.values(), ids=LOW)
def test_a_limit_that_is_too_low_is_one_message(limit: int, value: int, what: str, remedy: str) -> None:
    done = limited(limit, value)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert f"limit for {what}, but svload needs" in done.stderr
    assert f"“{remedy}”" in done.stderr and "[limit-low]" in done.stderr


@pytest.mark.parametrize(("limit", "value"), ENOUGH.values(), ids=ENOUGH)
def test_a_limit_that_suffices_is_not_named(limit: int, value: int) -> None:
    done = limited(limit, value)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("soft", "user", "lacks"),
    [(8, 1000, True), (NEEDED - 1, 1000, True), (NEEDED, 1000, False), (-1, 1000, False), (8, 0, False)],
    ids=["eight", "one-too-few", "enough", "none", "root"],
)
def test_processes_of_the_user_count_with_their_threads(
    soft: int, user: int, lacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.getuid()
    for pid, threads in (("17", 3), ("4711", 2)):
        for thread in range(threads):
            (tmp_path / pid / "task" / str(thread)).mkdir(parents=True)
    (tmp_path / "sys").mkdir()
    given = {resource.RLIMIT_NPROC: soft}
    monkeypatch.setattr(limits.resource, "getrlimit", lambda limit: (given.get(limit, -1), -1))
    monkeypatch.setattr(limits, "_running", lambda _, proc, count=limits._running: count(owner, proc))
    monkeypatch.setattr(limits.os, "getuid", lambda: user)
    found = list(limits.short(str(tmp_path)))
    assert [(one.found, one.command) for one in found] == (
        [(f"{soft} (user 1000 runs 5 already)", f"ulimit -u {NEEDED}")] if lacks else []
    )


DEAF = {"sum": "sum(endless)", "all": "all(endless)", "deque": "collections.deque(endless, 0)"}
"""C code that prints when it is at work and never returns."""
SIGNALS = ("TERM TERM", "INT INT", "TERM INT", "INT TERM", "INT HUP")


@pytest.mark.parametrize("signals", SIGNALS)
@pytest.mark.parametrize("work", DEAF.values(), ids=DEAF)
def test_a_second_signal_ends_what_python_does_not_hear(work: str, signals: str) -> None:
    first, second = (signal.Signals[f"SIG{name}"] for name in signals.split())
    code = (
        "import collections, functools, itertools, os, sys, types; from svload.cli.main import main\n"
        "said = map(functools.partial(os.write, 1), [b'deaf\\n'])\n"
        "endless = itertools.chain(said, itertools.repeat(1))\n"
        f"sys.modules['svload.cli.app'] = types.SimpleNamespace(app=lambda **_: {work}); main()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "deaf\n"
            process.send_signal(first)
            wait_until(lambda: not caught(process.pid) & {first, signal.SIGIO})
            assert process.poll() is None, "the first one is Python's to hear"
            process.send_signal(second)
            assert process.wait(HANG_S) == -(second if second == first else signal.SIGIO)
        finally:
            process.kill()


def caught(pid: int) -> set[int]:
    """Return the signals that a process handles."""
    mask = int(re.search(r"SigCgt:\t(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@pytest.mark.parametrize("signals", ["TERM TERM", "TERM INT", "INT HUP"])
def test_a_run_that_hears_its_first_signal_takes_the_second_in_its_own_way(signals: str) -> None:
    """Python's handlers are active again once it has run one."""
    first, second = (f"os.kill(os.getpid(), signal.SIG{name})" for name in signals.split())
    code = (
        "import os, signal; from svload.run.interrupts import interrupts\n"
        "from svload.host.process.signals import end_on_second; end_on_second()\n"
        "try:\n"
        "    with interrupts() as stop:\n"
        f"        {first}; print(stop.wait(9), flush=True)\n"
        f"        {second}\n"
        "except KeyboardInterrupt:\n"
        "    print('put back', flush=True)\n"
    )
    done = completed([sys.executable, "-c", code])
    assert (done.returncode, done.stdout) == (0, "True\nput back\n")
