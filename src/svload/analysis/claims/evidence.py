"""What a contrast's pairs show: effect and bounds, leaning refusals, carry-over, heterogeneity, and
what would overturn or decide it."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log1p, sqrt

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from svload.analysis import limits
from svload.analysis.claims.gathered import Floats, Gathered, cell_means
from svload.analysis.claims.statistic import (
    Effect,
    effect_of,
    half_width,
    p_of,
    p_of_distance,
    unit_values,
    whole_units,
)
from svload.analysis.inference import (
    hodges_lehmann,
    permutation_over_cases_p,
    sign_flip_p,
    sign_test_p,
    welch_over_cases,
)
from svload.model.pairs import CarryOver


@dataclass(frozen=True)
class Shown:
    """A contrast's effect. `below`, `above`: how far the true effect may lie from the mean by
    the numbers' own bounds; `leaning`, `left_out_leaning`: p that refusals, or what was left out, fall so
    unevenly on the two sides by chance; `worst`: where they lean, the effects with every such pair at its
    lowest and at its highest.
    """

    effect: Effect
    below: float = 0.0
    above: float = 0.0
    p: float | None = None
    leaning: float | None = None
    left_out_leaning: float | None = None
    holds: bool = True
    robust: float | None = None
    p_check: float | None = None
    blocked: bool = True
    worst: tuple[Effect, ...] = ()

    @property
    def mean(self) -> float | None:
        """The mean log ratio; None without a pair that counts."""
        mean = float(self.effect.mean)
        return None if np.isnan(mean) else mean

    @property
    def units(self) -> int:
        return int(self.effect.units)

    @property
    def lean(self) -> str:
        """What leans to one side, as a clause; empty: nothing does."""
        told = ("refusals lean", self.leaning), ("what was left out leans", self.left_out_leaning)
        return " and ".join(f"{what} to one side" for what, p in told if _lean(p))

    @property
    def leans(self) -> bool:
        """Refusals, or what was left out, lean to one side."""
        return bool(self.lean)

    @property
    def held_back(self) -> str:
        """Why neither “no difference” nor a gate's pass may be said, as a clause; empty: they may.

        Cases differ in their effects, so that the mean of those which kept their pairs says nothing of the others.
        """
        left_out = int(np.sum(~np.asarray(self.effect.kept, dtype=bool)))
        cases = f"{left_out} of its {np.size(self.effect.kept)} cases have too few pairs"
        return " and ".join(filter(None, (self.lean, cases if left_out else "")))

    def interval(self, claims: int = 1) -> tuple[float, float] | None:
        """Of the log ratio, widened by the numbers' bounds: 95 % for one claim, or for each of `claims` together.

        Where anything leans it reaches from the interval with all such pairs at their lowest to the
        one with all at their highest.
        """
        fits = [(float(one.mean), float(half_width(one, claims))) for one in (self.effect, *self.worst)]
        if self.mean is None or any(np.isnan(half) for _, half in fits):
            return None
        low, high = min(mean - half for mean, half in fits), max(mean + half for mean, half in fits)
        return low - self.below, high + self.above

    def p_beyond(self, margin: float, upward: bool) -> float:
        """p that the true log ratio is not above `margin` (below it where not
        `upward`): two-sided, as the interval's."""
        found = []
        for one in (self.effect, *self.worst):
            far = float(one.mean) - self.below - margin if upward else margin - float(one.mean) - self.above
            found.append(float(p_of_distance(max(far, 0.0), one)))
        return 1.0 if any(np.isnan(p) for p in found) else max(found)


