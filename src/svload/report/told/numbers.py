"""What is told of a run's numbers: a row a number, the same for terminal, page, workbook,
Markdown and OpenMetrics. Pure.

Rows are made from structured fields alone: a number's value, interval, grade, bound, and the code of why it
is null. What analysis says in sentences is shown as it is and never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from svload.model.results import CaseResult, Estimate, Findings, Grade, TrialResult, Why
from svload.model.units import Dimension, rounded
from svload.report.told.causes import cause
from svload.report.told.spelling import (
    FEW_MARK,
    GRADE_MARK,
    MOST_PERCENT,
    NONE,
    dimension_of,
    list_words,
    main_group,
    show_bracket,
    show_interval,
    show_value,
    split_metric,
)

_SHORT: dict[Why, str] = {
    "": NONE,
    "too few": "too few",
    "time-out": "failed",
    "not recovered": "not recovered",
    "in stages": "in stages",
    "grows": "grows",
    "correlated": "correlated",
    "pooled": "too few",
    "no request": "no request",
    "not measured": "not measured",
    "refused": "refused",
    "null in a run": "not in all",
    "no looks-up": "no look-ups",
    "no ratio": "no ratio",
}
"""Why a number is null, in a cell."""


def short_why(why: Why) -> str:
    """The code of a null in a word or two, for a cell."""
    return _SHORT[why]


def mark_of(grade: Grade, thin: bool) -> str:
    """What stands beside a number of this grade; `thin`: few requests carry it, or it grows with the run's length."""
    if grade in ("REFUSED", "WEAK"):
        return GRADE_MARK[grade]
    return FEW_MARK if thin else ""


_GRADE_WORDS: dict[Grade, str] = {"VALID": "sound", "WEAK": "rough", "REFUSED": "not usable"}
_LEAST_SHOWN = 0.0005
"""A bound below 0.05 % is none that anybody reads."""


@dataclass(frozen=True)
class Number:
    """One number as every output tells it. `value`, `low`, `high` in base units; `value` None: `why` says why.

    `believed` of `made` are the trials whose value of it counts, of those that were made; of a
    trial's own number 1 of 1, or 0 of 1.
    """

    key: str
    value: float | None
    low: float | None
    high: float | None
    grade: Grade
    below: float | None
    above: float | None
    few: bool
    why: Why
    need: int | None
    n: int
    n_eff: float | None
    believed: int
    made: int
    doubts: tuple[str, ...] = ()
    as_measured: float | None = None
    note: str = ""
    """What analysis says of it in words, to be shown beside it."""

    @property
    def dimension(self) -> Dimension:
        """What it is measured in."""
        return dimension_of(self.key)

    @property
    def refused(self) -> bool:
        """It counts nowhere: it is drawn hatched and enters no comparison."""
        return self.grade == "REFUSED"

    @property
    def mark(self) -> str:
        """`✗` REFUSED, `~` WEAK, `°` carried by few requests, `` for one to believe."""
        return mark_of(self.grade, self.thin)

    @property
    def weak(self) -> bool:
        """It counts, with a doubt: WEAK, few requests carry it, or it grows with the run's length."""
        return not self.refused and (self.grade == "WEAK" or self.thin)

    @property
    def thin(self) -> bool:
        """Few requests carry it, or it grows with the run's length."""
        return self.few or self.why == "grows"

    @property
    def text(self) -> str:
        """Value and unit, without a mark; why there is none."""
        if self.shown is None:
            return _SHORT[self.why]
        return show_value(self.shown, self.dimension)

    @property
    def shown(self) -> float | None:
        """What is drawn: the value; of a REFUSED number without one what was measured, hatched."""
        return self.as_measured if self.value is None and self.refused else self.value

    @property
    def interval(self) -> str:
        """`[2.0, 2.3]` in the value's unit; "" without one."""
        return show_bracket(self._estimate, self.dimension)

    @property
    def whole(self) -> str:
        """`2.1 ms [2.0, 2.3]`, without a mark."""
        if self.value is None:
            return self.text
        return show_interval(self._estimate, self.dimension)

    @property
    def _estimate(self) -> Estimate:
        return Estimate(value=self.value, low=self.low, high=self.high)

    @property
    def marked(self) -> str:
        """`2.1 ms ~`."""
        return f"{self.text} {self.mark}".rstrip()

    @property
    def bounded(self) -> bool:
        """Whether a check says that the true value may lie elsewhere."""
        return self.value is not None and any(
            bound is None or bound >= _LEAST_SHOWN for bound in (self.below, self.above)
        )

    @property
    def bound(self) -> str:
        """`−3 to +12 %`: how far the true value may lie from this one; "" where no check bounds it."""
        return bound_words(self.below, self.above) if self.bounded else ""

    @property
    def counted(self) -> str:
        """`6/15`: the trials that count of those that were made."""
        return f"{self.believed}/{self.made}"

    @property
    def why_words(self) -> str:
        """Why it is null, marked or bounded, in one line; "" where there is nothing to say."""
        told = [self.note] if self.note else []
        if self.value is None and self.why == "refused":
            told = [f"{self.made - self.believed} of {self.made} trials are broken"]
        if self.grade != "VALID":
            why = f": {list_words([cause(check) for check in self.doubts])}" if self.doubts else ""
            told.append(f"{_GRADE_WORDS[self.grade]}{why}")
        if self.bound:
            told.append(f"true value: {self.bound}")
        if self.few and self.value is not None and not self.need:
            told.append("based on few requests")
        if self.as_measured is not None:
            told.append(f"measured: {show_value(self.as_measured, self.dimension)}")
        return "; ".join(told)


