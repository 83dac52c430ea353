"""What one trial says of a claim's number: its value, whether it may be believed, by how much it may be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log1p
from typing import Literal

from svload.analysis import limits
from svload.model.results import Estimate, Grade, TrialResult

BY_SIZE = ("generator-harm",)
"""Checks whose limit depends on how large the number is: the same delay harms a short answer more than a
long one. All other limits are shares of a window, of requests or of a rank, or mark a number and never
refuse it (docs/method.md §3)."""
State = Literal["number", "refused", "time-out", "no number", "missing"]


@dataclass(frozen=True)
class Number:
    """One side of a pair. `below`, `above`: how far the true logarithm may lie from the
    value's, 0 where no check bounds it. `left_out`: share of the requests that it does not count, since they
    were due in disturbed moments; `as_measured`: its value with these, None where none were left out.
    """

    trial: str
    case: str
    state: State
    grade: Grade = "VALID"
    value: float | None = None
    below: float = 0.0
    above: float = 0.0
    bounded: bool = False
    checks: tuple[str, ...] = ()
    reason: str = ""
    n: int = 0
    few: bool = False
    left_out: float = 0.0
    as_measured: float | None = None


def number_of(trial: TrialResult | None, case: str, name: str) -> Number:
    """The number `name` of a trial; of None a missing one."""
    if trial is None:
        return Number("", case, "missing", reason=f"no trial of {case}")
    estimate = trial.metrics.get(name)
    grade = grade_of(trial, name)
    value = (
        estimate.value if estimate is not None and estimate.value is not None and estimate.value > 0 else None
    )
    below, above, bounded = _log_bounds(estimate)
    state: State = "number"
    reason = ""
    checks: tuple[str, ...] = ()
    if grade == "REFUSED":
        checks = _refusing(trial, name)
        state, reason = "refused", f"{trial.trial} REFUSED{f' ({checks[0]})' if checks else ''}"
    elif value is None:
        state = "time-out" if timed_out(estimate) else "no number"
        reason = f"{trial.trial}: {_why_none(estimate)}"
    n = estimate.n if estimate is not None else 0
    few = state == "no number" and estimate is not None and estimate.why == "too few"
    belief = estimate.belief if estimate is not None else None
    left_out, as_measured = (belief.left_out, belief.as_measured) if belief is not None else (0.0, None)
    return Number(
        trial.trial, case, state, grade, value, below, above, bounded, checks, reason, n, few, left_out, as_measured
    )  # fmt: skip


def grade_of(trial: TrialResult, name: str) -> Grade:
    """The number's own grade; of a trial in which no number has one, the trial's."""
    estimate = trial.metrics.get(name)
    if any(one.belief is not None for one in trial.metrics.values()):
        return estimate.grade if estimate is not None else trial.verdict.instrument
    return trial.verdict.instrument


def counts_of(trial: TrialResult, name: str) -> float | None:
    """A share or a count, which is judged whatever disturbed the times; None where it is null, or itself REFUSED."""
    estimate = trial.metrics.get(name)
    if estimate is None or estimate.grade == "REFUSED":
        return None
    return estimate.value


def timed_out(estimate: Estimate | None) -> bool:
    """So many failed that the number lies beyond the time-out: worse than any number."""
    return estimate is not None and estimate.value is None and estimate.why in ("time-out", "not recovered")


def too_harmed(trial: TrialResult, name: str, slower: float, faster: float) -> tuple[str, ...]:
    """The checks that would refuse the slower side's number if it were as small as the
    faster side's (docs/method.md §2).

    A check's bound, a share of the slower value, is taken as the time that it is and held against the faster value.
    """
    found = []
    for check in trial.verdict.checks:
        if check.check not in BY_SIZE:
            continue
        shares = [share for harm in check.harms if harm.number == name for share in (harm.below, harm.above) if share is not None]  # fmt: skip
        if shares and max(shares) * slower / faster > limits.OWN_DOING:
            found.append(check.check)
    return tuple(found)


def _log_bounds(estimate: Estimate | None) -> tuple[float, float, bool]:
    belief = estimate.belief if estimate is not None else None
    if belief is None:
        return 0.0, 0.0, False
    below = 0.0 if belief.below is None else -log1p(-belief.below) if belief.below < 1 else inf
    above = 0.0 if belief.above is None else log1p(belief.above)
    return below, above, belief.below is not None and belief.above is not None


def _refusing(trial: TrialResult, name: str) -> tuple[str, ...]:
    estimate = trial.metrics.get(name)
    if estimate is not None and estimate.belief is not None and estimate.belief.doubts:
        return estimate.belief.doubts
    return tuple(check.check for check in trial.verdict.checks if check.grade == "REFUSED")


def _why_none(estimate: Estimate | None) -> str:
    if estimate is None:
        return "it was not measured"
    return estimate.reason if estimate.value is None else "its value is 0, which has no ratio"


def by_place(trials: Mapping[str, TrialResult]) -> dict[tuple[str, int], list[TrialResult]]:
    """(case, block) → its trials, in the order of their replicates."""
    found: dict[tuple[str, int], list[TrialResult]] = {}
    for trial in sorted(trials.values(), key=lambda one: one.replicate):
        found.setdefault((trial.case, trial.block), []).append(trial)
    return found
