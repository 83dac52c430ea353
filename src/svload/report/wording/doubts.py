"""What is doubtful, which numbers it affects and who caused it: one row per check, most frequent first, with
the remedy; and whether any time or rate of a run can be used. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from svload.model.metrics import is_timing
from svload.model.results import CaseResult, CheckResult, Findings, Grade, TrialResult
from svload.report.wording.numbers import Number, Numbers
from svload.report.wording.spelling import (
    GRADE_MARK,
    cause,
    count_words,
    list_words,
    number_words,
    percent_words,
    program,
    split_metric,
    traffic_owners,
)

COMMAND = "svload why"
"""The command that shows all doubts of the latest run."""
MOST_SHOWN = 6
"""Maximum number of checks in an overview, most frequent first."""
_KINDS = {"all": "all numbers", "timing": "all times and rates"}
_MOST_NUMBERS = 4
_GRADES: tuple[Grade, ...] = ("REFUSED", "WEAK")


@dataclass(frozen=True)
class Doubt:
    """One check and grade over all trials with that grade: which numbers, the largest error, the cause."""

    check: str
    grade: Grade
    trials: tuple[str, ...]
    of: int
    numbers: tuple[tuple[str, int], ...]
    """a number in words, and in how many of the trials it is doubtful; most frequent first"""
    off: float | None
    """the largest share by which a number may be off; null: unknown"""
    who: tuple[tuple[str, int], ...]
    """who caused it (process, user, command), in how many trials; most frequent first"""
    example: str
    """the check's sentence for the first of these trials"""
    remedy: str

    @property
    def mark(self) -> str:
        """✗ or ~."""
        return GRADE_MARK[self.grade]

    @property
    def number_words(self) -> str:
        """`probe p99, probe p95 (6)`: the number of trials is given if it is not all of them."""
        texts = [name + ("" if count == len(self.trials) else f" ({count})") for name, count in self.numbers]
        return list_words(texts, _MOST_NUMBERS)

    @property
    def who_words(self) -> str:
        """`stress-ng (joe, ./hog.sh) 7 ×`."""
        return list_words([f"{name}" + (f" ({count} ×)" if count > 1 else "") for name, count in self.who], 3)

    @property
    def text(self) -> str:
        """`~ the machine stood still for moments, in 9 of 77 trials: probe p99, off by up to 30 %; by stress-ng (joe). →
        Keep the machine quiet.`"""
        line = f"{self.mark} {cause(self.check)}, in {len(self.trials)} of {count_words(self.of, 'trial')}"
        if self.numbers:
            off = f", off by up to {percent_words(self.off)}" if self.off else ""
            line += f": {self.number_words}{off}"
        else:
            line += f": {self.example.rstrip('.')}"
        if self.who:
            line += f"; by {self.who_words}"
        return line + "." + (f" → {self.remedy}" if self.remedy else "")


def doubts(findings: Findings, trials: Iterable[TrialResult] | None = None) -> list[Doubt]:
    """Return every check that some trial (of `trials`, else of the run) does not pass: REFUSED before WEAK,
    then most frequent first."""
    judged = list(findings.trials if trials is None else trials)
    marked: dict[tuple[Grade, str], list[tuple[TrialResult, CheckResult]]] = {}
    for trial in judged:
        for check in doubting(trial):
            marked.setdefault((check.grade, check.check), []).append((trial, check))
    found = [_doubt(grade, name, rows, len(judged)) for (grade, name), rows in marked.items()]
    return sorted(found, key=lambda one: (_GRADES.index(one.grade), -len(one.trials), one.check))


def doubting(trial: TrialResult) -> list[CheckResult]:
    """Return the checks that a trial does not pass."""
    return [check for check in trial.verdict.checks if check.measured and check.grade != "VALID"]


def _doubt(grade: Grade, name: str, rows: Sequence[tuple[TrialResult, CheckResult]], of: int) -> Doubt:
    numbers: Counter[str] = Counter()
    who: Counter[str] = Counter()
    off: list[float | None] = []
    for _, check in rows:
        harmed = [harm for harm in check.harms if harm.grade == grade]
        numbers.update(list(dict.fromkeys(harm_words(harm.number) for harm in harmed)))
        off += [bound for harm in harmed for bound in (harm.below, harm.above)]
        who.update([check.who] if check.who else [])
    remedy, _ = Counter(check.remedy for _, check in rows).most_common(1)[0]
    known = [bound for bound in off if bound is not None]
    return Doubt(
        check=name,
        grade=grade,
        trials=tuple(trial.trial for trial, _ in rows),
        of=of,
        numbers=tuple(numbers.most_common()),
        off=max(known) if known and len(known) == len(off) else None,
        who=tuple(who.most_common()),
        example=rows[0][1].sentence,
        remedy=remedy,
    )


def harm_words(number: str) -> str:
    """Return the words for a number, or kind of numbers, that a check doubts."""
    return _KINDS.get(number) or number_words(number)


@dataclass(frozen=True)
class Asked:
    """One number that the study asks for, with the trials in which it is REFUSED and WEAK."""

    key: str
    refused: tuple[str, ...]
    weak: tuple[str, ...]
    of: int


