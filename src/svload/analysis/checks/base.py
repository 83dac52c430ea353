"""The contract of a check: one row of docs/method.md §3 on one trial. A new check is a new file
here with one subclass of `Check`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from svload.analysis import limits
from svload.analysis.ranges import Ranges
from svload.analysis.series import CaseCut, Drift, Floats, drift, response_series, throughput_series
from svload.analysis.view import GroupView
from svload.model.metrics import Source, is_timing
from svload.model.results import CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Context:
    """What checks share: groups and metrics in the kept window, the warm-up cut, whom a metric may name,
    and what disturbances touched."""

    groups: tuple[GroupView, ...]
    metrics: Mapping[str, Estimate]
    cut: CaseCut
    owners: Mapping[str, Source]
    ranges: Ranges
    before_faults: tuple[GroupView, ...] | None = None
    """the groups before the trial's first planned fault; None: it has none"""
    at_limit: tuple[str, ...] | None = None
    """a clause for each limit of the servers' own that was reached (`saturation.saturated`); None: none was read"""

    compared_reuse: frozenset[str] = frozenset()
    """groups whose use of connections a factor sets"""

    programs: Mapping[str, str] = field(default_factory=dict)
    """programs of the study's folder as the run's last trials had them (`newest_programs`)"""

    @property
    def calm(self) -> tuple[GroupView, ...]:
        """The groups where the study leaves the servers alone: a steady state is sought there."""
        return self.groups if self.before_faults is None else self.before_faults

    @cached_property
    def drifts(self) -> dict[str, Drift]:
        """Drift of each series that is long enough and should be steady, by its name."""
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
    """What one of several questions of a check found: a clause, and the remedy where it is not VALID."""

    grade: Grade
    text: str
    remedy: str = ""
    harms: tuple[Harm, ...] | None = None
    """what it doubts; None: the check's whole scope where it is REFUSED, else no number"""


Role = Literal["told", "weight", "lag", "missing", "lost"]
"""told: nothing, since blocks were randomised against it; weight: its share of the machine weighs the pair; lag:
the comparison is computed with and without the generator's delays; missing: a REFUSED number is as if its trial
had not been made; lost: the trial is not what its case says, or its load was not made (docs/method.md §3)."""


class Check(ABC):
    """Judges one row. `row` is that of docs/method.md §3; `order` sorts what people read: what
    breaks everything else comes first.

    A check is pure, quick (milliseconds) and never raises for a trial that its writer sealed. What it cannot
    judge for lack of facts is `unmeasured`: it takes no part in the verdict, and every page says so. A check
    that can tell which numbers it doubts gives `harms`; else it doubts all of its `scope`: `timing` (times,
    rates, CPU) or `all`, counts and shares too.
    """

    name: ClassVar[str]
    row: ClassVar[str]
    order: ClassVar[int] = 50
    scope: ClassVar[Literal["timing", "all"]] = "timing"
    of: ClassVar[Literal["own", "imported", "any"]] = "own"
    of_totals: ClassVar[bool] = False
    """it holds what the load counted in all to its plan, so it needs all of the trial, a server's absence too"""
    """trials of svload's own load (an imported one holds no facts for it), imported ones alone, or any"""
    comparisons: ClassVar[Role] = "told"
    """what it does to a comparison of randomised blocks, whatever it does to a number alone"""

    @abstractmethod
    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The result on one trial. `config` is the case's, `context` what was computed before."""

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
        """A result of this check; the remedy is told only where something is to be mended.

        `harms` None: what it refuses is its whole scope; what is WEAK without a range is told, and harms no number.
        """
        told = "" if grade == "VALID" else remedy
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
            remedy=told,
            harms=tuple(harms),
            who=who,
        )

    def of_parts(self, parts: Sequence[Part], otherwise: str = "") -> CheckResult:
        """The worst of several parts: the sentence names those that are not VALID, else all of them, or
        `otherwise` where there is none."""
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
        """A result where the trial holds no facts for this check; `what` says which are missing, as a clause."""
        return CheckResult(check=self.name, grade="VALID", sentence=f"Not measured: {what}.", measured=False)


def worst(*grades: Grade) -> Grade:
    """REFUSED before WEAK before VALID."""
    return next((grade for grade in ("REFUSED", "WEAK") if grade in grades), "VALID")


def doubted(numbers: Iterable[str], grade: Grade) -> tuple[Harm, ...]:
    """These numbers, off by nobody knows how much; none where the grade is VALID."""
    return tuple(
        Harm(number=number, grade=grade, below=None, above=None) for number in numbers if grade != "VALID"
    )


def times_of(context: Context, owners: Sequence[str]) -> list[str]:
    """The times and rates of these groups, their steps included."""
    heads = tuple(f"{owner}." for owner in owners)
    return [name for name in context.metrics if name.startswith(heads) and is_timing(name)]


def above(value: float, weak_refused: tuple[float, float]) -> Grade:
    """The grade of a value that should be small."""
    weak, refused = weak_refused
    return "REFUSED" if value > refused else "WEAK" if value > weak else "VALID"


def below(value: float, weak_refused: tuple[float, float]) -> Grade:
    """The grade of a share that should be near 1."""
    weak, refused = weak_refused
    return "REFUSED" if value < refused else "WEAK" if value < weak else "VALID"


def smallest_shown_p99(context: Context) -> tuple[str, float] | None:
    """(metric, seconds) of the smallest p99 of response that tables show; None where none is a number."""
    shown = {
        name: estimate.value
        for group in context.groups
        if (estimate := context.metrics.get(name := f"{group.name}.response.p99")) is not None
        and estimate.value is not None
    }
    return min(shown.items(), key=lambda one: one[1], default=None)
