"""The contract of a check: one row of docs/method.md §3 on one trial. A new check is a new file in this
folder with one subclass of `Check`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from svload.analysis import limits
from svload.analysis.ranges import Ranges
from svload.analysis.series import CaseCut, Drift, Floats, drift, response_series, throughput_series
from svload.analysis.view import GroupView
from svload.model.metrics import Source, is_timing
from svload.model.results import CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig
from svload.store import TrialData


@dataclass(frozen=True)
class Context:
    """The input shared by checks: groups and metrics in the kept window, the warm-up cut, the owners that a
    metric may name, and what disturbances touched."""

    groups: tuple[GroupView, ...]
    metrics: Mapping[str, Estimate]
    cut: CaseCut
    owners: Mapping[str, Source]
    ranges: Ranges
    before_faults: tuple[GroupView, ...] | None = None
    """the groups before the trial's first planned fault; None: it has none"""
    at_limit: tuple[str, ...] | None = None
    """a clause for each limit of the servers' own that was reached (`evidence.saturated`); None: none was
    read"""

    compared_reuse: frozenset[str] = frozenset()
    """groups with a use of connections that a factor sets"""

    programs: Mapping[str, str] = field(default_factory=dict)
    """programs of the study's folder as the run's last trials had them (`newest_programs`)"""

    @property
    def calm(self) -> tuple[GroupView, ...]:
        """The groups before the first planned fault: a steady state is expected only there."""
        return self.groups if self.before_faults is None else self.before_faults

    @cached_property
    def drifts(self) -> dict[str, Drift]:
        """The drift of each series that is long enough and should be steady, by its name."""
        series: dict[str, Floats] = {}
        for group in self.calm:
            if group.shape != "constant":
                continue
            series[f"{group.name}.response"] = response_series(group)[1]
            if group.closed:
                series[f"{group.name}.throughput"] = throughput_series(group)
        judged = {name: drift(values, limits.TAIL / len(series)) for name, values in series.items()}
        return {name: one for name, one in judged.items() if one is not None}


@dataclass(frozen=True)
class Part:
    """The answer of a check to one of several questions: a clause, and the remedy where it is not VALID."""

    grade: Grade
    text: str
    remedy: str = ""
    harms: tuple[Harm, ...] | None = None
    """what it doubts; None: the check's whole scope where it is REFUSED, else no number"""


Role = Literal["reported", "weight", "lag", "missing", "lost"]
"""reported: no effect, since blocks were randomised against it; weight: its share of the machine weighs the pair;
lag: the comparison is computed with and without the generator's delays; missing: a REFUSED number is treated
as if its trial had not been made; lost: the trial is not what its case says, or its load was not made
(docs/method.md §3)."""


class Check(ABC):
    """A check of one row of docs/method.md §3. `order` sorts the checks for readers: what invalidates
    everything else comes first.

    A check is pure, fast (milliseconds) and never raises for a sealed trial. What it cannot judge for lack of
    facts is `unmeasured`: it does not affect the verdict, and every page shows it. A check that can tell
    which numbers it doubts gives `harms`; otherwise it doubts all of its `scope`: `timing` (times, rates,
    CPU) or `all`, including counts and shares.
    """

    name: ClassVar[str]
    order: ClassVar[int] = 50
    scope: ClassVar[Literal["timing", "all"]] = "timing"
    of: ClassVar[Literal["own", "imported", "any"]] = "own"
    """trials of svload's own load (an imported one holds no facts for it), imported ones alone, or any"""
    of_totals: ClassVar[bool] = False
    """it compares the load's total counts with its plan, so it needs the whole trial, including a server's
    absence"""
    comparisons: ClassVar[Role] = "reported"
    """its effect on a comparison of randomised blocks, whatever its effect on a single number"""

    @abstractmethod
    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Return the result on one trial. `config` is the case's; `context` holds what was computed
        before."""

    def result(
        self,
        grade: Grade,
        sentence: str,
        value: float | None = None,
        limit: float | None = None,
        remedy: str = "",
        harms: Iterable[Harm] | None = None,
        who: str = "",
    ) -> CheckResult:
        """Return a result of this check; the remedy is included only where something needs fixing.

        `harms` None: a refusal covers its whole scope; a WEAK result without a range is reported, but harms
        no number.
        """
        text = "" if grade == "VALID" else remedy
        if harms is None:
            harms = (
                (Harm(number=self.scope, grade=grade, below=None, above=None),) if grade == "REFUSED" else ()
            )
        return CheckResult(
            check=self.name,
            grade=grade,
            sentence=sentence,
            value=value,
            limit=limit,
            remedy=text,
            harms=tuple(harms),
            who=who,
        )

    def of_parts(self, parts: Sequence[Part], otherwise: str = "") -> CheckResult:
        """Return the worst of several parts: the sentence names those that are not VALID, else all of them,
        or `otherwise` without any."""
        grade = worst(*(part.grade for part in parts))
        wrong = [part for part in parts if part.grade != "VALID"]
        text = "; ".join(part.text for part in (wrong or parts)) or otherwise
        refused = (Harm(number=self.scope, grade="REFUSED", below=None, above=None),)
        harms = [
            part.harms if part.harms is not None else refused if part.grade == "REFUSED" else ()
            for part in parts
        ]
        remedy = next((part.remedy for part in wrong if part.grade == grade), "")
        return self.result(
            grade, f"{text[:1].upper()}{text[1:]}.", remedy=remedy, harms=dict.fromkeys(sum(harms, ()))
        )

    def unmeasured(self, what: str) -> CheckResult:
        """Return a result where the trial lacks the facts for this check; `what` names the missing ones, as a
        clause."""
        return CheckResult(check=self.name, grade="VALID", sentence=f"Not measured: {what}.", measured=False)


def worst(*grades: Grade) -> Grade:
    """Return the worst grade: REFUSED before WEAK before VALID."""
    return next((grade for grade in ("REFUSED", "WEAK") if grade in grades), "VALID")


def doubted(numbers: Iterable[str], grade: Grade) -> tuple[Harm, ...]:
    """Return harms for these numbers, with an error of unknown size; none where the grade is VALID."""
    return tuple(
        Harm(number=number, grade=grade, below=None, above=None) for number in numbers if grade != "VALID"
    )


def times_of(context: Context, owners: Sequence[str]) -> list[str]:
    """Return the times and rates of these groups, including their steps."""
    heads = tuple(f"{owner}." for owner in owners)
    return [name for name in context.metrics if name.startswith(heads) and is_timing(name)]


def above(value: float, weak_refused: tuple[float, float]) -> Grade:
    """Return the grade of a value that should be small."""
    weak, refused = weak_refused
    return "REFUSED" if value > refused else "WEAK" if value > weak else "VALID"


def below(value: float, weak_refused: tuple[float, float]) -> Grade:
    """Return the grade of a share that should be near 1."""
    weak, refused = weak_refused
    return "REFUSED" if value < refused else "WEAK" if value < weak else "VALID"


def smallest_shown_p99(context: Context) -> tuple[str, float] | None:
    """Return (metric, seconds) of the smallest p99 of response that tables show; None without one."""
    shown = {
        name: estimate.value
        for group in context.groups
        if (estimate := context.metrics.get(name := f"{group.name}.response.p99")) is not None
        and estimate.value is not None
    }
    return min(shown.items(), key=lambda one: one[1], default=None)
