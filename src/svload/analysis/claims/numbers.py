"""One trial's number for a claim: its value, the same without the generator's delays, and whether the trial
is what its case says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, log1p
from typing import Literal

from svload.model.results import Estimate, Grade, TrialResult

State = Literal["number", "lost", "time-out", "no number", "missing"]


@dataclass(frozen=True)
class Number:
    """One side of a pair. `lag`: how much lower the logarithm is without the generator's own delays."""

    trial: str
    case: str
    state: State
    value: float | None = None
    lag: float = 0.0
    strangers: float | None = None
    checks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def log(self) -> float:
        """The value's logarithm; only valid for a number."""
        assert self.value is not None
        return log(self.value)


def number_of(trial: TrialResult | None, case: str, name: str, randomised: bool) -> Number:
    """Return the number `name` of a trial; a missing one for None.

    What strangers did to a trial of randomised blocks never removes its pair: only what chance cannot explain
    (a clock that was set: missing), and what the treatment may have done (another case than its name says, a
    load that was not made: lost). Trials that ran as listed have no such protection: there a REFUSED number
    is lost.
    """
    if trial is None:
        return Number("", case, "missing", reason=f"no trial of {case}")
    estimate = trial.metrics.get(name)
    value = _as_measured(estimate)
    lost, missing = _failing(trial, name) if randomised else (_refusing(trial, name), ())
    if checks := lost or missing:
        told = f"{trial.trial} is {'broken' if lost else 'void'} ({checks[0]})"
        return Number(trial.trial, case, "lost" if lost else "missing", value, checks=checks, reason=told)
    if value is None:
        state: State = "time-out" if timed_out(estimate) else "no number"
        return Number(trial.trial, case, state, reason=f"{trial.trial}: {_why_none(estimate)}")
    return Number(trial.trial, case, "number", value, _lag(trial, name), trial.strangers)


def _as_measured(estimate: Estimate | None) -> float | None:
    """Return the number of all requests: leaving disturbed moments out of one side alone would compare
    different things."""
    if estimate is None or estimate.value is None:
        return None
    whole = estimate.belief.as_measured if estimate.belief is not None else None
    value = estimate.value if whole is None else whole
    return value if value > 0 else None


def _failing(trial: TrialResult, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (checks by which the number is lost, checks by which it is missing)."""
    from svload.analysis.checks import role_of

    refusing = [one.check for one in trial.verdict.checks if one.measured and one.on(name) == "REFUSED"]
    by_role = {role: tuple(one for one in refusing if role_of(one) == role) for role in ("lost", "missing")}
    return by_role["lost"], by_role["missing"]


def _refusing(trial: TrialResult, name: str) -> tuple[str, ...]:
    if grade_of(trial, name) != "REFUSED":
        return ()
    estimate = trial.metrics.get(name)
    if estimate is not None and estimate.belief is not None and estimate.belief.doubts:
        return estimate.belief.doubts
    return tuple(check.check for check in trial.verdict.checks if check.grade == "REFUSED") or ("verdict",)


def _lag(trial: TrialResult, name: str) -> float:
    """Return by how much the generator's own delays raise the number's logarithm; 0 where that is not
    known."""
    from svload.analysis.checks import role_of

    shares = [
        harm.below
        for check in trial.verdict.checks
        for harm in (check.harms if role_of(check.check) == "lag" else ())
        if harm.number == name and harm.below is not None and harm.below < 1
    ]
    return -log1p(-max(shares)) if shares else 0.0


def grade_of(trial: TrialResult, name: str) -> Grade:
    """Return the number's own grade; for a trial in which no number has one, the trial's."""
    estimate = trial.metrics.get(name)
    if any(one.belief is not None for one in trial.metrics.values()):
        return estimate.grade if estimate is not None else trial.verdict.instrument
    return trial.verdict.instrument


def percentile_of(name: str) -> float:
    """Return the percentile of a metric's full name as a share; for a mean or a rate, that of the median."""
    stat = name.rpartition(".p")[2]
    return float(stat) / 100 if stat.replace(".", "", 1).isdigit() else 0.5


def counts_of(trial: TrialResult, name: str) -> float | None:
    """Return a share or a count, which is judged whatever disturbed the times; None where it is null, or its
    trial lost."""
    estimate = trial.metrics.get(name)
    return None if estimate is None or any(_failing(trial, name)) else estimate.value


def timed_out(estimate: Estimate | None) -> bool:
    """Return whether so many requests failed that the number lies beyond the time-out: worse than any
    number."""
    return estimate is not None and estimate.value is None and estimate.why in ("time-out", "not recovered")


def _why_none(estimate: Estimate | None) -> str:
    if estimate is None:
        return "it was not measured"
    return estimate.reason if estimate.value is None else "its value is 0, which has no ratio"


def by_place(trials: Mapping[str, TrialResult]) -> dict[tuple[str, int], TrialResult]:
    """Return (case, block) → its first trial: repetitions by an older svload after a refused trial are left
    out, since they were chosen by what was measured."""
    found: dict[tuple[str, int], TrialResult] = {}
    for trial in sorted(trials.values(), key=lambda one: one.replicate):
        found.setdefault((trial.case, trial.block), trial)
    return found