def asked_keys(numbers: Numbers, case: CaseResult) -> tuple[str, ...]:
    """Return the numbers that give a case its grade; the main group's median, throughput and success if the
    study asks for none."""
    if case.asked:
        return case.asked
    return tuple(f"{numbers.group}.{name}" for name in ("response.p50", "throughput", "success_rate"))


def asked(numbers: Numbers) -> list[Asked]:
    """Return every number asked for that is doubtful in some trial, most often REFUSED first."""
    refused: dict[str, list[str]] = {}
    weak: dict[str, list[str]] = {}
    of: Counter[str] = Counter()
    for case in numbers.findings.cases:
        for trial in numbers.trials(case):
            for key in asked_keys(numbers, case):
                if key not in trial.metrics:
                    continue
                of[key] += 1
                grade = numbers.of_trial(trial, key).grade
                if grade != "VALID":
                    (refused if grade == "REFUSED" else weak).setdefault(key, []).append(trial.trial)
    found = [
        Asked(key, tuple(refused.get(key, ())), tuple(weak.get(key, ())), count) for key, count in of.items()
    ]
    found = [one for one in found if one.refused or one.weak]
    return sorted(found, key=lambda one: (-len(one.refused), -len(one.weak)))


_VERDICTS: dict[Grade, str] = {"REFUSED": "Not usable", "WEAK": "Rough"}


def summary(findings: Findings, most: int = 2) -> str:
    """Return what is wrong with the numbers that the study asks for, and why: `Not usable: p99 in 14 of 77
    trials (the factor did not act). Rough: p50 in 30 of 77 trials (other programs used the machine, most of
    all java)`; "" if nothing."""
    numbers = Numbers(findings)
    found, checks = asked(numbers), doubts(findings)
    parts = []
    for grade in _GRADES:
        by_trials: dict[tuple[str, ...], list[str]] = {}
        for one in found:
            if mine := one.refused if grade == "REFUSED" else one.weak:
                by_trials.setdefault(mine, []).append(_of_main(one.key, numbers.group))
        if not by_trials:
            continue
        names = [f"{', '.join(keys)} in {len(mine)}" for mine, keys in list(by_trials.items())[:most]]
        trials = {name for mine in by_trials for name in mine}
        concerned = [one for one in checks if one.grade == grade and trials & set(one.trials)][:most]
        of = count_words(max(one.of for one in found), "trial")
        why = "; ".join(_cause(one) for one in concerned)
        parts.append(f"{_VERDICTS[grade]}: {', '.join(names)} of {of}" + (f" ({why})" if why else ""))
    return ". ".join(parts)


def _cause(one: Doubt) -> str:
    """Return `other programs used the machine, mainly java`."""
    by = Counter[str]()
    for who, count in one.who:
        by[program(who)] += count
    return cause(one.check) + "".join(f", mainly {name}" for name, _ in by.most_common(1))


def asked_words(findings: Findings) -> str:
    """Return the numbers that the study asks for: `p50, backend.requests and cache.hit_ratio`."""
    numbers = Numbers(findings)
    keys = dict.fromkeys(key for case in findings.cases if case.trials for key in asked_keys(numbers, case))
    return list_words([_of_main(key, numbers.group) for key in keys], 4)


def _of_main(key: str, group: str) -> str:
    return number_words(key.removeprefix(f"{group}."))


_TIMES = ("response", "throughput", "goodput")
_MOST_CAUSES = 3


def no_times_line(findings: Findings) -> str:
    """Return `No response time and no rate of this run can be used: the load was too short to settle.`; "" if
    any can be used.

    A value beyond the timeout can be used: it is worse than any limit.
    """
    refused = False
    for one in _times_of(findings):
        if _is_usable(one):
            return ""
        refused = refused or one.refused
    if not refused:
        return ""
    causes = [
        cause(one.check)
        for one in doubts(findings)
        if one.grade == "REFUSED" and any(_is_time(name) for name in _harmed(findings, one.check))
    ]
    why = f": {list_words(causes, _MOST_CAUSES)}" if causes else ""
    return f"No response time and no rate of this run can be used{why}."


def _times_of(findings: Findings) -> Iterator[Number]:
    """Yield every case's response times and rates, and the other times that the study asks for."""
    numbers, groups = Numbers(findings), set(traffic_owners(findings))
    for case in findings.cases:
        if case.excluded is not None:
            continue
        for key in case.metrics:
            owner, name, _ = split_metric(key)
            if (owner in groups and name.partition("(")[0] in _TIMES) or (
                key in case.asked and is_timing(key)
            ):
                yield numbers.of_case(case, key)


def _is_usable(one: Number) -> bool:
    return not one.refused and (one.value is not None or one.why == "time-out")


def _harmed(findings: Findings, check: str) -> set[str]:
    """Return the numbers, or kinds of numbers, that this check refuses in any trial."""
    rows = (row for trial in findings.trials for row in trial.verdict.checks if row.check == check)
    return {harm.number for row in rows for harm in row.harms if harm.grade == "REFUSED"}


def _is_time(number: str) -> bool:
    return number in ("all", "timing") or is_timing(number)
