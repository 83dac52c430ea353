"""The evidence in a contrast's pairs: effect and interval over several fits, guards of "no difference",
carry-over from one trial to the next, heterogeneity, and how much more would decide it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p, sqrt

import numpy as np
from scipy.special import fdtrc, stdtr

from svload.analysis import limits
from svload.analysis.claims.pairs import Floats, Gathered
from svload.analysis.claims.statistic import (
    Effect,
    apart,
    dilution,
    effect_of,
    fits_of,
    largest_p,
    leaning,
    p_of_distance,
    span,
    stretched,
    weights,
)
from svload.analysis.claims.turned import Control, Guard
from svload.analysis.claims.turns import BlockEffect, block_weights
from svload.analysis.inference import sign_flip_p, t_reach
from svload.model.pairs import CarryOver, Strangers
from svload.model.results import TrialResult

_UNREAD = Strangers(readable=False)


@dataclass(frozen=True)
class Shown:
    """A contrast's effect. `fits`: first as measured, then without the generator's delays, and each with all
    broken pairs at the least and at the greatest ratio of the others: p is the largest of theirs, and the
    interval covers all of theirs. `alike`: the effect in which all pairs, or all requests, have equal weight;
    `alike_as` says which. `guards`: what else may prevent a pass. `control`: the baseline against itself,
    which the fits take into account; None: the study has none, or it has no result. `no_answer`: why turns
    give no answer at all, as a clause."""

    fits: tuple[Effect, ...]
    alike: Effect
    strangers: Strangers = _UNREAD
    broken: int = 0
    p: float | None = None
    p_check: float | None = None
    without_lag: float | None = None
    alike_as: str = "with equal weights it is {ratio:.3g} ×, so its disturbed pairs contradict it"
    guards: tuple[Guard, ...] = ()
    control: Control | None = None
    no_answer: str = ""

    @property
    def effect(self) -> Effect:
        return self.fits[0]

    @property
    def mean(self) -> float | None:
        """Return the mean log ratio; None without a pair that counts."""
        mean = float(self.effect.mean)
        return None if np.isnan(mean) else mean

    @property
    def units(self) -> int:
        return int(self.effect.units)

    def interval(self, claims: int = 1) -> tuple[float, float] | None:
        """Return the interval of the log ratio, over all fits: 95 % for one claim, or for each of `claims`
        together."""
        low, high = map(float, span(self.fits, claims))
        return None if np.isnan(low) else (low, high)

    def far(self, claims: int = 1) -> tuple[float, float] | None:
        """Return the interval as it may be without other programs: the one that has to lie within a
        margin."""
        interval = self.interval(claims)
        if interval is None:
            return None
        low, high = stretched(*interval, self.strangers.dilution)
        return float(low), float(high)

    def guarded(
        self, low: float | None, high: float | None, interval: tuple[float, float] | None
    ) -> list[str]:
        """Return what the guards say that hold back an interval within these margins, as clauses."""
        return [one.why for one in self.guards if one.holds_back(interval, low, high)]

    def held_back(self, low: float | None, high: float | None, interval: tuple[float, float] | None) -> str:
        """Return why an interval within these margins is neither "no difference" nor a pass, as a clause;
        empty where it is.

        Cases differ in their effects, so the mean of those that kept their pairs shows nothing about the
        others.
        """
        left_out = int(np.sum(~np.asarray(self.effect.kept, dtype=bool)))
        texts = (
            [f"{left_out} of its {np.size(self.effect.kept)} cases have too few pairs"] if left_out else []
        )
        if self.broken:
            texts.append(f"{self.broken} of its pairs {'is' if self.broken == 1 else 'are'} broken")
        if apart(self.alike, low, high):
            ratio = exp(float(self.alike.mean))
            texts.append(self.alike_as.format(ratio=ratio))
        if self.strangers.dilution > limits.DILUTION_MOST:
            texts.append("other programs used too much of the machine")
        return " and ".join((*texts, *self.guarded(low, high, interval)))

    def p_beyond(self, margin: float, upward: bool) -> float:
        """Return p that the true log ratio is not above `margin` (below it where not `upward`): two-sided, as
        for the interval."""
        far = [max((float(one.mean) - margin) * (1 if upward else -1), 0.0) for one in self.fits]
        found = [float(p_of_distance(distance, one)) for distance, one in zip(far, self.fits, strict=True)]
        return 1.0 if any(np.isnan(p) for p in found) else max(found)


def shown(found: Gathered, blocked: bool, results: Sequence[TrialResult] = ()) -> Shown:
    """Return the effect of a contrast's pairs. `blocked` is false where trials ran as listed: then nothing is
    decided, and there is no p. `results` identify the other programs."""
    least = _least_scatter(found)
    alike = effect_of(found.logs, found.unit, least=least)
    if not blocked:
        return Shown((alike,), alike)
    weight, strangers = _weighed(found, results)
    broken = found.broken & bool((~np.isnan(found.logs)).any())
    fits = fits_of(found.logs, found.clean, broken, weight, found.unit, least)
    lagged = not np.array_equal(found.logs, found.clean, equal_nan=True)
    p = float(largest_p(fits))
    return Shown(
        fits, alike, strangers, int(broken.sum()), None if np.isnan(p) else p, _flips(found.logs, weight),
        float(fits[1].mean) if lagged and np.isfinite(fits[1].mean) else None,
    )  # fmt: skip


def shown_in_turns(
    found: Gathered, blocks: Sequence[Sequence[BlockEffect]], guards: Sequence[Guard] = ()
) -> Shown:
    """Return the effect where both sides of each pair took turns: `blocks` by cell and block as in `found`,
    which tells what the pairs lack, their units, and the generator's own delays. Strangers affected both
    sides alike, so they are reported but have no weight."""
    effects, errors, pooled, clean = (
        np.array([[getattr(one, name) for one in cell] for cell in blocks])
        for name in ("effect", "error", "pooled", "clean")
    )
    there = ~np.isnan(found.logs) & ~np.isnan(effects)
    effects, pooled = (np.where(there, one, np.nan) for one in (effects, pooled))
    weight = block_weights(effects, errors)
    # Delays of a sample of the requests are known for whole trials only.
    clean = np.where(np.isnan(clean), effects - (found.logs - found.clean), np.where(there, clean, np.nan))
    lagged = not np.array_equal(effects, clean, equal_nan=True)
    broken = found.broken & bool(there.any())
    least = _least_scatter(found)
    fits = fits_of(effects, clean, broken, weight, found.unit, least)
    p = float(largest_p(fits))
    rounds = [
        one.rounds
        for cell, known in zip(blocks, there, strict=True)
        for one, has in zip(cell, known, strict=True)
        if has
    ]
    own = []
    if rounds and min(rounds) < limits.TURN_ROUNDS:
        own.append(Guard(f"a block has {min(rounds)} rounds, {limits.TURN_ROUNDS} are needed"))
    if failing := int((there & np.isnan(pooled)).sum()):
        of_blocks = f"{failing} of {int(there.sum())} blocks"
        own.append(Guard(f"over all requests of {of_blocks} a side's percentile lies among its failures"))
    _, strangers = _weighed(found, ())
    return Shown(
        fits,
        effect_of(pooled, found.unit, least=least),
        strangers.model_copy(update={"dilution": 0.0}),
        int(broken.sum()),
        None if np.isnan(p) else p,
        _flips(effects, weight),
        float(fits[1].mean) if lagged and np.isfinite(fits[1].mean) else None,
        "over all requests together it is {ratio:.3g} ×, so some of its rounds contradict it",
        (*own, *guards),
    )


def _least_scatter(found: Gathered) -> float:
    """Return the least scatter of a pair, from the step between possible values of its numbers."""
    return float(np.mean(found.step)) * sqrt(found.strangers.shape[-1] / 12) if len(found.step) else 0.0


def _weighed(found: Gathered, results: Sequence[TrialResult]) -> tuple[Floats, Strangers]:
    """Return the weight of each pair, and the other programs that determine it."""
    there = ~np.isnan(found.logs)
    alike = np.ones_like(found.logs)
    x = np.where(there[..., None], found.strangers, np.nan)
    worse = x[there].max(axis=-1)
    known = ~np.isnan(worse)
    if not known.all() or not len(known):
        return alike, Strangers(
            readable=False,
            unread=found.unread,
            mean=float(worse[known].mean()) if known.any() else 0.0,
            dilution=float(dilution(x, alike, found.percentile)),
        )
    weight = weights(x, found.percentile)
    w = np.where(there, weight, 0.0)
    return weight, Strangers(
        readable=True,
        unread=found.unread,
        mean=float((w[there] * worse).sum() / w.sum()),
        most=float(worse.max()),
        sides=(float(x[there][:, ::2].mean()), float(x[there][:, 1::2].mean())),
        lean_p=float(leaning(x)),
        calm_pairs=float(w.sum()),
        dilution=float(dilution(x, w, found.percentile)),
        who=_who(found, results),
    )


def _who(found: Gathered, results: Sequence[TrialResult]) -> str:
    """Return `python3, 8 of 12 pairs`: the busiest other program of most pairs."""
    who = {
        one.trial: check.who.partition(" ")[0].rstrip(",")
        for one in results
        for check in one.verdict.checks
        if check.check == "others-cpu" and check.who
    }
    of_pairs = ({who.get(pair.baseline), who.get(pair.treatment)} - {None} for pair in found.evidence)
    counts = Counter(name for names in of_pairs for name in sorted(map(str, names)))
    return next((f"{name}, {n} of {len(found.evidence)} pairs" for name, n in counts.most_common(1)), "")


def _flips(logs: Floats, weight: Floats) -> float | None:
    """Return p by flipping the signs of single pairs: a check, exact where the treatment has no effect
    anywhere."""
    w = np.where(np.isnan(logs), 0.0, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(w > 0, w * logs / w.sum(axis=1, keepdims=True), 0.0)[w > 0]
    return sign_flip_p(parts) if len(parts) else None


def after_each_other(found: Gathered, one: Shown) -> CarryOver | None:
    """Return the ratio with the side that ran just before as a term of a least-squares line over units; None
    with fewer than `ADJUST_UNITS` units, where servers restart between trials, or where all orders are the
    same.

    A trial that leaves a queue, a full cache or a hot core behind changes the next one: if the treatment
    leaves more, the baseline that follows looks slow. A test for that before the effect misses most of it
    (Freeman 1989). The line has one term for what either side leaves, and changes the decision where its
    ratio does; or one term per side, which costs more power, and so counts only where such a term is surely
    not zero.
    """
    known = ~np.isnan(found.logs) & ~np.isnan(found.after).any(axis=-1)
    if found.contrast.hard or one.units < limits.ADJUST_UNITS or not known.any():
        return None
    weight = np.where(known, _weighed(found, ())[0], 0.0)
    y, heavy = _by_unit(found, found.logs, weight)
    sides = np.column_stack([_by_unit(found, found.after[..., side], weight)[0] for side in (0, 1)])
    common = _line(y, (sides[:, 1] - sides[:, 0])[:, None], heavy)
    if common is None:
        return None
    each = _line(y, sides - np.array([-0.5, 0.5]), heavy)
    differs = _decides_otherwise(one, *common[0])
    if each is not None and each[1] < limits.APART_P and _decides_otherwise(one, *each[0]):
        common, differs = each, True
    low, high = common[0]
    return CarryOver(ratio=exp((low + high) / 2), low=exp(low), high=exp(high), differs=differs)


def _by_unit(found: Gathered, values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return for each unit how its pairs deviate from their cases' means, plus the mean over cases; and its
    weight."""
    unit, kept = np.asarray(found.unit), weight.sum(axis=1) > 0
    w, v = weight[kept], np.where(weight > 0, values, 0.0)[kept]
    means = (w * v).sum(axis=1) / w.sum(axis=1)
    belongs = (unit[:, None] == np.unique(unit)).astype(float)
    heavy = (w @ belongs).sum(axis=0)
    away = ((w * (v - means[:, None])) @ belongs).sum(axis=0)
    return np.where(heavy > 0, away / np.maximum(heavy, 1e-12), 0.0) + float(means.mean()), heavy


