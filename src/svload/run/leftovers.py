"""What killed svloads left on this machine is put back and reported, before any command uses a lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from svload.host import finish_leftovers
from svload.host.agent.leftovers import Leftover
from svload.model.errors import fail
from svload.model.events import Event

Emit = Callable[[Event], None]


def put_back(emit: Emit) -> None:
    """Put back what can be, or wait until the agent of a killed svload has; emit an event for each thing,
    whether that succeeded or not."""

    def waiting(lab: str) -> None:
        emit(
            Event("notice", {"text": f"waiting: what a killed svload ({lab}) had changed is being put back"})
        )

    report_leftovers(finish_leftovers(on_wait=waiting), emit)


def report_leftovers(found: Iterable[Leftover], emit: Emit, machine: str = "") -> None:
    """Emit an event for each thing that was found on a machine of a fleet, or on this one."""
    there = f" on {machine}" if machine else ""
    for one in found:
        text = f"left by a killed svload ({one.lab}){there}, now restored: {one.what}"
        if not one.undone:
            [problem] = fail("not-undone", lab=one.lab, what=one.what, path=one.journal).problems
            text = str(problem)
        emit(Event("leftover", {"text": text, "undone": one.undone}))
