"""A trial's clock: begin and end of load and kept window, and the interval width of its series. Pure.

Times are load time, which stands still between turns, except `turns_ns` and those named real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.model.study import CaseConfig
from svload.model.summaries import GroupSummary

if TYPE_CHECKING:
    from svload.analysis.turn_plan import Turn

MSER_OBSERVATIONS = 600
"""docs/method.md §1: the interval is duration/600, at most 1 s, so that MSER-5 has enough observations."""
MIN_INTERVAL_NS = 1_000_000
WORK_INTERVAL_NS = 100_000_000
"""The widest interval if all load is a fixed amount of work, whose end is not known in advance."""


@dataclass(frozen=True)
class Timeline:
    """A trial's clock in ns from its start: load begins at 0, kept window is [ramp, end), then the drain.

    `turns_ns` are the only times with load; empty: there always is load.
    """

    ramp_ns: int
    duration_ns: int
    work_only: bool = False
    turns_ns: tuple[Turn, ...] = ()

    @property
    def end_ns(self) -> int:
        """Return when nothing new is due any more."""
        return self.ramp_ns + self.duration_ns

    @property
    def real_end_ns(self) -> int:
        """Return the end in real time."""
        return self.turns_ns[-1][1] if self.turns_ns else self.end_ns

    def load_ns(self, real_ns: int) -> int:
        """Return the load time that has passed at a moment of real time."""
        if not self.turns_ns:
            return real_ns
        return sum(max(0, min(real_ns, end_ns) - begin_ns) for begin_ns, end_ns in self.turns_ns)

    def until(self, stopped_ns: int) -> tuple[int, int]:
        """Return the kept window of a load that was stopped at a moment of real time: whole intervals, none
        if it was still in its ramp."""
        whole_ns = self.load_ns(stopped_ns) // self.interval_ns * self.interval_ns
        return self.ramp_ns, max(self.ramp_ns, min(self.end_ns, whole_ns))

    @property
    def interval_ns(self) -> int:
        """Return the width of the series' intervals. It divides a turn evenly."""
        if self.turns_ns:
            begin_ns, end_ns = self.turns_ns[0]
            return (end_ns - begin_ns) // limits.TURN_INTERVALS
        widest = WORK_INTERVAL_NS if self.work_only else 1_000_000_000
        return max(MIN_INTERVAL_NS, min(widest, self.duration_ns // MSER_OBSERVATIONS))


def timeline(config: CaseConfig, duration_ns: int) -> Timeline:
    """Return the trial's timeline: ramps first, then `duration_ns`."""
    work_only = all(group.executor.shape == "finite" for group in config.groups)
    return Timeline(config.ramp_ns, duration_ns, work_only)


def shortened(
    times: Timeline, groups: Sequence[GroupSummary]
) -> tuple[tuple[int, int], tuple[GroupSummary, ...]]:
    """Return the kept window and the groups' totals over it.

    If all load is a fixed amount of work that was done before its time was over, the window ends with the
    interval of the last answer. Nothing was in flight after that, so a time average over the shorter window
    is the same area over less time.
    """
    window_ns = (times.ramp_ns, times.end_ns)
    last_ns = max((group.last_done_ns for group in groups), default=-1)
    if not (times.work_only and last_ns >= 0 and all(group.plan_done for group in groups)):
        return window_ns, tuple(groups)
    end_ns = min(
        times.end_ns,
        times.ramp_ns + (-(-(last_ns + 1 - times.ramp_ns) // times.interval_ns)) * times.interval_ns,
    )
    stretch = (times.end_ns - times.ramp_ns) / (end_ns - times.ramp_ns)
    return (times.ramp_ns, end_ns), tuple(
        group.model_copy(update={"in_flight_mean": group.in_flight_mean * stretch}) for group in groups
    )
