"""A run waits, for a bounded time, for a quiet machine and servers that still work; then advice."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.analysis.quiet import Look, Whose
from svload.drive.generators import ShareResult
from svload.drive.share.cut import Share
from svload.host.machine.linux import ProcessStat
from svload.model.errors import SvloadError
from svload.run import drain, hands
from svload.run.drain import timed_out, wait_for_rest
from svload.run.quiet import QUIET_LOOKS, SAY_EVERY_S, wait_for_quiet, warning
from svload.run.refusals import IN_A_ROW, advice

QUIET = Look(cores=2, stolen={"cpu0": 0.0}, waited=0.0, others=())
BUSY = replace(QUIET, others=((Whose("cargo", 7, "bob", "cargo build"), 1.5),))


def test_a_shared_machine_is_warned_of_and_a_quiet_one_is_not() -> None:
    assert warning(QUIET) == ""
    assert "cargo (process 7, bob, cargo build)" in warning(BUSY)
    assert "--wait-quiet" in warning(BUSY)


class Clock:
    """Virtual time: a look takes a second."""

    def __init__(self, looks: Iterable[Look]) -> None:
        self.s, self.looks, self.said = 0.0, iter(looks), list[str]()

    def look(self) -> Look:
        self.s += 1
        return next(self.looks)

    def wait(self, bound_s: float, stop_at_s: float = 1e9) -> bool:
        tell, now_s = self.said.append, lambda: self.s
        return wait_for_quiet(bound_s, self.look, tell, lambda: self.s >= stop_at_s, now_s)


def test_it_waits_until_the_machine_is_quiet_for_some_looks_in_a_row() -> None:
    looks = [BUSY, QUIET, QUIET, BUSY, *[QUIET] * QUIET_LOOKS]
    clock = Clock([*looks, BUSY])
    assert clock.wait(600)
    assert clock.s == len(looks)
    assert "a quiet machine, 1 s of 10 min 0 s: other processes use 1.5 of 2 cores: cargo" in clock.said[0]
    assert clock.said[-1] == "the machine is quiet (waited 7 s)"


def test_the_wait_is_bounded_and_says_that_it_was_in_vain() -> None:
    clock = Clock([BUSY] * 100)
    assert not clock.wait(60)
    assert clock.s == 60
    assert len(clock.said) == 60 // SAY_EVERY_S + 1, "now and then, not at every look"
    assert "was not quiet within 60 s; the run starts anyway: other processes use" in clock.said[-1]
    clock = Clock([BUSY] * 100)
    assert not clock.wait(60, stop_at_s=3)
    assert clock.s == 3


def verdict(*checks: str, instrument: str = "REFUSED") -> dict[str, Any]:
    reasons = {check: [f"{check} told.", f"Mend {check}."] for check in checks}
    return {"instrument": instrument, "refused_by": reasons}


def test_five_refusals_in_a_row_are_reported_with_what_to_do() -> None:
    """A quiet machine is not suggested where it would not help."""
    alike = [verdict("manipulation"), *[verdict("manipulation", "warm-up")] * (IN_A_ROW - 2)]
    found = advice([verdict(instrument="VALID"), verdict("physics"), *alike])
    told = "4 of them alike: manipulation told. Mend manipulation."
    assert found == f"5 trials in a row are broken (REFUSED), {told}"
    few = [verdict("steal")] * (IN_A_ROW - 1)
    for verdicts in (few, [*few, verdict(instrument="VALID")], [*few, verdict(instrument="WEAK"), *few]):
        assert advice(verdicts) == ""


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
        (2.5, True, 3.0, "svload waited 3 s until the servers"),
        (0.0, True, 0.5, ""),  # one look
        (1.2, True, 2.0, "svload waited 2 s until the servers"),
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
    stopped = Machine.played(monkeypatch, 99.0)
    assert wait_for_rest([7], print, lambda: stopped.now_s >= 3)
    assert stopped.now_s == 3
    assert wait_for_rest([], print, lambda: False)


def test_a_process_that_rests_is_seen_to_rest() -> None:
    with subprocess.Popen(["sleep", "600"]) as resting:
        assert wait_for_rest([resting.pid], print, lambda: False, look_s=0.1)
        resting.kill()


def test_an_agent_that_does_not_come_up_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(hands, "_JOIN_BOUND_S", 0.1)
    monkeypatch.setattr(hands, "_launch", lambda folder, owner: None)
    monkeypatch.setattr(hands, "_hands_of", lambda starting, generators: let_go.wait(HANG_S))
    early = hands.EarlyHands(tmp_path, "a test", 1)
    with pytest.raises(SvloadError, match=r"it was not up within 0\.1 s"):
        early.wait()
    let_go.set()
