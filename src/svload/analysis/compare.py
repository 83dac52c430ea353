"""Effects (METHOD §2): per-block log ratios of matched cases, sign-flip p, t interval, Holm over the study's claims.

A REFUSED trial takes its block with it; a refused case leaves the comparison. What no outcome could decide is undecided: described, never claimed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Literal

import numpy as np

from svload.analysis import limits
from svload.analysis.cases import least_blocks
from svload.analysis.contrasts import Contrast, contrasts_of, smallest_adjusted
from svload.analysis.criteria import metric_of
from svload.analysis.families import blocks_needed, holm
from svload.analysis.floor import floor_of, floor_percent
from svload.analysis.inference import (
    hodges_lehmann,
    least_detectable,
    mean_interval,
    sign_flip_p,
)
from svload.analysis.sentences import (
    FLOOR_UNKNOWN,
    FLOOR_UNKNOWN_HERE,
    after_holm,
    any_difference,
    undecided,
)
from svload.model.certificates import AaCertificate, Floor
from svload.model.metrics import MetricRef
from svload.model.results import CaseResult, Claim, Estimate, TrialResult
from svload.model.study import CaseConfig, Lock, Measure
from svload.study.check import owners_of

State = Literal["claim", "no claim", "undecidable", "refused"]
_FAIL_IF = re.compile(r"^(worse|better|different) by more than (\d+(?:\.\d+)?) ?%$")


@dataclass(frozen=True)
class Evidence:
    """What the trials hold for one contrast: a log ratio a block, and why anything is missing."""

    logs: tuple[float, ...] = ()
    blocks: tuple[int, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    success: tuple[float | None, float | None] = (None, None)
    weak: int = 0
    missing: tuple[str, ...] = ()
    no_value: str = ""


@dataclass
class _Gathered:
    """Log ratios of one block while they are collected."""

    logs: list[float] = field(default_factory=list)
    plots: set[int] = field(default_factory=set)


def metrics_of_claims(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, list[MetricRef]]:
    """By case: the metrics that the study's comparisons are about."""
    owners = owners_of(lock.source)
    return {
        name: [metric_of(comparison.metric, config, owners) for comparison in lock.comparisons]
        for name, config in configs.items()
    }


def judge_claims(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    cases: Sequence[CaseResult],
    trials: Sequence[TrialResult],
    plots: Mapping[str, int],
    certificate: AaCertificate | None = None,
) -> tuple[Claim, ...]:
    """Every planned contrast on the judged trials. `plots` maps a trial to its bring-up; `certificate` tells the lab's own noise."""
    contrasts = contrasts_of(lock)
    found = [gather(lock, contrast, configs, cases, trials, plots) for contrast in contrasts]
    p = [sign_flip_p(one.logs) if one.logs else None for one in found]
    adjusted = holm([1.0 if one is None else one for one in p])
    smallest = smallest_adjusted([len(one.logs) for one in found])
    return tuple(
        _claim(lock, contrast, one, p_one, p_adjusted, p_least, len(contrasts), configs, certificate)
        for contrast, one, p_one, p_adjusted, p_least in zip(
            contrasts, found, p, adjusted, smallest, strict=True
        )
    )


