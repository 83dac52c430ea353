"""After requests timed out the next trial waits until the servers rest, for a bounded time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svload.drive.generators import ShareResult
from svload.drive.share.cut import Share
from svload.run.drain import timed_out, wait_for_rest

SPIN = """\
import time
print(flush=True)
ends = time.process_time() + {}
while time.process_time() < ends:
    pass
time.sleep(60)
"""


@pytest.fixture
def spinning() -> Iterator[Any]:
    started: list[subprocess.Popen[bytes]] = []

    def spin(cpu_s: float) -> int:
        started.append(subprocess.Popen([sys.executable, "-c", SPIN.format(cpu_s)], stdout=subprocess.PIPE))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()  # a busy machine starts it late, and it would seem to rest
        return started[-1].pid

    yield spin
    for one in started:
        one.kill()
        one.communicate(timeout=10)


def result(**errors: int) -> ShareResult:
    summary = {"groups": [{"errors": {}}, {"errors": errors}]}
    return ShareResult(Share("load.0", (), {}, ()), summary, Path())


def test_only_time_outs_leave_work_behind() -> None:
    assert not timed_out([])
    assert not timed_out([result(), result(read_reset=7, timeout_body=0)])
    assert timed_out([result(), result(timeout_first_byte=1)])


def waited(pid: int, said: list[str], **how: Any) -> tuple[bool, float]:
    begun = time.monotonic()
    rests = wait_for_rest([pid], said.append, how.pop("should_stop", lambda: False), look_s=0.1, **how)
    return rests, time.monotonic() - begun


def test_a_server_that_works_on_is_waited_for(spinning: Any) -> None:
    said: list[str] = []
    rests, seconds = waited(spinning(2.5), said)
    assert rests
    assert 2.4 < seconds < 30
    assert "worked on for" in said[0]


def test_a_server_at_rest_costs_one_look(spinning: Any) -> None:
    said: list[str] = []
    rests, seconds = waited(spinning(0.0), said)
    assert rests
    assert seconds < 2
    assert not said


def test_the_wait_is_bounded_and_can_be_stopped(spinning: Any) -> None:
    said: list[str] = []
    pid = spinning(60.0)
    rests, seconds = waited(pid, said, bound_s=0.5)
    assert not rests
    assert 0.5 < seconds < 10
    assert "still use" in said[0]
    assert waited(pid, said, should_stop=lambda: True)[1] < 1
    assert wait_for_rest([], said.append, lambda: False)
