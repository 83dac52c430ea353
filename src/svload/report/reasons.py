"""Why trials are WEAK or REFUSED: one line a check over all of them, the most frequent first, with what would mend it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from svload.model.results import CheckResult, Findings, TrialResult, marks
from svload.report.words import count_words, list_words

MOST_REASONS = 4
"""Checks that are told; of more, the most frequent."""


@dataclass(frozen=True)
class Reason:
    """A check and the trials that it marks, with the first one's own words."""

    check: str
    trials: tuple[str, ...]
    example: str
    remedy: str

    @property
    def text(self) -> str:
        """`steadiness, 60 trials: Over the kept window … (TC0.r1, for one). → Measure longer.`"""
        which = self.trials[0] + (", for one" if len(self.trials) > 1 else "")
        mend = f" → {self.remedy}" if self.remedy else ""
        return f"{self.check}, {count_words(len(self.trials), 'trial')}: {self.example.rstrip('.')} ({which}).{mend}"


def reasons_of(trials: Sequence[TrialResult], grade: Literal["WEAK", "REFUSED"]) -> list[Reason]:
    """What gave these trials that grade, a reason a check."""
    by_number = sorted(marks(trials, grade).items(), key=lambda pair: -len(pair[1]))
    return [_reason(name, marked) for name, marked in by_number[:MOST_REASONS]]


def _reason(name: str, marked: Sequence[tuple[TrialResult, CheckResult]]) -> Reason:
    remedy, _ = Counter(check.remedy for _, check in marked).most_common(1)[0]
    return Reason(name, tuple(trial.trial for trial, _ in marked), marked[0][1].sentence, remedy)


@dataclass(frozen=True)
class Graded:
    """What bears one grade: a sentence, the cases or trials that it names, and why."""

    text: str
    evidence: tuple[str, ...]
    reasons: tuple[Reason, ...]


def weak_cases(findings: Findings) -> Graded | None:
    """All WEAK cases together. WEAK is no failure: the numbers count, and each carries its mark."""
    named = [case.case for case in findings.cases if case.instrument == "WEAK"]
    if not named:
        return None
    trials = [one for one in findings.trials if one.verdict.instrument == "WEAK" and one.case in set(named)]
    verb = "is" if len(named) == 1 else "are"
    text = f"{_cases(findings, named)} {verb} WEAK ({count_words(len(trials), 'trial')}): not failed – the numbers count and enter comparisons, with the doubt named."
    return Graded(text, tuple(f"cases/{name}" for name in named), tuple(reasons_of(trials, "WEAK")))


def refused_cases(findings: Findings) -> Graded | None:
    """All REFUSED cases together; None for fewer than two, whose own sentences say more."""
    named = [case.case for case in findings.cases if case.instrument == "REFUSED"]
    if len(named) < 2:
        return None
    trials = [
        one for one in findings.trials if one.verdict.instrument == "REFUSED" and one.case in set(named)
    ]
    text = f"{_cases(findings, named)} are REFUSED and enter no comparison."
    return Graded(text, tuple(f"cases/{name}" for name in named), tuple(reasons_of(trials, "REFUSED")))


def refused_trials(findings: Findings) -> Graded | None:
    """The REFUSED trials of cases that still count, together; None for fewer than two."""
    whole = {case.case for case in findings.cases if case.instrument == "REFUSED"}
    trials = [one for one in findings.trials if one.verdict.instrument == "REFUSED" and one.case not in whole]
    if len(trials) < 2:
        return None
    believed = {(one.case, one.block) for one in findings.trials if one.verdict.instrument != "REFUSED"}
    again = sum((one.case, one.block) in believed for one in trials)
    effects = []
    if out := len(trials) - again:
        effects.append(f"{out} {'takes its' if out == 1 else 'take their'} block out of comparisons")
    if again:
        effects.append(f"{again} {'was' if again == 1 else 'were'} made once more")
    text = (
        f"{len(trials)} of {count_words(len(findings.trials), 'trial')} are REFUSED: {list_words(effects)}."
    )
    return Graded(text, tuple(f"trials/{one.trial}" for one in trials), tuple(reasons_of(trials, "REFUSED")))


def _cases(findings: Findings, named: Sequence[str]) -> str:
    """The cases by name as far as a sentence holds them, else how many of how many."""
    if len(named) <= 6:
        return list_words(named)
    run = [case.case for case in findings.cases if case.excluded is None]
    others = [name for name in run if name not in set(named)]
    rest = f" (all but {list_words(others)})" if 0 < len(others) <= 3 else ""
    return f"{len(named)} of {len(run)} cases{rest}"
