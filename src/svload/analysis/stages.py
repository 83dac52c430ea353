"""Each stage of a load in stages by itself: the numbers of its ramps and levels, beside those of all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from svload.analysis.measures import GroupMeasures
from svload.analysis.view import GroupView, Window, look
from svload.model.executors import ClosedLoop, RampingArrivalRate, RampingVus
from svload.model.results import CaseResult, Finding, StageResult, TrialResult
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


def _of_group(trial: TrialData, config: CaseConfig, window: Window, name: str) -> Iterator[StageResult]:
    executor = next(group.executor for group in config.groups if group.name == name)
    assert isinstance(executor, RampingVus | RampingArrivalRate)
    unit = " users" if isinstance(executor, ClosedLoop) else "/s"
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
                stat: measured[stat].model_copy(update={"reason": ""}) for stat in STATS if stat in measured
            },
        )


def _group(groups: tuple[GroupView, ...], name: str) -> GroupView | None:
    return next((one for one in groups if one.name == name), None)
