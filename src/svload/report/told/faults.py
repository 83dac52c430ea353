"""Planned faults in the words shared by every page: what was done when, and how soon each group recovered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from svload.model.results import Estimate, TrialResult
from svload.model.units import show_duration


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
