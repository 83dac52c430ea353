"""Each number of a trial by itself: what all checks together say of it, and the grade of those that a
study asks for (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from svload.analysis.criteria import criterion_of, main_group, metric_of
from svload.model.metrics import MetricRef, Source, is_timing
from svload.model.results import Belief, CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig, Lock

UNITED = ("hiccups", "run-queue", "steal", "others-cpu")
"""Checks whose moments are counted as one: the largest of their bounds is that of all of them."""
_KINDS = ("all", "timing")
_ORDER: Mapping[Grade, int] = {"REFUSED": 0, "WEAK": 1, "VALID": 2}
_WITHOUT_QUESTION = ("response.p50", "throughput", "success_rate")

Said = tuple[CheckResult, Harm]


class Beliefs:
    """What the checks of one trial say of its numbers."""

    def __init__(self, checks: Iterable[CheckResult]) -> None:
        self._exact: dict[str, list[Said]] = {}
        self._kinds: list[Said] = []
        for check in checks:
            for harm in check.harms:
                if harm.number in _KINDS:
                    self._kinds.append((check, harm))
                else:
                    self._exact.setdefault(harm.number, []).append((check, harm))
        self._of_kind = {timing: self._told(timing) for timing in (False, True)}

    def _told(self, timing: bool) -> tuple[list[Said], Belief | None]:
        said = [one for one in self._kinds if timing or one[1].number == "all"]
        return said, united(said)

    def of(self, number: str, without: Sequence[str] = ()) -> Belief | None:
        """Of one number by its full name, but for what these checks say; None where nothing doubts or bounds it."""
        general, belief = self._of_kind[is_timing(number)]
        exact = self._exact.get(number, [])
        if without:
            return united([one for one in (*general, *exact) if one[0].check not in without])
        return united([*general, *exact]) if exact else belief

    def fill(self, metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """The same estimates with what is to be believed of them."""
        return {
            name: estimate
            if (belief := self.of(name)) is None
            else estimate.model_copy(update={"belief": belief})
            for name, estimate in metrics.items()
        }


def united(said: Sequence[Said]) -> Belief | None:
    """What several checks say of one number: the worst grade, their bounds added. A bound is null
    where one REFUSES it without any."""
    if not said:
        return None
    grades = [harm.grade for _, harm in said]
    grade = min(grades, key=_ORDER.__getitem__)
    ranked = sorted((one for one in said if one[1].grade != "VALID"), key=lambda one: _ORDER[one[1].grade])
    return Belief(
        grade=grade,
        below=_added((check.check, harm.grade, harm.below) for check, harm in said),
        above=_added((check.check, harm.grade, harm.above) for check, harm in said),
        doubts=tuple(dict.fromkeys(check.check for check, _ in ranked)),
    )


def _added(bounds: Iterable[tuple[str, Grade, float | None]]) -> float | None:
    total, counted = 0.0, 0.0
    for check, grade, bound in bounds:
        if bound is None:
            if grade == "REFUSED":
                return None
        elif check in UNITED:
            counted = max(counted, bound)
        else:
            total += bound
    return total + counted


def said_of(check: CheckResult, number: str, grade: Grade) -> Grade:
    """What a check says of a number whose own grade is this: of a WEAK one no more than that, since it may have
    been computed again without what the check refuses."""
    return "WEAK" if grade == "WEAK" and check.on(number) == "REFUSED" else check.on(number)


def asked_of(lock: Lock | None, config: CaseConfig, owners: Mapping[str, Source]) -> tuple[MetricRef, ...]:
    """The numbers that a study asks of a case: those of its comparisons, thresholds and expectations, or of a search.

    Where it asks for none: the median, the throughput and the success of the main group.
    """
    refs = [metric_of(one.metric, config, owners) for one in (lock.comparisons if lock else ())]
    searched = lock.search if lock else None
    for text in (*config.thresholds, *config.expects, *(searched.that if searched else ())):
        with suppress(ValueError):  # a trial judged without its lock may name whom its case lacks
            refs.append(criterion_of(text, config, owners).ref)
    if searched is not None and searched.gain is not None:
        refs.append(metric_of(f"{main_group(config)}.ok_throughput", config, owners))
    if not refs:
        refs = [metric_of(f"{main_group(config)}.{name}", config, owners) for name in _WITHOUT_QUESTION]
    return tuple({str(ref): ref for ref in refs}.values())