_ALL_OF_IT = 0.995
"""A bound that leaves nothing of the value is none below it."""


def bound_words(below: float | None, above: float | None) -> str:
    """`−3 to +12 %`, `up to +12 %`, `±5 %`, `no bound below, up to 620 times`: from shares."""
    if below is None or above is None:
        return "off by an unknown amount"
    low, high = rounded(100 * below, 2), rounded(100 * above, 2)
    most = f"{rounded(1 + above, 2)} times" if above > MOST_PERCENT else f"+{high} %"
    if below < _LEAST_SHOWN:
        return f"up to {most}"
    if below >= _ALL_OF_IT:
        return "no bound below" + (f", up to {most}" if above >= _LEAST_SHOWN else "")
    if above < _LEAST_SHOWN:
        return f"up to −{low} %"
    if above > MOST_PERCENT:
        return f"−{low} % to {most}"
    return f"±{high} %" if low == high else f"−{low} to +{high} %"


def number_of(key: str, estimate: Estimate | None, believed: int = 1, made: int = 1) -> Number:
    """The row of an estimate of the metric of that full name; None: it was not measured."""
    found = estimate or Estimate(value=None, why="not measured")
    belief, (low, high) = found.belief, found.within
    return Number(
        key=key,
        value=found.value,
        low=low,
        high=high,
        grade="REFUSED" if found.value is None and found.why == "refused" else found.grade,
        below=belief.below if belief else 0.0,
        above=belief.above if belief else 0.0,
        few=found.weak,
        why=found.why,
        need=found.need,
        n=found.n,
        n_eff=found.n_eff,
        believed=believed,
        made=made,
        doubts=belief.doubts if belief else (),
        as_measured=belief.as_measured if belief else None,
        note=found.reason,
    )


class Told:
    """The numbers of a run's findings, a row each; made once, read by all that print them."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._trials: dict[str, list[TrialResult]] = {}
        for trial in findings.trials:
            self._trials.setdefault(trial.case, []).append(trial)
        checks = (check for trial in findings.trials for check in trial.verdict.checks)
        self._by_number = any(check.harms for check in checks)
        """Whether checks name the numbers that they doubt; where none does, a trial's
        verdict is that of all its numbers."""

    @cached_property
    def group(self) -> str:
        """The traffic group that is told first."""
        return main_group(self.findings)

    def trials(self, case: CaseResult) -> list[TrialResult]:
        return self._trials.get(case.case, [])

    def of_trial(self, trial: TrialResult, key: str) -> Number:
        """A trial's own number."""
        found = self._graded(number_of(key, trial.metrics.get(key)), trial.verdict.instrument)
        return replace(found, believed=int(not found.refused and found.value is not None))

    def of_case(self, case: CaseResult, key: str) -> Number:
        """A case's number, with how many of its trials carry it."""
        trials = self.trials(case)
        found = self._graded(number_of(key, case.metrics.get(key)), case.instrument or "VALID")
        own = (self.of_trial(trial, key) for trial in trials if key in trial.metrics)
        return replace(found, believed=sum(not one.refused for one in own), made=len(trials))

    def counts(self, case: CaseResult, key: str) -> tuple[str, ...]:
        """The trials whose value of it enters the case's; none where that is REFUSED."""
        if self.of_case(case, key).refused:
            return ()
        return tuple(one.trial for one in self.trials(case) if self.of_trial(one, key).believed)

    def _graded(self, found: Number, verdict: Grade) -> Number:
        return found if self._by_number or found.refused else replace(found, grade=verdict)


def too_few_rule(numbers: Iterable[Number]) -> str:
    """What its percentiles lack, once for a table; "" where no number is short of requests."""
    needs = {split_metric(one.key)[2]: one.need for one in numbers if one.need}
    if not needs:
        return ""
    ordered = sorted(needs.items(), key=lambda one: one[1] or 0)
    told = list_words([f"{need:,} for {stat}" for stat, need in ordered])
    return f"{FEW_MARK} few: its interval needs this many independent requests in each trial: {told}."


def marks_rule(numbers: Sequence[Number]) -> str:
    """What the marks in a table mean, if there are any."""
    return meaning_of({one.mark for one in numbers}, any(one.why == "grows" for one in numbers))


def meaning_of(marks: Iterable[str], grows: bool = False) -> str:
    """What these marks mean, in a line; "" without any. `grows`: a number does with the run's length."""
    told = {
        GRADE_MARK["WEAK"]: "~ WEAK: rough, its range includes the disturbance",
        FEW_MARK: "° based on few requests" + (", or grows with the run's length" if grows else ""),
        GRADE_MARK["REFUSED"]: "✗ REFUSED: broken, not used",
    }
    found = set(marks)
    return ", ".join(words for mark, words in told.items() if mark in found)
