"""Planted faults for demonstrations (`svload demo --plant`): exactly the planted trials must become REFUSED.

They are written into the lock, so every page of the run shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from svload.model.errors import fail
from svload.model.executors import ClosedLoop, ThinkTime
from svload.model.messages import Signal
from svload.model.study import Case, CaseConfig, Lock
from svload.model.traffic import Group

NO_HITS, GENERATOR_LIMITED, TOO_SHORT = "no-hits", "generator-limited", "too-short"
FAULTS = {
    NO_HITS: "the cache is set to store nothing, so hits can't hit",
    GENERATOR_LIMITED: "the generators are stopped for 60 ms in every 100 ms",
    TOO_SHORT: "users think longer than the trial lasts, so nothing is left after their first cycle",
}
STOPPED_NS, PERIOD_NS = 60_000_000, 100_000_000


def plant(lock: Lock, fault: str, resolve: Callable[[Lock, Case], CaseConfig]) -> Lock:
    """Return `lock` with `fault` planted in one case: the last valid one that the fault can affect. Raise
    SvloadError usage."""
    if fault not in FAULTS:
        raise fail(
            "usage", reason=f"There is no planted fault “{fault}”", hint=f"Known: {', '.join(FAULTS)}."
        )
    fitting = [case for case in lock.valid_cases if _fits(fault, resolve(lock, case))]
    if not fitting:
        reason = f"none of the chosen cases can show “{fault}”"
        raise fail("usage", reason=reason, hint="Plant it in svload demo without --only.")
    return lock.model_copy(update={"plants": {fitting[-1].name: fault}})


def _fits(fault: str, config: CaseConfig) -> bool:
    if fault == NO_HITS:
        return any("hit_ratio >" in expect for expect in config.expects)
    return True


def planted_config(config: CaseConfig, fault: str | None) -> CaseConfig:
    """Return the case, with changed traffic if the fault is one of traffic."""
    if fault != TOO_SHORT:
        return config
    lasts_ns = config.measure.duration_ns
    return config.model_copy(update={"groups": tuple(_slow(group, lasts_ns) for group in config.groups)})


def _slow(group: Group, duration_ns: int) -> Group:
    if not isinstance(group.executor, ClosedLoop):
        return group
    think = ThinkTime(constant_ns=4 * duration_ns)
    return group.model_copy(update={"executor": group.executor.model_copy(update={"think_time": think})})


@dataclass
class Pulses:
    """Stops and continues children by the clock; the offset alone decides which signal is due."""

    children: Sequence[str]
    stopped: bool = False

    def due(self, offset_ns: int, end_ns: int) -> list[Signal]:
        """Return the signals to send at `offset_ns` so that children are stopped in the first part of each
        period until `end_ns`."""
        want = 0 <= offset_ns < end_ns and offset_ns % PERIOD_NS < STOPPED_NS
        if want == self.stopped:
            return []
        self.stopped = want
        return [Signal(child=child, signal="STOP" if want else "CONT") for child in self.children]
