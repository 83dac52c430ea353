"""The decisions on a study's planned comparisons, by the pairs of the judged trials (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, isfinite, sqrt
from typing import Literal, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.claims import gates
from svload.analysis.claims.evidence import (
    Shown,
    after_each_other,
    cases_range,
    no_difference_margin,
    shown,
    shown_in_turns,
    units_needed,
)
from svload.analysis.claims.gates import Better, Facts, Limit, limit_of, success_interval
from svload.analysis.claims.pairs import Gathered, Made, gather, names_of, seconds_a_trial, spread_of
from svload.analysis.claims.statistic import half_width, largest_p
from svload.analysis.claims.turned import Control, Guard, TurnedBlocks, read_by_turns, turned_blocks
from svload.analysis.contrasts import Contrast, confounding, contrasts_of
from svload.analysis.criteria import metric_of
from svload.analysis.floor import LabFloor, floor_of
from svload.analysis.inference import holm, least_detectable
from svload.model.certificates import AaCertificate
from svload.model.metrics import MetricRef
from svload.model.pairs import CarryOver, Gate, LostPair, SideSpread
from svload.model.results import Claim, ClaimTurns, Estimate, TrialResult
from svload.model.study import CaseConfig, Lock
from svload.study.check import owners_of
from svload.study.order import control_level

Outcome = Literal["decided", "no difference", "open", "refused"]


def metrics_of_claims(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, list[MetricRef]]:
    """Return by case the metrics that the study's comparisons use."""
    owners = owners_of(lock.source)
    return {
        name: [metric_of(comparison.metric, config, owners) for comparison in lock.comparisons]
        for name, config in configs.items()
    }


@dataclass(frozen=True)
class Judged:
    """One contrast on its way to a claim. `why_open`: what keeps it from being decided whatever its interval,
    as a clause.

    `confounded`: the same, where no number of blocks would help; empty: it is not confounded.
    """

    contrast: Contrast
    found: Gathered
    shown: Shown
    lab: LabFloor | None
    carry: CarryOver | None
    why_open: str
    confounded: str
    turned: TurnedBlocks | None = None
    """its blocks by turns; None: its sides took none, or its number is not one of single requests"""

    @property
    def floor(self) -> float | None:
        """Return the |log ratio| that a mean of as many units shows when the lab is compared with itself;
        None: no certificate fits."""
        return self.lab.of_mean(self.shown.units, self.found.bring_ups) if self.lab else None

    @property
    def under_floor(self) -> bool:
        """Return whether the effect is no larger than what the lab shows when compared with itself."""
        return self.floor is not None and self.shown.mean is not None and abs(self.shown.mean) < self.floor

    @property
    def units_above_floor(self) -> int | None:
        """Return the least number of units with a mean whose floor this effect would reach; None where no
        number does, 0 where it is reached."""
        if not self.under_floor or self.lab is None or not self.shown.mean:
            return 0 if not self.under_floor else None
        for n in range(self.shown.units + 1, self.shown.units + limits.MOST_MORE_BLOCKS):
            bring_ups = n if self.found.is_bring_up else self.found.bring_ups
            if self.lab.of_mean(n, bring_ups) <= abs(self.shown.mean):
                return n
        return None


def judge_claims(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made] | None = None,
    certificate: AaCertificate | None = None,
) -> tuple[Claim, ...]:
    """Judge every planned contrast on the judged trials. `made`: how each trial was made; `certificate` gives
    the lab's own noise.

    Where one side alone is beyond the timeout in every pair there is no ratio, but there is a decision:
    worse than any number. Its p is the largest probability that chance gives this to n units of which each
    has a half of its sides beyond, 2/4ⁿ.
    """
    made = made or {}
    judged = [_judged(lock, contrast, configs, trials, made, certificate) for contrast in contrasts_of(lock)]
    adjusted = holm([1.0 if one.shown.p is None else one.shown.p for one in judged])
    answers = gates.judge_gates([_gate_facts(one, configs) for one in judged])
    each_s = seconds_a_trial(trials, made, lock.measure.order == "turns")
    block_s = each_s * len(lock.valid_cases) if each_s else None
    decided = sum(p <= limits.ALPHA for p in adjusted)
    together = [
        _together(one, len(judged), decided, p <= limits.ALPHA)
        for one, p in zip(judged, adjusted, strict=True)
    ]
    return tuple(
        _claim(lock, one, configs, p, gate, len(judged), interval, block_s)
        for one, p, gate, interval in zip(judged, adjusted, answers, together, strict=True)
    )


