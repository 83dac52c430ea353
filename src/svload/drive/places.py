"""How many requests of an open loop may be in progress (`max_vus`): from the study, else by rule."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from svload.drive.packing import MANY_CORES
from svload.model.bounds import VUS
from svload.model.executors import OpenLoop
from svload.model.plan import Room
from svload.model.traffic import Group

RESERVE = 64
"""Descriptors of a generator, and local ports of the machine, reserved for everything else."""
ROOMY = Room()
"""Linux's own limits for root, for a machine of which nothing is known."""


class Places(NamedTuple):
    """The number of places of an open group over all its generators, and what determined it, in words."""

    most: int
    because: str


def places_of(group: Group, room: Room, cores: int = MANY_CORES) -> Places | None:
    """Return min(rate × timeout, descriptors − reserve) if the study sets nothing; None for a closed loop,
    whose users are its places.

    No more can be in progress, apart from chance in Poisson arrivals. Local ports bound it too: a connection
    to one address takes one of each, and a request that finds none would fail because of the generator
    instead of waiting for the server. `cores` are those of the load: generators beyond them share a process,
    and its descriptors.
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
        "the engine's maximum": VUS.most,
    }
    because = min(bounds, key=lambda bound: bounds[bound])
    return Places(max(bounds[because], group.generators), because)