def _line(y: Floats, terms: Floats, heavy: Floats) -> tuple[tuple[float, float], float] | None:
    """Return (95 % interval of `y` where all terms are 0, least p of a term); None where terms cannot be
    separated."""
    x = np.column_stack([np.ones(len(y)), terms]) * np.sqrt(heavy)[:, None]
    freedom = int((heavy > 0).sum()) - x.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(x, tol=1e-6) < x.shape[1]:
        return None
    inverse = np.linalg.inv(x.T @ x)
    slopes = inverse @ x.T @ (y * np.sqrt(heavy))
    scatter = float(((y * np.sqrt(heavy) - x @ slopes) ** 2).sum()) / freedom
    se = np.sqrt(np.maximum(scatter * np.diag(inverse), 1e-18))
    half = t_reach(freedom) * float(se[0])
    p = 2 * stdtr(freedom, -np.abs(slopes[1:]) / se[1:])
    return (float(slopes[0]) - half, float(slopes[0]) + half), float(p.min())


def _decides_otherwise(one: Shown, low: float, high: float) -> bool:
    plain = one.interval()
    return plain is not None and _side(*plain) != _side(low, high)


def _side(low: float, high: float) -> int:
    return 1 if low > 0 else -1 if high < 0 else 0


def cases_range(found: Gathered) -> tuple[float, float] | None:
    """Return the least and the greatest ratio of a matched case where the cases differ by more than chance (F
    over cases, blocks taken out)."""
    rows = found.logs[effect_of(found.logs, found.unit).kept]
    cases, there = len(rows), ~np.isnan(rows)
    if cases < 2:
        return None
    means = np.nanmean(rows, axis=1)
    filled = there.any(axis=0)
    columns = (rows - means[:, None])[:, filled]
    within = columns - np.nanmean(columns, axis=0)
    freedom = int(there.sum()) - cases - (int(filled.sum()) - 1)
    if freedom < 1:
        return None
    error = float(np.nansum(within**2)) / freedom
    number = there.sum(axis=1)
    centre = float(np.average(means, weights=number))
    between = float(np.sum(number * (means - centre) ** 2)) / (cases - 1)
    if between <= 1e-18 or (
        error > 0 and float(fdtrc(cases - 1, freedom, between / error)) >= limits.CASES_DIFFER_P
    ):
        return None
    return exp(float(means.min())), exp(float(means.max()))


