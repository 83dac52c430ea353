"""The plan: batches of trials, decided before the first of them, never edited; and where its shares run."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact, Frozen


class TrialPlan(Frozen):
    """One replicate of a case. `seed` drives all its schedules; `whole_plot` numbers the bring-up it belongs to."""

    trial: str
    case: str
    replicate: int
    block: int
    position: int
    seed: int
    whole_plot: int = 0
    restart: bool = False


class Batch(Artefact):
    """plan/NNN.json: trials in the order they run. `decided_from` maps sealed trials to the seal hashes that were read."""

    FORMAT: ClassVar[int] = 1
    number: int
    because: str
    trials: tuple[TrialPlan, ...]
    decided_from: dict[str, str] = {}


class Room(Frozen):
    """How many connections a machine can hold: open files of each generator, and local ports towards one address.

    The defaults are Linux's own for root.
    """

    descriptors: int = 1_000_000
    local_ports: int = 28_232


class Placement(Artefact):
    """placement.json: machine → shares, which cores each side has, and how many connections there is room for."""

    FORMAT: ClassVar[int] = 1
    machines: dict[str, tuple[str, ...]]
    load_cores: tuple[int, ...]
    server_cores: tuple[int, ...]
    pinned: bool
    room: Room = Room()


def trial_name(case: str, replicate: int) -> str:
    """`TC7.r3`."""
    return f"{case}.r{replicate}"