class SoFar(NamedTuple):
    """What decides whether a contrast needs more blocks: half the width of its 95 % interval in logarithms (None: there
    is none yet), and whether its gate is decided at a level that no further block would change."""

    width: float | None
    decided: bool


def so_far(
    lock: Lock, configs: Mapping[str, CaseConfig], trials: Sequence[TrialResult], made: Mapping[str, Made]
) -> dict[str, SoFar]:
    """Return the state of each contrast. Only a gate of sides that took turns is decided before its interval is narrow."""
    found = {}
    contrasts = contrasts_of(lock)
    gates_asked = sum(_limit(contrast, configs) is not None for contrast in contrasts)
    for contrast in contrasts:
        _, effect, turned = _shown(lock, contrast, configs, trials, made)
        interval = effect.interval()
        enough = turned is not None and not effect.no_answer and effect.units >= limits.GATE_ENDS_FROM
        if enough and effect.control is not None:
            enough = not effect.control.prefers_a_side(_margin(contrast, configs))
        limit = _limit(contrast, configs) if enough else None
        decided = limit is not None and limit.decided_by(effect, gates_asked)
        found[contrast.name] = SoFar(None if interval is None else (interval[1] - interval[0]) / 2, decided)
    return found


Interval = tuple[float, float] | None


def _together(one: Judged, claims: int, decided: int, is_decided: bool) -> Interval:
    """Return the interval that holds for all claims together and agrees with Holm's p (Guilbaud 2008): for an
    open claim over the open ones, for a decided one over all, and on its own side of no difference."""
    interval = one.shown.interval(claims if is_decided else claims - decided)
    if interval is None or not is_decided or one.shown.mean is None:
        return interval
    if not interval[0] <= 0 <= interval[1]:
        return interval
    return (0.0, interval[1]) if one.shown.mean > 0 else (interval[0], 0.0)


def _judged(
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
    certificate: AaCertificate | None,
) -> Judged:
    blocked = lock.measure.blocked
    found, effect, turned = _shown(lock, contrast, configs, trials, made)
    if found.beyond and blocked and found.units >= contrast.least_units:
        effect = replace(effect, p=2.0 / 4.0**found.units)
    one_by_one = blocked and lock.measure.order != "turns"
    carry = after_each_other(found, effect) if one_by_one else None
    confounded = confounding(configs, contrast.pairs)
    why_open = _why_open(contrast, found, effect, carry, blocked) or effect.no_answer
    if not why_open and effect.control and effect.control.prefers_a_side(_margin(contrast, configs)):
        why_open = f"the setup favours a side ({effect.control.sentence(contrast.comparison.baseline)})"
    return Judged(
        contrast, found, effect, floor_of(certificate, lock, contrast, configs), carry,
        confounded or why_open, confounded, turned,
    )  # fmt: skip


