"""Whose doing a disturbance was: the processes that used most CPU in its moments, as
the monitor of others named them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from svload.analysis.disturbances import Disturbance, Spans, spans, united
from svload.analysis.readings import Monitors, of_monitor
from svload.analysis.whose import called

_NAMED = 3
_LOOK_NS = 1e9


class User(NamedTuple):
    """A process and the CPU that it used."""

    name: str
    """as the monitor told it: name, user and command where they are known"""
    pid: str
    seconds: float

    def __str__(self) -> str:
        return f"{called(self.name)} ({self.seconds:.2g} s of CPU, process {self.pid})"


def busiest(monitors: Monitors, moments: Spans) -> list[User]:
    """The processes that used most in these moments; each reading tells of the time since the one before."""
    if not moments:
        return []
    found = []
    begins, ends = (np.array(side, dtype=float) for side in zip(*moments, strict=True))
    for process, series in of_monitor(monitors, "others", "cpu_seconds").items():
        latest = np.searchsorted(begins, series.at) - 1
        # A process is told only where it used something, so that the look before may be far away.
        inside = (latest >= 0) & (series.at - _LOOK_NS < ends[np.maximum(latest, 0)])
        name, _, pid = process.rpartition(" ")
        found.append(User(name, pid, float(series.values[inside].sum())))
    return sorted((one for one in found if one.seconds > 0), key=lambda one: -one.seconds)[:_NAMED]


def in_moments(monitors: Monitors, moments: Sequence[Disturbance]) -> str:
    """The process that used most in them; empty where none did, or nobody looked."""
    most = busiest(monitors, united(spans(moments)))[:1] if moments else []
    return str(most[0]) if most else ""
