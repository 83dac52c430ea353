"""The contract of a check: one row of METHOD §3 on one trial. A new check is a new file here with one subclass of `Check`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from svload.analysis.series import CaseCut
from svload.analysis.view import GroupView
from svload.model.metrics import Source
from svload.model.results import CheckResult, Estimate, Grade
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Context:
    """What checks share: groups and metrics in the kept window, the warm-up cut, and whom a metric may name."""

    groups: tuple[GroupView, ...]
    metrics: Mapping[str, Estimate]
    cut: CaseCut
    owners: Mapping[str, Source]


class Check(ABC):
    """Judges one row. `row` is METHOD's; `order` sorts what people read: what breaks everything else comes first.

    A check is pure, quick (milliseconds) and never raises for a trial that its writer sealed; what it cannot judge is VALID
    with a sentence that says so.
    """

    name: ClassVar[str]
    row: ClassVar[str]
    order: ClassVar[int] = 50

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
    ) -> CheckResult:
        """A result of this check; the remedy is told only where something is to be mended."""
        told = "" if grade == "VALID" else remedy
        return CheckResult(
            check=self.name, grade=grade, sentence=sentence, value=value, limit=limit, remedy=told
        )


def worst(*grades: Grade) -> Grade:
    """REFUSED before WEAK before VALID."""
    return next((grade for grade in ("REFUSED", "WEAK") if grade in grades), "VALID")


def above(value: float, weak_refused: tuple[float, float]) -> Grade:
    """The grade of a value that should be small."""
    weak, refused = weak_refused
    return "REFUSED" if value > refused else "WEAK" if value > weak else "VALID"


def below(value: float, weak_refused: tuple[float, float]) -> Grade:
    """The grade of a share that should be near 1."""
    weak, refused = weak_refused
    return "REFUSED" if value < refused else "WEAK" if value < weak else "VALID"


def percent(share: float, figures: int = 3) -> str:
    """A share in percent for a sentence."""
    return f"{100 * share:.{figures}g} %"
