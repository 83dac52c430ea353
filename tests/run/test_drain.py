"""After requests timed out the next trial waits, for a bounded time, until the servers are idle."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from svload.drive.generators import ShareResult
from svload.drive.share.cut import Share
from svload.host.machine.linux import ProcessStat
from svload.run import drain
from svload.run.drain import timed_out, wait_for_rest


def result(**errors: int) -> ShareResult:
    summary = {"groups": [{"errors": {}}, {"errors": errors}]}
    return ShareResult(Share("load.0", (), {}, ()), summary, Path())


def test_only_time_outs_leave_work_behind() -> None:
    assert not timed_out([])
    assert not timed_out([result(), result(read_reset=7, timeout_body=0)])
    assert timed_out([result(), result(timeout_first_byte=1)])


@dataclass
class Machine:
    """A clock, and one process that uses a whole core until it has used `works_s`."""

    works_s: float
    now_s: float = 0.0

    @classmethod
    def played(cls, monkeypatch: pytest.MonkeyPatch, works_s: float) -> Machine:
        machine = cls(works_s)
        monkeypatch.setattr(drain, "time", machine)
        monkeypatch.setattr(drain, "ProcessTable", lambda: machine)
        return machine

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def renew(self) -> dict[int, ProcessStat]:
        return {7: ProcessStat(7, "R", 1, 7, 7, min(self.now_s, self.works_s), 1, 0, 0)}

    def families(self, roots: Iterable[int]) -> frozenset[int]:
        return frozenset(roots)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("works_s", "rests", "seconds", "text"),
    [
        (2.5, True, 3.0, "worked on for 3 s: waited for"),
        (0.0, True, 0.5, ""),  # one look
        (1.2, True, 2.0, "worked on for 2 s: waited for"),
        (99.0, False, 60.0, "after 60 s the servers still use 1 cores"),
    ],
)
def test_servers_are_waited_for_until_they_rest(
    monkeypatch: pytest.MonkeyPatch, works_s: float, rests: bool, seconds: float, text: str
) -> None:
    machine, found = Machine.played(monkeypatch, works_s), list[str]()
    assert wait_for_rest([7], found.append, lambda: False) == rests
    assert machine.now_s == seconds
    assert (text in found[0]) if text else not found


def test_a_wait_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine.played(monkeypatch, 99.0)
    assert wait_for_rest([7], print, lambda: machine.now_s >= 3)
    assert machine.now_s == 3
    assert wait_for_rest([], print, lambda: False)


def test_a_process_that_rests_is_seen_to_rest() -> None:
    with subprocess.Popen(["sleep", "600"]) as resting:
        assert wait_for_rest([resting.pid], print, lambda: False, look_s=0.1)
        resting.kill()
