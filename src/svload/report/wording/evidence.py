"""How near each limit was and what was refused, from what the monitors declared, in the words shared by every
output. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from svload.analysis.evidence import first_to_fail, owner, what_failed
from svload.model.evidence import (
    CaseEvidence,
    CaseLimit,
    CaseRefusal,
    Evidence,
    LimitState,
    LimitUse,
    RefusalCount,
)
from svload.model.results import Estimate, TrialResult
from svload.model.units import rounded, show_duration, show_rate, show_size
from svload.report.wording.spelling import show_share

STATE_MARK: dict[LimitState, str] = {"reached": "●", "approached": "◐", "clear": "○"}
_ORDER: tuple[LimitState, ...] = ("reached", "approached", "clear")
_BECAME = {"refused": "refused", "lost": "lost", "failed": "failed", "waited": "delayed"}


@dataclass(frozen=True)
class LimitLine:
    """One limit and how much of it was in use."""

    state: LimitState
    what: str
    share: str
    """mean of used over limit"""
    peak: str
    of: str
    """the limit itself"""
    first: str
    """when it was first full; empty if never"""
    trials: str
    """the number of the case's trials that reached it; empty for one trial"""

    @property
    def text(self) -> str:
        """`● accept queue of cache (8080): 62 % of 128 on average, 101 % at most, first full 2.1 s into the load`."""
        first = f", first full {self.first} into the load" if self.first else ""
        trials = f", reached in {self.trials}" if self.trials else ""
        return (
            f"{STATE_MARK[self.state]} {self.what}: {self.share} of {self.of} on average, {self.peak} at "
            f"most{first}{trials}"
        )


@dataclass(frozen=True)
class RefusalLine:
    """One counter that increased."""

    what: str
    count: str
    """for a trial, or on average over a case's trials"""
    became: str
    first: str
    trials: str
    """the number of the case's trials in which it increased; empty for one trial"""

    @property
    def text(self) -> str:
        """`cache: 618 sessions dropped for a full queue (turned away), first 2.4 s into the load`."""
        trials = f", in {self.trials}" if self.trials else ""
        return f"{self.what}: {self.count} ({self.became}), first {self.first} into the load{trials}"


def limit_lines(limits: Iterable[LimitUse | CaseLimit], clear: bool = True) -> list[LimitLine]:
    """Return the limits, nearest to full first; `clear=False` leaves out those that were never near."""
    kept = [one for one in limits if clear or one.state != "clear"]
    return [_limit(one) for one in sorted(kept, key=lambda one: (_ORDER.index(one.state), -one.share))]


def _limit(one: LimitUse | CaseLimit) -> LimitLine:
    trials = ""
    if isinstance(one, CaseLimit) and one.reached:
        trials = f"{one.reached} of {one.trials} trials"
    return LimitLine(
        state=one.state,
        what=owner(one.name, one.service, one.entity),
        share=show_share(one.share, 3),
        peak=show_share(one.peak_share, 3),
        of=_amount(one),
        first="" if one.first_s is None else show_duration(one.first_s),
        trials=trials,
    )


def _amount(one: LimitUse | CaseLimit) -> str:
    """Return the limit itself, of bytes with its unit."""
    metric = _compared().get((one.monitor, one.name), "")
    if metric.endswith("_bytes"):
        return show_size(one.limit)
    return show_rate(one.limit) if metric.endswith("_bytes_total") else rounded(one.limit, 4)


@cache
def _compared() -> dict[tuple[str, str], str]:
    """Return (monitor, limit's name) → the metric that is compared with the limit."""
    from svload.watch import load_monitors

    return {(monitor.name, one.name): one.used for monitor in load_monitors() for one in monitor.limits}


def refusal_lines(refusals: Iterable[RefusalCount | CaseRefusal]) -> list[RefusalLine]:
    """Return the counters that increased, earliest first."""
    return [_refusal(one) for one in refusals]


def _refusal(one: RefusalCount | CaseRefusal) -> RefusalLine:
    of_case = isinstance(one, CaseRefusal)
    return RefusalLine(
        what=owner("", one.service, one.entity),
        count=f"{rounded(one.count, 4)} {one.means}" + (" per trial" if of_case else ""),
        became=_BECAME[one.kind],
        first=show_duration(one.first_s),
        trials=f"{one.moved} of {one.trials} trials" if isinstance(one, CaseRefusal) else "",
    )


def evidence_lines(evidence: Evidence | CaseEvidence, clear: bool = False) -> list[str]:
    """Return all lines of text: limits that are near, then counters that increased."""
    lines = [line.text for line in limit_lines(evidence.limits, clear)]
    return lines + [line.text for line in refusal_lines(evidence.refusals)]


def gave_way(evidence: CaseEvidence) -> Sequence[str]:
    """Return what failed first, then next, in words; empty if nothing did."""
    return [what_failed(one) for one in first_to_fail(evidence)]


@dataclass(frozen=True)
class FaultLine:
    """A planned fault of a case over its trials. Times are texts, from the load's start."""

    what: str
    planned: str
    begun: str
    took: str
    recovery: tuple[tuple[str, str], ...]
    """traffic group, how soon it recovered"""


def fault_lines(trial: TrialResult) -> Iterator[str]:
    """Yield a sentence for each planned fault of a trial."""
    for one in trial.faults:
        back = [f"{group} {_back(found)}" for group, found in one.recovery.items()]
        yield f"{one.sentence} {'; '.join(back)}".rstrip()


def _back(found: Estimate) -> str:
    if found.value is None:
        return f"was not back ({found.reason})"
    return f"was back after {show_duration(found.value)}" if found.value else "was never off its level"


def fault_table(trials: Sequence[TrialResult]) -> list[FaultLine]:
    """Return the planned faults of a case: the median over its trials, with the range if they differ."""
    first = next((trial.faults for trial in trials if trial.faults), ())
    lines = []
    for number, one in enumerate(first):
        mine = [trial.faults[number] for trial in trials if len(trial.faults) == len(first)]
        begun = [each.begun_s for each in mine if each.begun_s is not None]
        took = [
            each.done_s - each.begun_s
            for each in mine
            if each.done_s is not None and each.begun_s is not None
        ]
        back = tuple(
            (group, _over_trials([each.recovery[group] for each in mine if group in each.recovery]))
            for group in one.recovery
        )
        lines.append(FaultLine(one.what, show_duration(one.planned_s), _range(begun), _range(took), back))
    return lines


def _over_trials(found: Sequence[Estimate]) -> str:
    known = [one.value for one in found if one.value is not None]
    lost = len(found) - len(known)
    if not known:
        return found[0].reason if found else "–"
    return _range(known) + (f", not in {lost} of {len(found)}" if lost else "")


def _range(values: Sequence[float]) -> str:
    if not values:
        return "not reached"
    low, middle, high = (show_duration(value) for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
