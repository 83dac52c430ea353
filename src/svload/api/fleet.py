"""The machines of an inventory: measure their capacity, install svload, show its state, remove it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from svload.api.studies import Emit
from svload.model.events import Event

if TYPE_CHECKING:
    from svload.fleet.actions import Step
    from svload.fleet.machines import FleetResult as FleetResult
    from svload.fleet.machines import MachineReport as MachineReport


def fleet_check(inventory: Path, emit: Emit) -> FleetResult:
    """Read every machine, measure its clock and its link from here, and find how much load each can generate.
    Changes nothing there."""
    from svload.fleet import actions

    return actions.check(inventory, _steps(emit))


def fleet_install(
    inventory: Path,
    emit: Emit,
    wheel: Path | None = None,
    wheelhouse: Path | None = None,
    study: Path | None = None,
    profile: str | None = None,
) -> FleetResult:
    """Install svload on every machine and set limits; install the study's servers on the group `servers`.
    Repeating it changes nothing."""
    from svload.fleet import actions

    return actions.install(inventory, actions.Package.find(wheel, wheelhouse), _steps(emit), study, profile)


def fleet_status(inventory: Path, emit: Emit) -> FleetResult:
    """Return what is installed and set on every machine."""
    from svload.fleet import actions

    return actions.status(inventory, _steps(emit))


def fleet_clean(inventory: Path, emit: Emit) -> FleetResult:
    """Restore the settings and remove svload's folder on every machine."""
    from svload.fleet import actions

    return actions.clean(inventory, _steps(emit))


def _steps(emit: Emit) -> Step:
    """Return a reporter that emits each step once, for the first machine that begins it."""
    seen: set[str] = set()

    def step(_machine: str, name: str) -> None:
        if name not in seen:
            seen.add(name)
            emit(Event("phase", {"name": name, "state": "begin"}))

    return step