def units_needed(one: Shown, claims: int, margin: float, gate: float | None) -> int | None:
    """Return the number of units that, given the scatter seen, would decide the effect seen four times in
    five, or show that there is no difference.

    `margin`: log ratio within which there is none; `gate`: the log ratio of a gate's margin, which has to be
    excluded on either side of it. None above `MOST_MORE_BLOCKS`.
    """
    mean = one.mean
    if mean is None or np.isnan(float(one.effect.se)):
        return None
    sd, pull = float(one.effect.se) * sqrt(one.units), one.strangers.dilution
    low: float | None = -margin
    high: float | None = margin
    if gate is not None:
        low, high = (gate, None) if gate < 0 else (None, gate)
    same_at_all = pull <= limits.DILUTION_MOST and not one.held_back(low, high, (mean, mean))

    def enough(n: int) -> bool:
        reach = t_reach(n - 1, limits.TAIL / claims) * sd / sqrt(n)
        likely = t_reach(n - 1, 1 - limits.POWER) * sd / sqrt(n)
        same = same_at_all and (abs(mean) + reach) / (1 - pull) <= margin
        if gate is None:
            return abs(mean) >= reach + likely or same
        toward = mean if gate > 0 else -mean
        beyond = toward - abs(gate) >= reach + likely
        return beyond or (same_at_all and (toward + reach + likely) / (1 - pull) <= abs(gate))

    more = range(one.units + 1, one.units + limits.MOST_MORE_BLOCKS)
    return next((n for n in more if enough(n)), None)


def no_difference_margin(fail_if: float | None) -> float:
    """Return the log ratio within which a difference counts as none: the gate's margin, else 5 %. The lab's
    own noise never widens it: the noisier the lab, the less it can show."""
    return log1p(limits.NO_DIFFERENCE if fail_if is None else fail_if)