def shown(found: Gathered, blocked: bool, pooled: tuple[Effect, float | None] | None = None) -> Shown:
    """The effect of a contrast's pairs; `blocked` is false where trials ran as listed: Welch on
    logs, and a permutation beside it.

    `pooled`: effect and p of flips by quantiles pooled over trials, which then stand for the pairs' own.
    """
    if pooled is not None and blocked:
        return _of_pooled(found, *pooled)
    below, above = (_mean_bound(found, one) for one in (found.below, found.above))
    if not blocked:
        return _unblocked(found, below, above)
    effect = effect_of(found.logs, found.unit)
    p = _against(effect, below, above)
    leanings = _leanings(found)
    refused, left_out = map(_lean, leanings)
    holds = True
    worst_fits: tuple[Effect, ...] = ()
    if p is not None and (refused or left_out):
        worst_fits = tuple(
            effect_of(_at_worst(found, up, refused, left_out), found.unit) for up in (True, False)
        )
        adverse = worst_fits[0 if effect.mean > 0 else 1]
        same = bool(np.sign(adverse.mean) == np.sign(effect.mean))
        worst = _against(adverse, below, above) if same else 1.0
        p = max(p, 1.0 if worst is None else worst)
        holds = p <= limits.ALPHA
    values, whole = unit_values(found.logs, found.unit), whole_units(found.logs, found.unit)
    return Shown(
        effect, below, above, p, *leanings, holds,
        exp(hodges_lehmann(values)) if len(values) else None,
        sign_flip_p(whole) if len(whole) else None,
        worst=worst_fits,
    )  # fmt: skip


def _leanings(found: Gathered) -> tuple[float | None, float | None]:
    """p of the sign tests on which side was refused more often, and of which more was left out; None:
    nothing was."""
    refused, left_out = found.refused_sides, found.left_out_sides
    return (
        sign_test_p(*refused) if sum(refused) else None,
        sign_test_p(*left_out) if sum(left_out) else None,
    )


def _lean(p: float | None) -> bool:
    return p is not None and p < limits.LEANING


def _of_pooled(found: Gathered, effect: Effect, p_flips: float | None) -> Shown:
    """What leans can't be filled in here, since a pooled quantile has no pairs: then nothing is claimed."""
    below, above = (_mean_bound(found, one) for one in (found.below, found.above))
    leanings = _leanings(found)
    leans = any(map(_lean, leanings))
    p = 1.0 if leans else _against(effect, below, above)
    return Shown(effect, below, above, p, *leanings, not leans, None, p_flips)


def _unblocked(found: Gathered, below: float, above: float) -> Shown:
    baseline, treatment = found.sides
    fitted = welch_over_cases(treatment, baseline) if len(found.cells) and len(found.cells[0]) == 2 else None
    if fitted is None:
        effect = effect_of(found.logs, found.unit)
        return Shown(effect, below, above, None, blocked=False)
    mean, se, freedom = (np.asarray(one) for one in fitted)
    effect = Effect(mean, se, freedom + 1, np.ones(len(found.cells), dtype=bool))
    return Shown(
        effect,
        below,
        above,
        _against(effect, below, above),
        p_check=permutation_over_cases_p(treatment, baseline),
        blocked=False,
    )


def _mean_bound(found: Gathered, bounds: Floats) -> float:
    """Mean over cases of the mean over each one's pairs."""
    means = [float(np.nanmean(row)) for row in bounds if not np.isnan(row).all()]
    return float(np.mean(means)) if means else 0.0


def _against(effect: Effect, below: float, above: float) -> float | None:
    p = float(p_of(effect, below if effect.mean > 0 else above))
    return None if np.isnan(p) else p


def _at_worst(found: Gathered, up: bool, refused: bool, left_out: bool) -> Floats:
    """The pairs at the bound adverse to an effect upwards, or to one downwards.

    `refused`: every refused pair, those too that were made anew since, at the refused number's own bound,
    else at that of the worst pair that counts. `left_out`: every pair of which requests were left out at
    the worst of its values with and without these, as if the disturbance had been the server's doing.
    """
    logs, side = found.logs, 0 if up else 1
    believed = logs[~np.isnan(logs)]
    if left_out:
        logs = np.where(np.isnan(found.disturbed[side]), logs, found.disturbed[side])
    if not refused:
        return logs
    worst = float(believed.min() if up else believed.max())
    bound = found.adverse[side]
    bound = np.where(np.isinf(bound), worst, bound)
    return np.where(np.isnan(logs), bound, logs)