def gather(
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    cases: Sequence[CaseResult],
    trials: Sequence[TrialResult],
    plots: Mapping[str, int],
) -> Evidence:
    """A contrast's log ratios: the mean over matched cases in each block that has all their trials, none REFUSED."""
    refused = {case.case for case in cases if case.instrument == "REFUSED"}
    pairs = tuple(pair for pair in contrast.pairs if not refused & set(pair))
    left_out = sorted({name for pair in contrast.pairs for name in pair if name in refused})
    missing = [f"left out, REFUSED: {', '.join(left_out)}"] if left_out else []
    if not pairs:
        return Evidence(missing=tuple(missing))
    owners = owners_of(lock.source)
    names = {
        case: str(metric_of(contrast.comparison.metric, configs[case], owners))
        for pair in pairs
        for case in pair
    }
    # Where a refused trial was made once more, the one that is believed counts.
    in_turn = sorted(trials, key=lambda trial: trial.verdict.instrument != "REFUSED")
    by_place = {(trial.case, trial.block): trial for trial in in_turn}
    whole, broken = _blocks(pairs, by_place)
    missing += [f"block {block} is out ({why})" for block, why in broken]
    used = [by_place[case, block] for block in whole for pair in pairs for case in pair]
    success = _success(pairs, whole, by_place, names)
    weak = sum(trial.verdict.instrument == "WEAK" for trial in used)
    gathered: dict[int, _Gathered] = {}
    for block in whole:
        one = gathered.setdefault(block, _Gathered())
        for pair in pairs:
            baseline, treatment = (by_place[case, block].metrics.get(names[case]) for case in pair)
            if problem := _no_ratio(baseline, treatment):
                return Evidence(
                    pairs=pairs,
                    blocks=tuple(whole),
                    success=success,
                    weak=weak,
                    missing=tuple(missing),
                    no_value=problem,
                )
            one.logs.append(log(_value(treatment) / _value(baseline)))
            one.plots |= {plots.get(by_place[case, block].trial, block) for case in pair}
    units = _units(gathered) if contrast.hard else [one.logs for one in gathered.values()]
    return Evidence(
        tuple(float(np.mean(unit)) for unit in units), tuple(whole), pairs, success, weak, tuple(missing)
    )


def _blocks(
    pairs: Sequence[tuple[str, str]], by_place: Mapping[tuple[str, int], TrialResult]
) -> tuple[list[int], list[tuple[int, str]]]:
    """(blocks that have all trials of the pairs, blocks that are out and why)."""
    wanted = list(dict.fromkeys(case for pair in pairs for case in pair))
    blocks = sorted({block for case, block in by_place if case in wanted})
    whole, broken = [], []
    for block in blocks:
        absent = [case for case in wanted if (case, block) not in by_place]
        refused = [
            by_place[case, block].trial
            for case in wanted
            if (case, block) in by_place and by_place[case, block].verdict.instrument == "REFUSED"
        ]
        if refused:
            broken.append((block, f"{', '.join(refused)} REFUSED"))
        elif absent:
            broken.append((block, f"no trial of {', '.join(absent)}"))
        else:
            whole.append(block)
    return whole, broken


def _no_ratio(baseline: Estimate | None, treatment: Estimate | None) -> str:
    for one in (baseline, treatment):
        if one is None:
            return "it was not measured in every case"
        if one.value is None:
            return one.reason
        if one.value <= 0:
            return "a value is 0, which has no ratio"
    return ""


def _value(estimate: Estimate | None) -> float:
    if estimate is None or estimate.value is None:
        raise ValueError("a metric without a number has no logarithm")
    return estimate.value


def _units(gathered: Mapping[int, _Gathered]) -> list[list[float]]:
    """Blocks that share a bring-up are one unit: the highest level that was re-randomised (METHOD §2)."""
    units: list[_Gathered] = []
    for one in gathered.values():
        shared = [unit for unit in units if unit.plots & one.plots]
        joined = _Gathered(list(one.logs), set(one.plots))
        for unit in shared:
            joined.logs += unit.logs
            joined.plots |= unit.plots
            units.remove(unit)
        units.append(joined)
    return [unit.logs for unit in units]


def _success(
    pairs: Sequence[tuple[str, str]],
    blocks: Sequence[int],
    by_place: Mapping[tuple[str, int], TrialResult],
    names: Mapping[str, str],
) -> tuple[float | None, float | None]:
    """Mean success rate of the metric's group on either side (baseline, treatment)."""
    sides: list[float | None] = []
    for side in (0, 1):
        found = [
            by_place[pair[side], block].metrics.get(f"{names[pair[side]].split('.')[0]}.success_rate")
            for block in blocks
            for pair in pairs
        ]
        values = [one.value for one in found if one is not None and one.value is not None]
        sides.append(float(np.mean(values)) if values else None)
    return sides[0], sides[1]


