"""Each stage of a load in stages by itself: the numbers of its ramps and levels, beside those of all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import median

from svload.analysis.criteria import criterion_of, find, is_broken, mirror_of, number_of, outcome
from svload.analysis.measures import GroupMeasures
from svload.analysis.view import GroupView, Window, look
from svload.model.executors import ClosedLoop, RampingArrivalRate, RampingVus
from svload.model.metrics import Criterion
from svload.model.results import CaseResult, Estimate, Finding, LevelOutcome, StageResult, TrialResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.store import TrialData

STATS = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")


def stages_of(trial: TrialData, config: CaseConfig, window: Window) -> tuple[StageResult, ...]:
    """Every stage of every group in stages, in order of time; one that the trial did not reach is left out."""
    return tuple(
        one
        for group in config.groups
        if isinstance(group.executor, RampingVus | RampingArrivalRate)
        for one in _of_group(trial, config, window, group.name)
    )


def stage_findings(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """A case's levels in a sentence: the p95 of each, the median of its trials."""
    for case in cases:
        levels: dict[tuple[str, str], list[float]] = {}
        mine = [trial for trial in trials if trial.case == case.case and trial.stages]
        for one in (stage for trial in mine for stage in trial.stages if stage.holds):
            p95 = one.metrics.get("response.p95")
            if p95 is not None and p95.value is not None:
                levels.setdefault((one.group, one.label), []).append(p95.value)
        if levels:
            told = "; ".join(
                f"{group} at {label} {show_duration(median(values))}"
                for (group, label), values in levels.items()
            )
            yield Finding(
                kind="level",
                sentence=f"Response p95 by level in {case.case}: {told}.",
                evidence=tuple(f"trials/{trial.trial}" for trial in mine),
                certainty="measured",
            )


def level_outcomes(
    criterion: Criterion, trials: Sequence[TrialResult], timeout_s: float | None
) -> tuple[LevelOutcome, ...]:
    """A threshold on each level of the group that it names; nothing of a load without levels."""
    levels: dict[str, list[tuple[bool | None, Estimate]]] = {}
    group, _, metric = str(criterion.ref).partition(".")
    for trial in trials:
        whole = find(criterion.ref, trial.metrics)
        for one in trial.stages:
            if not one.holds or one.group != group or metric not in one.metrics:
                continue
            # What disturbed the load disturbed its levels.
            estimate = one.metrics[metric].model_copy(update={"belief": whole.belief})
            mirror = mirror_of(criterion.ref, {f"{group}.{name}": each for name, each in one.metrics.items()})
            found = outcome(criterion, estimate, timeout_s, trial.verdict.server, mirror)
            levels.setdefault(one.label, []).append((found, estimate))
    return tuple(_level(group, label, found) for label, found in levels.items())


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


def _asked(config: CaseConfig, group: str) -> Iterator[str]:
    """What thresholds ask of a group, by its own names."""
    for text in config.thresholds:
        with suppress(ValueError):  # about what this case lacks
            owner, _, metric = str(criterion_of(text, config).ref).partition(".")
            if owner == group:
                yield metric


def _of_group(trial: TrialData, config: CaseConfig, window: Window, name: str) -> Iterator[StageResult]:
    executor = next(group.executor for group in config.groups if group.name == name)
    assert isinstance(executor, RampingVus | RampingArrivalRate)
    unit = " users" if isinstance(executor, ClosedLoop) else "/s"
    stats = tuple(dict.fromkeys((*STATS, *_asked(config, name))))
    at_ns = 0
    level = executor.start_rate_rps if isinstance(executor, RampingArrivalRate) else float(executor.start_vus)
    for stage in executor.stages:
        low_ns, before = at_ns, level
        at_ns, level = at_ns + stage.duration_ns, stage.target
        step = trial.summary.interval_ns
        part = Window(max(-(-low_ns // step), window.first), min(at_ns // step, window.last), step)
        if part.size <= 0:
            continue
        holds = before == stage.target
        view = _group(look(trial, config, part), name)
        measured = GroupMeasures(view).all() if view is not None else {}
        yield StageResult(
            group=name,
            label=f"{stage.target:g}{unit}" if holds else f"{before:g} → {stage.target:g}{unit}",
            holds=holds,
            from_s=low_ns / 1e9,
            to_s=at_ns / 1e9,
            metrics={
                stat: measured[stat].model_copy(update={"reason": ""}) for stat in stats if stat in measured
            },
        )


def _group(groups: tuple[GroupView, ...], name: str) -> GroupView | None:
    return next((one for one in groups if one.name == name), None)
