"""The plan: batches of trials, fixed before their first trial and never edited; and where its shares run."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact, Frozen


class Point(Frozen):
    """What a batch decides about a trial besides its case, fixed when the batch is written."""

    values: dict[str, int | float] = {}
    """open factor → its value; empty: the study has none"""
    duration_ns: int | None = None
    """length of its load after its ramps; null: as in the lock"""


class TrialPlan(Frozen):
    """One replicate of a case."""

    trial: str
    """its name, case and replicate: TC7.r3"""
    case: str
    """the case, as in the lock"""
    replicate: int
    """from 1; a trial that replaces a refused one has the next number"""
    block: int
    """from 1: the set of trials with every case once"""
    position: int
    """from 0: its place in the order of the run"""
    seed: int
    """of everything random in its load: due times, think times, rows, bodies"""
    whole_plot: int = 0
    """from 0: the bring-up that it belongs to; 0 for all if nothing needs a restart"""
    restart: bool = False
    """services are started again before it"""
    instead_of: str | None = None
    """the trial that it replaces, since that one or its partner was REFUSED; null: of the first batch"""
    at: Point = Point()
    """values of open factors, and the measured time"""
    serves: tuple[str, ...] = ()
    """names of the claims that it counts for; empty: for everything"""


class Batch(Artefact):
    """plan/NNN.json: trials in the order they run. `decided_from` maps sealed trials to the seal hashes that
    were read."""

    FORMAT: ClassVar[int] = 1
    number: int
    """from 0, as in the file's name"""
    because: str
    """why these trials and this order, in words"""
    trials: tuple[TrialPlan, ...]
    """in the order they run"""
    decided_from: dict[str, str] = {}
    """sealed trial → SHA-256 of the seal.json that was read; empty for the first batch"""


class Room(Frozen):
    """How many connections a machine can hold: open files of each generator, and local ports for one address.

    The defaults are Linux's own for root.
    """

    descriptors: int = 1_000_000
    """open files that each generator may have"""
    local_ports: int = 28_232
    """local ports for connections to one address and port"""


class Placement(Artefact):
    """placement.json: machine → shares, which cores each side has, and how many connections there is room for."""

    FORMAT: ClassVar[int] = 1
    machines: dict[str, tuple[str, ...]]
    """machine → names of the shares that run on it"""
    load_cores: tuple[int, ...]
    """numbers of the cores that make load"""
    server_cores: tuple[int, ...]
    """numbers of the cores that run servers"""
    pinned: bool
    """load and servers are pinned to their cores; false: too few cores to separate them"""
    room: Room = Room()
    """how many connections the machine can hold"""
    sites: dict[str, str] = {}
    """machine → its site, for a fleet with sites"""
    apart: bool = False
    """load is made on other machines than those of the servers"""


def trial_name(case: str, replicate: int) -> str:
    """Return `TC7.r3`."""
    return f"{case}.r{replicate}"