def _claim(
    lock: Lock,
    contrast: Contrast,
    evidence: Evidence,
    p: float | None,
    p_adjusted: float,
    smallest_p: float,
    claims: int,
    configs: Mapping[str, CaseConfig],
    certificate: AaCertificate | None,
) -> Claim:
    blocks = len(evidence.logs) or len(evidence.blocks)
    ratio = _ratio(evidence)
    enough = blocks >= least_blocks(lock.measure.replicates)
    decidable = bool(evidence.logs) and smallest_p <= limits.ALPHA and blocks >= contrast.least_blocks
    randomised = lock.measure.order == "randomised-blocks"
    floor = floor_of(certificate, lock, contrast, configs)
    under = floor is not None and ratio.value is not None and abs(log(ratio.value)) < floor.floor
    state = _state(evidence, enough, decidable, randomised, p_adjusted)
    state, told = _against_floor(state, floor, under, certificate)
    mde = (
        least_detectable(float(np.std(evidence.logs, ddof=1)), blocks, claims)
        if decidable and blocks > 1
        else None
    )
    failed, gate = _gate(contrast, ratio, state, configs)
    return Claim(
        name=contrast.name,
        factor=contrast.comparison.factor,
        baseline=contrast.comparison.baseline,
        treatment=contrast.treatment,
        metric=contrast.comparison.metric,
        pairs=evidence.pairs or contrast.pairs,
        blocks=blocks,
        ratio=ratio,
        p=p,
        p_adjusted=p_adjusted if p is not None else None,
        smallest_p=smallest_p if evidence.logs else None,
        mde=mde,
        mde_reason="" if mde is not None else f"undecidable at {blocks} blocks",
        state=state,
        success=evidence.success,
        sentence=_sentence(
            contrast, evidence, ratio, state, p_adjusted, smallest_p, claims, lock.measure, told
        )
        + gate,
        floor=floor.floor if floor else None,
        gated=contrast.comparison.fail_if is not None,
        failed=failed,
    )


def _against_floor(
    state: State, floor: Floor | None, under: bool, certificate: AaCertificate | None
) -> tuple[State, str]:
    """(state, what is told of the floor): an effect below it is no claim (METHOD §2)."""
    if floor is None:
        return state, FLOOR_UNKNOWN if certificate is None else FLOOR_UNKNOWN_HERE
    told = f"{'below' if under else 'above'} the floor of {floor_percent(floor)} that {floor.pairs} A/A pairs set"
    return "no claim" if state == "claim" and under else state, told


def _ratio(evidence: Evidence) -> Estimate:
    if not evidence.logs:
        return Estimate(value=None, n=len(evidence.blocks), reason=evidence.no_value or "no block is left")
    interval = mean_interval(evidence.logs)
    low, high = (exp(interval[0]), exp(interval[1])) if interval else (None, None)
    return Estimate(value=exp(float(np.mean(evidence.logs))), low=low, high=high, n=len(evidence.logs))


def _state(evidence: Evidence, enough: bool, decidable: bool, randomised: bool, p_adjusted: float) -> State:
    if not evidence.pairs or not enough:
        return "refused"
    if evidence.no_value:
        return "no claim"
    if not decidable:
        return "undecidable"
    return "claim" if randomised and p_adjusted <= limits.ALPHA else "no claim"


