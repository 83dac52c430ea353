"""The clock of a fleet's machine during a trial."""

from __future__ import annotations

from svload.model.base import Frozen


class MachineClock(Frozen):
    """Clock of one machine that made load: its monotonic clock minus the controller's, over the load."""

    machine: str
    """its name in the inventory"""
    site: str = ""
    """its site in the inventory"""
    here: bool = False
    """whether it is the controller's own machine"""
    offset_ns: int
    """the middle of the range that its time stamps allow"""
    bound_ns: int
    """largest error of the offset: the measurements before and after both lie within it"""
    start_offset_ns: int
    """the offset used for its start time, measured just before"""
    round_trip_ns: int
    """round-trip time of the quickest exchange"""
