"""Work in forks: the same results as a loop, whatever happens to a worker, and no process is left."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host.machine.linux import process_stat
from svload.host.process import forks
from svload.host.process.forks import beside, spread
from svload.model.errors import SvloadError, fail


@pytest.fixture(autouse=True)
def _two_cores_and_no_child_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(forks, "_cores", lambda: 1 if forks._worker else 2)
    before = children()
    yield
    assert children() <= before


def children() -> set[str]:
    """Return this process's children, including dead ones that nobody has waited for."""
    tasks = Path("/proc/self/task")
    return {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


def test_results_come_in_the_order_of_the_items_and_from_workers() -> None:
    factor = 3  # a closure: nothing but results is pickled
    items = range(3 * forks._MOST_TICKETS + 7)  # more than tickets
    found = spread(lambda n: (n * factor, os.getpid()), items)
    assert [value for value, _ in found] == [3 * n for n in items]
    assert os.getpid() not in {pid for _, pid in found}
    large = spread(lambda n: bytes([n]) * 1_000_000, range(6))  # beyond a pipe
    assert large == [bytes([n]) * 1_000_000 for n in range(6)]
    pairs = spread(lambda n: (os.getpid(), spread(lambda _: os.getpid(), range(9))), range(8))
    assert all(set(inner) == {outer} for outer, inner in pairs), "work within work is a plain loop"
    found = spread(lambda n: (lambda: n) if n == 4 else n, range(10))
    assert found[:4] == [0, 1, 2, 3]
    assert callable(found[4]), "what does not pickle is made here"
    with beside(os.getpid) as result:
        assert result() != os.getpid()
    with beside(signal.pause):  # it is ended if nobody waits
        pass


@pytest.mark.parametrize(("cores", "items"), [(1, 50), (2, 3), (2, 0)])
def test_one_core_or_few_items_run_in_a_loop(monkeypatch: pytest.MonkeyPatch, cores: int, items: int) -> None:
    monkeypatch.setattr(forks, "_cores", lambda: cores)
    assert spread(lambda n: (n, os.getpid()), range(items)) == [(n, os.getpid()) for n in range(items)]
    monkeypatch.setattr(forks, "_cores", lambda: 1)
    with beside(os.getpid) as result:
        assert result() == os.getpid()


def test_an_exception_is_the_first_that_a_loop_would_meet_with_all_its_problems() -> None:
    def judged(n: int) -> int:
        if n >= 5:
            one, two = fail("usage", reason=f"number {n}", hint="none"), fail("run-damaged", path=Path("x"))
            raise SvloadError(*one.problems, *two.problems)
        return n

    with pytest.raises(SvloadError) as met:
        spread(judged, range(40))
    assert [problem.code for problem in met.value.problems] == ["usage", "run-damaged"]
    assert met.value.problems[0].details["reason"] == "number 5"
    with pytest.raises(SvloadError, match="number 7"), beside(lambda: judged(7)) as result:
        result()


@pytest.mark.parametrize("killed", [{3}, set(range(10))], ids=["one", "every worker"])
def test_a_killed_worker_costs_time_alone(killed: set[int], capfd: pytest.CaptureFixture[str]) -> None:
    parent = os.getpid()

    def work(n: int) -> int:
        if n in killed and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return n * n

    assert spread(work, range(10)) == [n * n for n in range(10)]
    with beside(lambda: work(3)) as result:
        assert result() == 9
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("still", [signal.pause, lambda: os.kill(os.getpid(), signal.SIGSTOP)])
def test_a_stuck_worker_is_left(monkeypatch: pytest.MonkeyPatch, still: Callable[[], object]) -> None:
    monkeypatch.setattr(forks, "_IDLE_S", 0.3)
    parent = os.getpid()

    def work(n: int) -> int:
        if n == 4 and os.getpid() != parent:
            still()
        return n

    assert spread(work, range(10)) == list(range(10))


def test_a_worker_that_only_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_IDLE_S", 0.01)
    ended, end = os.pipe()
    looks = itertools.count(1)

    def ticks(_: object) -> int:
        """Return a count that rises at each look; after the third the workers end."""
        look = next(looks)
        if look == 3:
            os.write(end, b"....")
        return look

    def work(n: int) -> int:
        os.read(ended, 1)
        return os.getpid()

    monkeypatch.setattr(forks._Workers, "_cpu_ticks", ticks)
    assert os.getpid() not in spread(work, range(4))
    os.close(ended)
    os.close(end)


def test_where_no_process_can_be_made_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(os.listdir("/proc/self/fd"))
    assert spread(lambda n: n, range(9)) == list(range(9))
    assert len(os.listdir("/proc/self/fd")) == before


def test_workers_do_without_locks_that_another_thread_holds(capfd: pytest.CaptureFixture[str]) -> None:
    """A progress display may hold one at the moment of the fork."""
    lock = threading.Lock()

    class Held(io.StringIO):
        def write(self, text: str) -> int:
            with lock:
                return len(text)

    with pytest.MonkeyPatch.context() as patched, lock:
        patched.setattr(sys, "stdout", Held())
        patched.setattr(sys, "stderr", Held())
        found = spread(lambda n: (print(n), print(n, file=sys.stderr, flush=True), n)[2], range(12))
    assert found == list(range(12))
    assert capfd.readouterr() == ("", "")


SCRIPT = """
import os, signal, sys
from svload.host.process import forks
from svload.host.process.forks import spread
forks._cores = lambda: 2
signal.signal(signal.SIGTERM, signal.default_int_handler)

def work(n):
    if n < 2:
        os.write(told, b"%d\\n" % os.getpid())
        while True:
            signal.pause()
    return n

told = os.dup(1)
sys.stdout = open(1, "w", closefd=False)  # buffered, whatever the variables say
sys.stdout.write("unflushed")
try:
    spread(work, range(8))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent_and_say_nothing(number: signal.Signals) -> None:
    """A terminal sends its signal to all of them."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], start_new_session=True, **streams)
    try:
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        send = os.killpg if number == signal.SIGINT else os.kill
        send(parent.pid, number)
        out, err = parent.communicate(timeout=HANG_S)  # at its end: the workers no longer hold these streams
    finally:
        parent.kill()
    wait_until(lambda: not any((stat := process_stat(pid)) and stat.state not in "ZX" for pid in workers))
    assert err == b""
    assert out == (b"" if number == signal.SIGKILL else b"unflushed")
    assert parent.returncode == (-number if number == signal.SIGKILL else 130)