def _controlled(
    effect: Shown,
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> Shown:
    """Return a contrast's effect, corrected by that of the baseline against its second server."""
    baseline = contrast.comparison.baseline
    against_itself = replace(contrast, treatment=control_level(baseline), cells=contrast.control, control=())
    found, own, _ = _shown(lock, against_itself, configs, trials, made)
    why = ""
    if found.late_pairs:
        pairs = f"{found.late_pairs} of {found.timed_out_of} pairs"
        why = f"{baseline} against itself: {pairs} have one side beyond the timeout"
    elif own.mean is None or own.interval() is None:
        why = f"{baseline} against itself: too few pairs are left"
    if why and found.beyond:
        return replace(effect, no_answer=effect.no_answer or f"the setup favours a side ({why})")
    if why:
        return replace(effect, guards=(*effect.guards, Guard(why)))
    control = Control(own.effect)
    fits = control.fits(effect.fits, _margin(contrast, configs))
    return replace(effect, fits=fits, p=None if effect.p is None else float(largest_p(fits)), control=control)


def _shown(
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> tuple[Gathered, Shown, TurnedBlocks | None]:
    """Return a contrast's pairs and their effect: by turns where its number was read that way, else by whole
    trials."""
    found = gather(lock, contrast, configs, trials, made)
    margin = _margin(contrast, configs)
    numbers = names_of(found.cells, contrast, configs, lock)
    of_trials = {name: one.turned for name, one in made.items()}
    turned = turned_blocks(found, trials, of_trials, numbers, margin)
    if turned is None:
        effect = shown(found, lock.measure.blocked, trials)
        beside = turned_blocks(found, trials, of_trials, _read_by_turns(found, lock, configs), margin)
        if beside is not None:
            effect = replace(effect, guards=beside.guards, no_answer=beside.too_short)
    else:
        found.evidence = turned.evidence(found)
        found.late_pairs = max(found.late_pairs, turned.late_pairs)
        effect = replace(shown_in_turns(found, turned.effects, turned.guards), no_answer=turned.too_short)
    if contrast.control:
        effect = _controlled(effect, lock, contrast, configs, trials, made)
    return found, effect, turned


def _read_by_turns(found: Gathered, lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, str]:
    """Return case → the number whose turns show what they can't tell about the compared one."""
    owners, metric = owners_of(lock.source), found.contrast.comparison.metric
    cases = {case for cell in found.cells for case in cell}
    refs = {case: read_by_turns(metric_of(metric, configs[case], owners)) for case in cases}
    return {case: str(ref) for case, ref in refs.items() if ref is not None}


def _why_open(
    contrast: Contrast, found: Gathered, effect: Shown, carry: CarryOver | None, blocked: bool
) -> str:
    """Return what keeps a claim open whatever its interval; empty where nothing does."""
    if found.mixed and not found.cells:
        return "a closed loop is never compared with an open one"
    if not found.cells:
        return "no two of its cases were part of this run"
    if found.beyond and blocked and found.units >= contrast.least_units:
        return ""
    if found.late_pairs:
        return (
            f"{found.late_pairs} of {found.timed_out_of} pairs reach beyond the timeout, and without them "
            f"the survivors would speak"
        )
    if effect.mean is None:
        return found.no_number if found.lost else "too few pairs are left"
    if without := _without_number(found, effect):
        return (
            f"{len(without)} of {len(found.evidence) + len(found.lost)} pairs have no ratio "
            f"({without[0].reason}), and without them the survivors would speak"
        )
    if effect.units < contrast.least_units:
        what = "bring-up" if found.is_bring_up else "block"
        return f"it has {effect.units} {what}{'' if effect.units == 1 else 's'}, {contrast.least_units} are needed"
    if not blocked:
        return "trials ran as listed, so drift is inside this difference"
    if carry is not None and carry.differs:
        return "it depends on which side ran just before"
    return ""


def _without_number(found: Gathered, effect: Shown) -> list[LostPair]:
    """Return the pairs without a number, such as a goodput of 0, of cases that have one in other blocks."""
    kept = {cell[:2] for cell, stays in zip(found.cells, effect.effect.kept, strict=True) if stays}
    return [one for one in found.lost if one.why == "no number" and (one.baseline, one.treatment) in kept]


def _gate_facts(one: Judged, configs: Mapping[str, CaseConfig]) -> Facts | None:
    limit = _limit(one.contrast, configs)
    if limit is None:
        return None
    comparison = one.contrast.comparison
    about = f"the effect on {comparison.metric}" if comparison.by else comparison.metric
    return Facts(about, limit, one.found, one.shown, one.floor, one.why_open)


def _limit(contrast: Contrast, configs: Mapping[str, CaseConfig]) -> Limit | None:
    return limit_of(contrast.comparison.fail_if, _better(contrast, configs))


def _better(contrast: Contrast, configs: Mapping[str, CaseConfig]) -> Better:
    config = next((configs[case] for case in contrast.cases if case in configs), None)
    return metric_of(contrast.comparison.metric, config).metric.better if config else "neither"


def _margin(contrast: Contrast, configs: Mapping[str, CaseConfig]) -> float:
    limit = _limit(contrast, configs)
    return no_difference_margin(limit.share if limit else None)


def _claim(
    lock: Lock,
    one: Judged,
    configs: Mapping[str, CaseConfig],
    p_adjusted: float,
    gate: Gate | None,
    claims: int,
    together: Interval,
    block_s: float | None,
) -> Claim:
    contrast, found, effect = one.contrast, one.found, one.shown
    facts = _gate_facts(one, configs)
    alone = effect.interval()
    margin = no_difference_margin(facts.limit.share if facts else None)
    outcome = _outcome(one, p_adjusted, claims, margin)
    is_open = outcome == "open"
    if gate is not None and gate.outcome == "open":
        is_open = facts is not None and gates.blocks_decide(facts)
    more = _more_blocks(lock, one, claims, margin, facts) if is_open else None
    sd = float(effect.effect.se) * sqrt(effect.units) if alone else None
    mde = least_detectable(sd, effect.units, claims) if sd is not None else None
    return Claim(
        name=contrast.name,
        factor=contrast.comparison.factor,
        baseline=contrast.comparison.baseline,
        treatment=contrast.treatment,
        metric=contrast.comparison.metric,
        pairs=contrast.pairs,
        blocks=found.units if found.beyond else effect.units,
        ratio=_ratio(one, together),
        p=effect.p,
        p_adjusted=p_adjusted if effect.p is not None else None,
        mde=mde,
        success=found.success,
        floor=one.floor,
        outcome=outcome,
        within=_within(effect.far(claims)),
        by=contrast.comparison.by,
        by_levels=contrast.by_levels,
        single=None if alone is None else (exp(alone[0]), exp(alone[1])),
        p_sign_flip=effect.p_check,
        unit="bring-up" if found.is_bring_up else "block",
        bring_ups=found.bring_ups,
        evidence=tuple(found.evidence),
        lost=tuple(found.lost),
        strangers=effect.strangers if lock.measure.blocked else None,
        without_lag=None if effect.without_lag is None else exp(effect.without_lag),
        alike=_alike(effect) if one.turned is None else None,
        turns=_turns(one, facts.limit if facts else None, margin),
        spread=_spread(found, _better(contrast, configs)),
        carry_over=one.carry,
        more_blocks=more,
        more_s=more * block_s if more is not None and block_s is not None else None,
        gate=gate,
        believed_of=(len(found.evidence), len(found.evidence) + len(found.lost)),
        range=cases_range(found),
        dropped_cases=_dropped(found, effect),
        timed_out=found.timed_out,
        overloaded=found.overloaded,
        success_interval=success_interval(found),
        why_open=_open_because(one, outcome, p_adjusted),
    )


def _outcome(one: Judged, p_adjusted: float, claims: int, margin: float) -> Outcome:
    if one.shown.mean is None and (
        not one.found.lost or any(lost.why == "broken" for lost in one.found.lost)
    ):
        return "refused"
    if one.why_open:
        return "open"
    if p_adjusted <= limits.ALPHA and not one.under_floor:
        return "decided"
    if p_adjusted > limits.ALPHA and _is_none(one, claims, margin):
        return "no difference"
    return "open"


def _is_none(one: Judged, claims: int, margin: float) -> bool:
    far = one.shown.far(claims)
    return far is not None and max(map(abs, far)) <= margin and not one.shown.held_back(-margin, margin, far)


def _open_because(one: Judged, outcome: Outcome, p_adjusted: float) -> str:
    if outcome in ("decided", "no difference"):
        return ""
    if one.why_open:
        return one.why_open
    if one.under_floor and p_adjusted <= limits.ALPHA:
        return "it is below what the lab shows against itself"
    return ""


def _turns(one: Judged, gate: Limit | None, margin: float) -> ClaimTurns | None:
    """Return what is shown beside a ratio by turns, with what holds back a pass or "no difference"."""
    if one.turned is None:
        return None
    mean, half = float(one.shown.alike.mean), float(half_width(one.shown.alike))
    known = not np.isnan(mean)
    ends = (exp(mean - half), exp(mean + half)) if known and not np.isnan(half) else (None, None)
    pooled = Estimate(
        value=exp(mean) if known else None,
        low=ends[0],
        high=ends[1],
        n=one.shown.units,
        reason="" if known else _no_pooled(one.turned),
    )
    return ClaimTurns(
        pooled=pooled,
        rounds=one.turned.rounds,
        in_flight=one.turned.in_flight,
        guards=tuple(
            one.shown.guarded(*((gate.low, gate.high) if gate else (-margin, margin)), one.shown.interval())
        ),
        control=_against_itself(one.shown.control),
    )


def _no_pooled(turned: TurnedBlocks) -> str:
    """Return why there is no ratio over all requests together."""
    if any(isfinite(block.pooled) for cell in turned.effects for block in cell):
        return f"no case has the {limits.CASE_UNITS} blocks that it needs"
    return "one side's percentile lies among its failures"


def _against_itself(control: Control | None) -> Estimate | None:
    if control is None:
        return None
    low, high = map(exp, control.interval)
    return Estimate(value=exp(float(control.effect.mean)), low=low, high=high, n=int(control.effect.units))


def _alike(effect: Shown) -> Estimate | None:
    """Return the ratio with all pairs weighed alike, where weights changed it."""
    mean, half = float(effect.alike.mean), float(half_width(effect.alike))
    if not effect.strangers.readable or np.isnan(half) or effect.strangers.lean_p < limits.LEANING:
        return None
    return Estimate(value=exp(mean), low=exp(mean - half), high=exp(mean + half), n=effect.units)


def _spread(found: Gathered, better: Better) -> tuple[SideSpread, SideSpread] | None:
    """Return the scatter of both sides' trials; the worst is the highest, or the lowest if more is better."""
    sides = spread_of(found)
    if min(map(len, sides)) < limits.CLAIM_BLOCKS:
        return None
    before, after = (
        SideSpread(
            sd=float(one.std(ddof=1)), worst=exp(float(one.min() if better == "higher" else one.max()))
        )
        for one in sides
    )
    return before, after


def _ratio(one: Judged, together: tuple[float, float] | None) -> Estimate:
    if one.shown.mean is None:
        return Estimate(value=None, n=one.shown.units, reason=one.why_open or _beyond(one), why="no ratio")
    low, high = (exp(together[0]), exp(together[1])) if together else (None, None)
    return Estimate(value=exp(one.shown.mean), low=low, high=high, n=one.shown.units)


def _beyond(one: Judged) -> str:
    side = one.contrast.treatment if one.found.beyond > 0 else one.contrast.comparison.baseline
    return f"{side} is beyond the timeout in all {one.found.timed_out_of} pairs, the other in none"


def _within(together: tuple[float, float] | None) -> float | None:
    return None if together is None else max(exp(together[1]) - 1, 1 - exp(together[0]))


def _dropped(found: Gathered, effect: Shown) -> tuple[str, ...]:
    kept = effect.effect.kept
    if len(kept) != len(found.cells):
        return ()
    return tuple(
        f"{cell[1]} against {cell[0]}" for cell, stays in zip(found.cells, kept, strict=True) if not stays
    ) + tuple(found.mixed)


def _more_blocks(lock: Lock, one: Judged, claims: int, margin: float, facts: Facts | None) -> int | None:
    """Return how many blocks beyond those made would decide an open claim or gate; None where no such number
    is known."""
    few = one.shown.mean is not None and one.shown.units < one.contrast.least_units
    if one.shown.mean is None or (one.why_open and not few) or one.confounded:
        return None
    gate = facts.limit.nearest(one.shown.mean) if facts and one.shown.mean is not None else None
    needed, above = units_needed(one.shown, claims, margin, gate), one.units_above_floor
    if needed is None or above is None:
        return None
    more = max(needed, above, one.contrast.least_units) - one.shown.units
    a_unit = lock.measure.replicates / max(one.found.bring_ups, 1) if one.found.is_bring_up else 1.0
    return ceil(more * max(a_unit, 1.0))
