"""Before a run: a warning if the machine is shared, a bounded wait; during it: advice after refusals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from svload.analysis.quiet import Look, Whose
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


def test_ctrl_c_ends_the_wait() -> None:
    clock = Clock([BUSY] * 100)
    assert not clock.wait(60, stop_at_s=3)
    assert clock.s == 3


def verdict(*checks: str, instrument: str = "REFUSED") -> dict[str, Any]:
    reasons = {check: [f"{check} told.", f"Mend {check}."] for check in checks}
    return {"instrument": instrument, "refused_by": reasons}


def test_five_refusals_in_a_row_are_reported_with_what_to_do() -> None:
    alike = [verdict("manipulation"), *[verdict("manipulation", "warm-up")] * (IN_A_ROW - 2)]
    found = advice([verdict(instrument="VALID"), verdict("physics"), *alike])
    told = "4 of them alike: manipulation told. Mend manipulation."
    assert found == f"5 trials in a row are broken (REFUSED), {told}"


def test_fewer_are_not() -> None:
    few = [verdict("steal")] * (IN_A_ROW - 1)
    for verdicts in (few, [*few, verdict(instrument="VALID")], [*few, verdict(instrument="WEAK"), *few]):
        assert advice(verdicts) == ""


def test_a_quiet_machine_is_not_suggested_where_it_would_not_help() -> None:
    assert "--wait-quiet" not in advice([verdict("manipulation")] * IN_A_ROW)
    assert "Mend manipulation." in advice([verdict("manipulation")] * IN_A_ROW)
