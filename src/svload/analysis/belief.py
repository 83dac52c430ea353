"""The grade of each single number of a trial: what all checks together conclude about it, and the grade of
the numbers that a study asks for (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from svload.analysis import limits
from svload.analysis.criteria import criterion_of, metric_of
from svload.model.metrics import MetricRef, Source, is_timing
from svload.model.results import Belief, CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig, Lock

_KINDS = ("all", "timing")
_ORDER: Mapping[Grade, int] = {"REFUSED": 0, "WEAK": 1, "VALID": 2}
_WITHOUT_QUESTION = ("response.p50", "throughput", "success_rate")

Said = tuple[CheckResult, Harm]


class Beliefs:
    """The conclusions of a trial's checks about its numbers."""

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

    def of(self, number: str) -> Belief | None:
        """Return the belief for one number by its full name; None where no check doubts or bounds it."""
        general, belief = self._of_kind[is_timing(number)]
        exact = self._exact.get(number, [])
        return united([*general, *exact]) if exact else belief

    def fill(self, metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """Return the same estimates with their beliefs filled in."""
        return {
            name: estimate
            if (belief := self.of(name)) is None
            else estimate.model_copy(update={"belief": belief})
            for name, estimate in metrics.items()
        }


def united(said: Sequence[Said]) -> Belief | None:
    """Combine the conclusions of several checks about one number: add their ranges, and grade the sum. A
    REFUSED number has no range; one with a doubt of unknown size has the widest."""
    if not said:
        return None
    ranked = sorted((one for one in said if one[1].grade != "VALID"), key=lambda one: _ORDER[one[1].grade])
    doubts = tuple(dict.fromkeys(check.check for check, _ in ranked))
    if ranked and ranked[0][1].grade == "REFUSED":
        return Belief(grade="REFUSED", below=None, above=None, doubts=doubts)
    below, above = (
        min(sum(widest if one is None else one for one in side), widest)
        for side, widest in zip(
            ([harm.below for _, harm in said], [harm.above for _, harm in said]), limits.WIDEST, strict=True
        )
    )
    wide = max(below, above) > limits.OFF
    return Belief(
        grade="WEAK" if wide else "VALID",
        below=below,
        above=above,
        doubts=doubts or (tuple(dict.fromkeys(check.check for check, _ in said)) if wide else ()),
    )


def asked_of(lock: Lock | None, config: CaseConfig, owners: Mapping[str, Source]) -> tuple[MetricRef, ...]:
    """Return the numbers that a study asks for in a case: those of its comparisons, thresholds and
    expectations, or of a search.

    Where it asks for none, return the median, the throughput and the success of the main group.
    """
    refs = [metric_of(one.metric, config, owners) for one in (lock.comparisons if lock else ())]
    searched = lock.search if lock else None
    for text in (*config.thresholds, *config.expects, *(searched.that if searched else ())):
        with suppress(ValueError):  # a trial judged without its lock may name owners that its case lacks
            refs.append(criterion_of(text, config, owners).ref)
    if searched is not None and searched.gain is not None:
        refs.append(metric_of(f"{config.main_group}.ok_throughput", config, owners))
    if not refs:
        refs = [metric_of(f"{config.main_group}.{name}", config, owners) for name in _WITHOUT_QUESTION]
    return tuple({str(ref): ref for ref in refs}.values())