def carry_over(found: Gathered) -> CarryOver | None:
    """The effects of neighbours in either order, each pair taken from its case's mean; None
    with fewer than three of an order.

    They differ where chance does not explain it and they tell different stories: opposite signs, or one less
    than half of the other. A 33-fold effect whose orders lie 2 % apart stays one.
    """
    means = dict(enumerate(found.logs))
    mean = float(np.mean([one for _, one in cell_means(found)])) if found.neighbours else 0.0
    orders: tuple[list[float], list[float]] = ([], [])
    for row, pair in found.neighbours:
        orders[pair.treatment_first].append(mean + pair.log_ratio - float(np.nanmean(means[row])))
    if min(map(len, orders)) < limits.CARRY_OVER_PAIRS:
        return None
    first, second = (float(np.mean(one)) for one in orders)
    fitted = welch_over_cases([orders[1]], [orders[0]])
    assert fitted is not None
    gap, se, freedom = fitted
    p = 0.0 if se == 0 and abs(gap) > 1e-12 else 1.0 if se == 0 else 2 * float(stdtr(freedom, -abs(gap) / se))
    weaker, stronger = sorted((first, second), key=abs)
    apart = weaker * stronger < 0 or abs(weaker) < abs(stronger) / 2
    return CarryOver(
        baseline_first=exp(first), treatment_first=exp(second), differ=p < limits.CARRY_OVER_P and apart, p=p
    )


def cases_range(found: Gathered) -> tuple[float, float] | None:
    """Least and largest ratio of a matched case where the cases differ by more than chance (F
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


def overturning_pairs(found: Gathered, one: Shown) -> int | None:
    """Least number of pairs whose sign, turned, leaves nothing decided: those that speak clearest first.
    None where it never gets there."""
    if one.mean is None:
        return None
    sign = 1.0 if one.mean > 0 else -1.0
    logs = found.logs.copy()
    places = list(np.argwhere(~np.isnan(logs)))
    places.sort(key=lambda place: -sign * logs[tuple(place)])
    for count, place in enumerate(places, start=1):
        logs[tuple(place)] *= -1
        effect = effect_of(logs, found.unit)
        p = _against(effect, one.below, one.above)
        if p is None or p > limits.ALPHA or effect.mean * sign <= 0:
            return count
    return None


def overturning_bias(one: Shown) -> float | None:
    """The common bias of all pairs that would bring the interval's near end to "no difference"."""
    interval = one.interval()
    if interval is None or interval[0] <= 0 <= interval[1]:
        return None
    return exp(min(abs(end) for end in interval)) - 1


def blocks_needed_by(one: Shown, claims: int, margin: float, gate: float | None) -> int | None:
    """Units with which, by the scatter seen, the effect seen would be decided four times in
    five, or shown to be no difference.

    `margin`: log ratio within which there is none; `gate`: the log ratio of a gate's margin, which has to be
    excluded. None above `MOST_MORE_BLOCKS`.
    """
    mean = one.mean
    if mean is None or np.isnan(float(one.effect.se)):
        return None
    sd = float(one.effect.se) * sqrt(one.units)
    bound = one.below if mean > 0 else one.above
    for n in range(one.units + 1, one.units + limits.MOST_MORE_BLOCKS):
        reach = float(stdtrit(n - 1, 1 - limits.TAIL / claims)) * sd / sqrt(n)
        likely = float(stdtrit(n - 1, limits.POWER)) * sd / sqrt(n)
        differs = abs(mean) - bound >= reach + likely
        same = abs(mean) + reach + max(one.below, one.above) <= margin
        gated = gate is None or abs(mean - gate) >= reach + likely + bound
        if (differs or same) and gated:
            return n
    return None


def no_difference_margin(fail_if: float | None, floor: float | None) -> float:
    """Log ratio within which a difference is none: the gate's margin, else 5 %, or the lab's
    own floor where that is larger."""
    return log1p(fail_if) if fail_if is not None else max(log1p(limits.NO_DIFFERENCE), floor or 0.0)
