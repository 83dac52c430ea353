"""Rows that describe a run's numbers, one row per number, shared by terminal, page, workbook, Markdown and
OpenMetrics. Pure.

Rows are made from structured fields alone: a number's value, interval, grade, bound, and the code for why it
is null. Sentences of analysis are shown unchanged and never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from svload.model.results import CaseResult, Estimate, Findings, Grade, TrialResult, Why
from svload.model.units import Dimension, rounded
from svload.report.wording.spelling import (
    FEW_MARK,
    GRADE_MARK,
    MOST_PERCENT,
    NONE,
    cause,
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
"""Short text for a null number in a cell."""


def short_why(why: Why) -> str:
    """Return the code for why a number is null in a word or two, for a cell."""
    return _SHORT[why]


def mark_of(grade: Grade, thin: bool) -> str:
    """Return the marks of a number of this grade; `thin`: few requests support it, or it grows. A REFUSED
    number has no other mark, since it isn't used."""
    rough = GRADE_MARK[grade] if grade in ("REFUSED", "WEAK") else ""
    return rough + (FEW_MARK if thin and grade != "REFUSED" else "")


_GRADE_WORDS: dict[Grade, str] = {"VALID": "sound", "WEAK": "rough", "REFUSED": "not usable"}
_LEAST_SHOWN = 0.0005
"""Bounds below 0.05 % are not shown: nobody reads them."""


@dataclass(frozen=True)
class Number:
    """One number as shown by every output. `value`, `low`, `high` are in base units; if `value` is None,
    `why` gives the reason.

    `believed` of `made` trials have a value that counts; for a trial's own number 1 of 1, or 0 of 1.
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
    """Analysis's note on it, shown beside it."""

    @property
    def dimension(self) -> Dimension:
        """The number's dimension."""
        return dimension_of(self.key)

    @property
    def refused(self) -> bool:
        """Whether it counts nowhere: it is drawn hatched and enters no comparison."""
        return self.grade == "REFUSED"

    @property
    def mark(self) -> str:
        """`✗` REFUSED, `~` WEAK, `°` supported by few requests, `~°` both, `` valid."""
        return mark_of(self.grade, self.thin)

    @property
    def weak(self) -> bool:
        """Whether it counts with a doubt: WEAK, supported by few requests, or growing."""
        return not self.refused and (self.grade == "WEAK" or self.thin)

    @property
    def thin(self) -> bool:
        """Whether few requests support it, or it grows with the run's length."""
        return self.few or self.why == "grows"

    @property
    def text(self) -> str:
        """Value and unit without a mark, or why there is no value."""
        if self.shown is None:
            return _SHORT[self.why]
        return show_value(self.shown, self.dimension)

    @property
    def shown(self) -> float | None:
        """What is drawn: the value; for a REFUSED number without one, the measured value, hatched."""
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
        """Whether a check states that the true value may differ."""
        return self.value is not None and any(
            bound is None or bound >= _LEAST_SHOWN for bound in (self.below, self.above)
        )

    @property
    def bound(self) -> str:
        """`−3 to +12 %`: how far the true value may lie from this one; "" if no check bounds it."""
        return bound_words(self.below, self.above) if self.bounded else ""

    @property
    def counted(self) -> str:
        """`6/15`: trials that count, of all trials made."""
        return f"{self.believed}/{self.made}"

    @property
    def why_words(self) -> str:
        """Why it is null, marked or bounded, in one line; "" if there is nothing to report."""
        texts = [self.note] if self.note else []
        if self.value is None and self.why == "refused":
            texts = [f"{self.made - self.believed} of {self.made} trials are broken"]
        if self.grade != "VALID":
            why = f": {list_words([cause(check) for check in self.doubts])}" if self.doubts else ""
            texts.append(f"{_GRADE_WORDS[self.grade]}{why}")
        if self.bound:
            texts.append(f"true value: {self.bound}")
        if self.few and self.value is not None and not self.need:
            texts.append("based on few requests")
        if self.as_measured is not None:
            texts.append(f"measured: {show_value(self.as_measured, self.dimension)}")
        return "; ".join(texts)


_ALL_OF_IT = 0.995
"""From this share on, a bound leaves nothing of the value and is not shown as a lower bound."""


def bound_words(below: float | None, above: float | None) -> str:
    """Return `−3 to +12 %`, `up to +12 %`, `±5 %`, `no bound below, up to 620 times`, from shares."""
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
    """Return the row for an estimate of the metric `key` (a full name); None means not measured."""
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


class Numbers:
    """The numbers of a run's findings as rows, made once and shared by all outputs."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._trials: dict[str, list[TrialResult]] = {}
        for trial in findings.trials:
            self._trials.setdefault(trial.case, []).append(trial)
        checks = (check for trial in findings.trials for check in trial.verdict.checks)
        self._by_number = any(check.harms for check in checks)
        """Whether checks name the numbers that they doubt; else a trial's verdict applies to all of them."""

    @cached_property
    def group(self) -> str:
        """The traffic group that is shown first."""
        return main_group(self.findings)

    def trials(self, case: CaseResult) -> list[TrialResult]:
        return self._trials.get(case.case, [])

    def of_trial(self, trial: TrialResult, key: str) -> Number:
        """Return a trial's own number."""
        found = self._graded(number_of(key, trial.metrics.get(key)), trial.verdict.instrument)
        return replace(found, believed=int(not found.refused and found.value is not None))

    def of_case(self, case: CaseResult, key: str) -> Number:
        """Return a case's number, with how many of its trials support it."""
        trials = self.trials(case)
        found = self._graded(number_of(key, case.metrics.get(key)), case.instrument or "VALID")
        own = (self.of_trial(trial, key) for trial in trials if key in trial.metrics)
        return replace(found, believed=sum(not one.refused for one in own), made=len(trials))

    def counts(self, case: CaseResult, key: str) -> tuple[str, ...]:
        """Return the trials whose value enters the case's number; none if that is REFUSED."""
        if self.of_case(case, key).refused:
            return ()
        return tuple(one.trial for one in self.trials(case) if self.of_trial(one, key).believed)

    def _graded(self, found: Number, verdict: Grade) -> Number:
        return found if self._by_number or found.refused else replace(found, grade=verdict)


def too_few_rule(numbers: Iterable[Number]) -> str:
    """Return what the percentiles lack, once per table; "" if every number has enough requests."""
    needs = {split_metric(one.key)[2]: one.need for one in numbers if one.need}
    if not needs:
        return ""
    ordered = sorted(needs.items(), key=lambda one: one[1] or 0)
    rule = list_words([f"{need:,} for {stat}" for stat, need in ordered])
    return f"{FEW_MARK} few: its interval needs this many independent requests in each trial: {rule}."


def marks_rule(numbers: Sequence[Number]) -> str:
    """Return what the marks in a table mean, if there are any."""
    return meaning_of({one.mark for one in numbers}, any(one.why == "grows" for one in numbers))


def meaning_of(marks: Iterable[str], grows: bool = False) -> str:
    """Return what these marks mean, in one line; each may hold several. `grows`: a number grows with the
    run's length."""
    meanings = {
        GRADE_MARK["WEAK"]: "~ WEAK: rough, its range includes the disturbance",
        FEW_MARK: "° based on few requests" + (", or grows with the run's length" if grows else ""),
        GRADE_MARK["REFUSED"]: "✗ REFUSED: broken, not used",
    }
    found = set("".join(marks))
    return ", ".join(words for mark, words in meanings.items() if mark in found)
