"""How the clock of a fleet's machine stood in a trial."""

from __future__ import annotations

from svload.model.base import Frozen


class MachineClock(Frozen):
    """One machine that made load: its monotonic clock minus the controller's, over the whole load."""

    machine: str
    """as the inventory names it"""
    site: str = ""
    """its site in the inventory"""
    here: bool = False
    """it is the controller's own machine"""
    offset_ns: int
    """the middle of what its stamps allow"""
    bound_ns: int
    """how far it may be off: both measurements, before and after, lie within"""
    start_offset_ns: int
    """the offset by which it was told when to begin, measured just before"""
    round_trip_ns: int
    """of the quickest exchange"""
