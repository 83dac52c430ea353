"""Each stage of a load in stages separately: the numbers of its ramps and levels, beside those of the whole
load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median

from svload.analysis.checks.base import worst
from svload.analysis.criteria import criterion_of, find, is_broken, mirror_of, number_of, outcome
from svload.analysis.measures import ALL_STAGES, GroupMeasures
from svload.analysis.ranges import Ranges
from svload.analysis.server import growing
from svload.analysis.view import GroupView, Window, look
from svload.model.executors import RampingArrivalRate, RampingVus
from svload.model.metrics import Criterion, MetricRef, why_not_by_level
from svload.model.results import Belief, CaseResult, Estimate, Finding, LevelOutcome, StageResult, TrialResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.store import TrialData

STATS = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")


def stages_of(trial: TrialData, config: CaseConfig, window: Window) -> tuple[StageResult, ...]:
    """Return every stage of every group in stages, in order of time; stages that the trial did not reach are
    left out."""
    return tuple(
        one
        for group in config.groups
        if isinstance(group.executor, RampingVus | RampingArrivalRate)
        for one in _of_group(trial, config, window, group.name)
    )


def stage_findings(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe a case's levels in a sentence: the p95 of each, the median of its trials."""
    for case in cases:
        levels: dict[tuple[str, str], list[float]] = {}
        mine = [trial for trial in trials if trial.case == case.case and trial.stages]
        for one in (stage for trial in mine for stage in trial.stages if stage.holds):
            p95 = one.metrics.get("response.p95")
            if p95 is not None and p95.value is not None:
                levels.setdefault((one.group, one.label), []).append(p95.value)
        if levels:
            text = "; ".join(
                f"{group} at {label} {show_duration(median(values))}"
                for (group, label), values in levels.items()
            )
            yield Finding(
                kind="level",
                sentence=f"Response p95 by level in {case.case}: {text}.",
                evidence=tuple(f"trials/{trial.trial}" for trial in mine),
                certainty="measured",
            )


def level_outcomes(
    criterion: Criterion, trials: Sequence[TrialResult], timeout_s: float | None
) -> tuple[LevelOutcome, ...]:
    """Decide a threshold on each level of the group that it names; nothing for a load without levels."""
    if why_not_by_level(criterion.ref):
        return ()
    levels: dict[str, list[tuple[bool | None, Estimate]]] = {}
    for trial in trials:
        for label, metrics in levels_of(trial, criterion.ref.owner):
            estimate = find(criterion.ref, metrics)
            held = outcome(criterion, estimate, timeout_s, None, mirror_of(criterion.ref, metrics))
            levels.setdefault(label, []).append((held, estimate))
    return tuple(_level(criterion.ref.owner, label, found) for label, found in levels.items())


def levels_of(trial: TrialResult, group: str) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """Return (label, its numbers by their full names) of each level of a group, with what disturbed the whole
    load, or the level itself where that is more."""
    for one in trial.stages:
        if one.holds and one.group == group:
            named = {f"{group}.{name}": estimate for name, estimate in one.metrics.items()}
            yield (
                one.label,
                {
                    name: estimate.model_copy(
                        update={"belief": _wider(_belief(trial, name), estimate.belief)}
                    )
                    for name, estimate in named.items()
                },
            )


def _belief(trial: TrialResult, name: str) -> Belief | None:
    """Return how far a number of the whole load may be believed."""
    return trial.metrics[name].belief if name in trial.metrics else None


def _wider(whole: Belief | None, level: Belief | None) -> Belief | None:
    if whole is None or level is None:
        return whole or level
    if None in (whole.below, whole.above, level.below, level.above):
        return whole
    return whole.model_copy(
        update={
            "grade": worst(whole.grade, level.grade),
            "below": max(whole.below or 0.0, level.below or 0.0),
            "above": max(whole.above or 0.0, level.above or 0.0),
        }
    )


def _level(group: str, label: str, found: Sequence[tuple[bool | None, Estimate]]) -> LevelOutcome:
    values = [value for _, one in found if (value := number_of(one)) is not None]
    answers = {held for held, _ in found}
    held = answers.pop() if len(answers) == 1 else None
    return LevelOutcome(
        group=group,
        level=label,
        outcome="passed"
        if held
        else "failed"
        if held is False
        else "refused"
        if all(is_broken(one) for _, one in found)
        else "open"
        if values
        else "no value",
        measured=median(values) if values else None,
    )


def _asked(config: CaseConfig, group: str) -> Iterator[MetricRef]:
    """Return what thresholds ask of a group, for each of its levels."""
    for text in config.thresholds:
        with suppress(ValueError):  # it is about something that this case lacks
            ref = criterion_of(text, config).ref
            if ref.owner == group and not why_not_by_level(ref):
                yield ref


def _of_group(trial: TrialData, config: CaseConfig, window: Window, name: str) -> Iterator[StageResult]:
    executor = next(group.executor for group in config.groups if group.name == name)
    assert isinstance(executor, RampingVus | RampingArrivalRate)
    asked = tuple(_asked(config, name))
    stats = tuple(dict.fromkeys((*STATS, *(str(ref).removeprefix(f"{name}.") for ref in asked))))
    for stage in executor.labelled_stages:
        step = trial.summary.interval_ns
        part = Window(
            max(-(-stage.from_ns // step), window.first), min(stage.to_ns // step, window.last), step
        )
        if part.size <= 0:
            continue
        groups = look(trial, config, part)
        view = next((one for one in groups if one.name == name), None)
        measured = _measured(view, asked, stats) if view is not None else {}
        ranges = Ranges(trial, config, part, groups, measured)
        if view is not None and ranges.overloads(view):
            measured = growing(measured, [name])
        if stage.holds:
            measured = _disturbed(ranges, measured)
        yield StageResult(
            group=name,
            label=stage.label,
            holds=stage.holds,
            from_s=stage.from_ns / 1e9,
            to_s=stage.to_ns / 1e9,
            metrics={key.removeprefix(f"{name}."): estimate for key, estimate in measured.items()},
        )


def _measured(group: GroupView, asked: Sequence[MetricRef], stats: Sequence[str]) -> dict[str, Estimate]:
    """Return these numbers of a group in one stage, by their full names."""
    found = GroupMeasures(group).all(asked)
    return {
        f"{group.name}.{stat}": estimate.model_copy(
            update={"reason": ""} if estimate.reason == ALL_STAGES else {}
        )
        for stat in stats
        if (estimate := found.get(stat)) is not None
    }


def _disturbed(ranges: Ranges, metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the same numbers with the range that disturbances within the stage give them."""
    harms = {one.number: one for many in ranges.by_check.values() for one in many}
    return {
        name: estimate
        if (found := harms.get(name)) is None
        else estimate.model_copy(
            update={"belief": Belief(grade=found.grade, below=found.below, above=found.above)}
        )
        for name, estimate in metrics.items()
    }
