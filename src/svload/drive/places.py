"""How many requests of an open loop may be under way at once (`max_vus`): as the study
says, else by a rule of its own."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from svload.drive.packing import MANY_CORES
from svload.model.bounds import VUS
from svload.model.executors import OpenLoop
from svload.model.plan import Room
from svload.model.traffic import Group

RESERVE = 64
"""Descriptors of a generator, and local ports of the machine, that are left to everything else."""
ROOMY = Room()
"""Linux's own limits for root, where nothing is known of the machine."""


class Places(NamedTuple):
    """How many places an open group has over all its generators, and what decided it, in words."""

    most: int
    because: str


def places_of(group: Group, room: Room, cores: int = MANY_CORES) -> Places | None:
    """min(rate × timeout, descriptors − reserve) where the study says nothing; None for a closed
    loop, whose users are its places.

    No more than that many can be under way, chance in Poisson arrivals apart. Beyond that rule the local
    ports bound it too: a connection to one address takes one of each, and a request that finds none would
    fail by the generator's doing instead of waiting for the server's. `cores` are those of the load:
    generators beyond them share a process, and its descriptors.
    """
    executor = group.executor
    if not isinstance(executor, OpenLoop):
        return None
    if executor.max_vus is not None:
        return Places(executor.max_vus, "as the study says")
    bounds = {
        "rate × timeout": ceil(executor.peak_rps * group.longest_iteration_ns / 1e9),
        "the generators' descriptors": min(group.generators, cores) * (room.descriptors - RESERVE),
        "this machine's local ports": room.local_ports - RESERVE,
        "what the engine takes": VUS.most,
    }
    because = min(bounds, key=lambda bound: bounds[bound])
    return Places(max(bounds[because], group.generators), because)