def _sentence(
    contrast: Contrast,
    evidence: Evidence,
    ratio: Estimate,
    state: str,
    p_adjusted: float,
    smallest_p: float,
    claims: int,
    measure: Measure,
    floor_told: str,
) -> str:
    comparison = contrast.comparison
    parts = [_effect(contrast, evidence, ratio)]
    over = after_holm(claims)
    if not contrast.pairs:
        parts.append("No two of its cases were part of this run: nothing is compared.")
    elif state == "refused":
        parts.append("Too few trials that can be believed are left: nothing is compared.")
    elif evidence.no_value:
        parts.append("Nothing is claimed of the ratio.")
    elif state == "undecidable":
        needed = max(blocks_needed(claims), contrast.least_blocks)
        usable, units = len(evidence.blocks), len(evidence.logs)
        parts.append(undecided(usable, measure.replicates, units, smallest_p, claims, needed))
    elif measure.order != "randomised-blocks":
        parts.append("Trials ran as listed, so drift is inside this difference: nothing is claimed.")
    elif state == "claim":
        parts.append(f"p = {p_adjusted:.2g} {over} ({floor_told}).")
    elif floor_told.startswith("below") and p_adjusted <= limits.ALPHA:
        parts.append(f"It is {floor_told}: nothing is claimed (p = {p_adjusted:.2g} {over}).")
    else:
        parts.append(_not_significant(ratio, p_adjusted, over))
    parts += told_of_success(comparison.baseline, contrast.treatment, evidence.success)
    if evidence.weak:
        parts.append(f"{evidence.weak} of its trials {'is' if evidence.weak == 1 else 'are'} WEAK.")
    parts += [f"{note[0].upper()}{note[1:]}." for note in evidence.missing]
    return " ".join(parts)


def _effect(contrast: Contrast, evidence: Evidence, ratio: Estimate) -> str:
    comparison, cases = (
        contrast.comparison,
        f"{len(evidence.pairs)} matched case{'' if len(evidence.pairs) == 1 else 's'}",
    )
    head = f"{contrast.name}: {comparison.metric} with {contrast.treatment}"
    if ratio.value is None:
        return f"{head} has no ratio to {comparison.baseline}: {ratio.reason}."
    interval = (
        f", 95 % interval {ratio.low:.3g} to {ratio.high:.3g}"
        if ratio.low is not None and ratio.high is not None
        else ""
    )
    robust = f", Hodges–Lehmann {exp(hodges_lehmann(evidence.logs)):.3g}" if len(evidence.logs) > 2 else ""
    return f"{head} is {ratio.value:.3g} × that with {comparison.baseline} ({len(evidence.logs)} blocks, {cases}{interval}{robust})."


def _not_significant(ratio: Estimate, p_adjusted: float, over: str) -> str:
    bound = any_difference(ratio.low, ratio.high)
    return (
        f"{bound or 'Not significant'} (p = {p_adjusted:.2g} {over}{', not significant' if bound else ''})."
    )


def told_of_success(baseline: str, treatment: str, success: tuple[float | None, float | None]) -> list[str]:
    """Time and success are judged together (METHOD §2): a sentence where success differs."""
    before, after = success
    if before is None or after is None or abs(before - after) < limits.SUCCESS_DIFFERS:
        return []
    return [
        f"Success differs: {100 * after:.4g} % with {treatment}, {100 * before:.4g} % with {baseline}; failures rank above every limit."
    ]


def _gate(
    contrast: Contrast, ratio: Estimate, state: str, configs: Mapping[str, CaseConfig]
) -> tuple[bool, str]:
    """(failed, what is told) of `fail_if`: it fails where a claim's whole interval lies beyond the margin."""
    text = contrast.comparison.fail_if
    found = _FAIL_IF.match(text) if text else None
    if not found:
        return False, ""
    margin = float(found[2]) / 100
    beyond = (
        ratio.low is not None
        and ratio.high is not None
        and _beyond(found[1], margin, ratio.low, ratio.high, _better(contrast, configs))
    )
    if state == "claim" and beyond:
        return True, f" FAILED: {text}."
    return False, f" “{text}” is not shown."


def _better(contrast: Contrast, configs: Mapping[str, CaseConfig]) -> str:
    config = next(configs[pair[0]] for pair in contrast.pairs if pair[0] in configs)
    return metric_of(contrast.comparison.metric, config).metric.better


def _beyond(direction: str, margin: float, low: float, high: float, better: str) -> bool:
    above, under = low > 1 + margin, high < 1 - margin
    if direction == "different" or better == "neither":
        return above or under
    worse_is_above = better == "lower"
    return above if (direction == "worse") == worse_is_above else under
