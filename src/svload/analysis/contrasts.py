"""A study's planned comparisons as contrasts, and what their number of blocks can decide before anything has run (METHOD §2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from svload.analysis import limits
from svload.analysis.families import blocks_needed, holm, smallest_sign_flip_p
from svload.model.certificates import Floor
from svload.model.results import Claim
from svload.model.study import Comparison, Lock

NO_LAST_RUN = "no run or A/A of this lab is known yet, so its noise isn't either"
HARD = ("restart", "rebuild")


@dataclass(frozen=True)
class Contrast:
    """One claim to be: a treatment level against the baseline, over matched cases (baseline's case, treatment's case)."""

    name: str
    comparison: Comparison
    treatment: str
    pairs: tuple[tuple[str, str], ...]
    hard: bool

    @property
    def least_blocks(self) -> int:
        """Bring-ups that a claim about a restarting factor needs; 1 for others, whose p alone decides."""
        return limits.CLAIM_BRING_UPS if self.hard else 1


def contrasts_of(lock: Lock) -> tuple[Contrast, ...]:
    """One per contrast, matched cases pooled, or with `per: case` one per matched pair. Their number is the family of Holm's test."""
    return tuple(contrast for comparison in lock.comparisons for contrast in _contrasts(lock, comparison))


def _contrasts(lock: Lock, comparison: Comparison) -> list[Contrast]:
    factor = next((factor for factor in lock.factors if factor.name == comparison.factor), None)
    if factor is None:
        return []
    treatments = [level.name for level in factor.levels if level.name != comparison.baseline]
    found = []
    for treatment in treatments:
        name = comparison.name if len(treatments) == 1 else f"{comparison.name}: {treatment}"
        pairs = matched_pairs(lock, comparison, treatment)
        hard = factor.change in HARD
        if comparison.per == "case":
            found += [
                Contrast(f"{name} ({pair[1]} against {pair[0]})", comparison, treatment, (pair,), hard)
                for pair in pairs
            ]
        else:
            found.append(Contrast(name, comparison, treatment, tuple(pairs), hard))
    return found


def matched_pairs(lock: Lock, comparison: Comparison, treatment: str) -> list[tuple[str, str]]:
    """Valid cases that differ in the compared factor alone."""
    by_levels = {tuple(sorted(case.levels.items())): case.name for case in lock.valid_cases}
    pairs = []
    for case in lock.valid_cases:
        others = {name: level for name, level in case.levels.items() if name != comparison.factor}
        wanted = {name: level for name, level in comparison.when.items() if name != comparison.factor}
        if case.levels[comparison.factor] != comparison.baseline or any(
            others.get(name) != level for name, level in wanted.items()
        ):
            continue
        match = by_levels.get(tuple(sorted({**case.levels, comparison.factor: treatment}.items())))
        if match is not None:
            pairs.append((case.name, match))
    return pairs


def smallest_adjusted(blocks: Sequence[int]) -> list[float]:
    """The smallest p each claim can reach after Holm if all come out as clear as their blocks allow."""
    return holm([smallest_sign_flip_p(count) for count in blocks])


def plan_comparisons(
    lock: Lock, before: Sequence[Claim] = (), floors: Callable[[Contrast], Floor | None] | None = None
) -> list[dict[str, Any]]:
    """Per planned contrast, before the run: what its blocks can decide.

    Keys: name, comparison, factor, baseline, treatment, metric, pairs (count), blocks, claims, smallest_p (after Holm), mde (relative
    effect; null with mde_reason), state ("decidable" | "undecidable"), needed_blocks, sentence. `before`: an earlier run's claims.
    `floors` finds a contrast's figures in an A/A certificate, which tells how much replicates differ where there is no last run.
    """
    contrasts = contrasts_of(lock)
    blocks = lock.measure.replicates
    smallest = smallest_adjusted([blocks if contrast.pairs else 0 for contrast in contrasts])
    return [
        _plan(lock, contrast, p, len(contrasts), before, floors(contrast) if floors else None)
        for contrast, p in zip(contrasts, smallest, strict=True)
    ]


def _plan(
    lock: Lock,
    contrast: Contrast,
    smallest_p: float,
    claims: int,
    before: Sequence[Claim],
    floor: Floor | None,
) -> dict[str, Any]:
    blocks = lock.measure.replicates
    needed = max(blocks_needed(claims), contrast.least_blocks)
    decidable = bool(contrast.pairs) and smallest_p <= limits.ALPHA and blocks >= contrast.least_blocks
    mde, reason = (
        _expected_mde(contrast, blocks, claims, before, floor)
        if decidable
        else (None, f"undecidable at {blocks} blocks")
    )
    sentence = f"{contrast.name}: {contrast.comparison.metric}, {_cases(len(contrast.pairs))} in {blocks} block{'' if blocks == 1 else 's'}: "
    if not contrast.pairs:
        sentence += "no case matches, so nothing can be compared."
    elif not decidable:
        sentence += f"undecidable at {blocks} blocks (smallest p {smallest_p:.3g} after Holm over {claims}); nothing will be claimed, {needed} blocks would do."
    else:
        detects = (
            f"detects {100 * mde:.3g} % or more"
            if mde is not None
            else f"least detectable effect unknown: {reason}"
        )
        sentence += f"decidable (smallest p {smallest_p:.3g} after Holm over {claims}); {detects}."
    return {
        "name": contrast.name,
        "comparison": contrast.comparison.name,
        "factor": contrast.comparison.factor,
        "baseline": contrast.comparison.baseline,
        "treatment": contrast.treatment,
        "metric": contrast.comparison.metric,
        "pairs": len(contrast.pairs),
        "blocks": blocks,
        "claims": claims,
        "smallest_p": smallest_p,
        "mde": mde,
        "mde_reason": reason,
        "state": "decidable" if decidable else "undecidable",
        "needed_blocks": needed,
        "sentence": sentence,
    }


def _cases(count: int) -> str:
    return f"{count} matched case{'' if count == 1 else 's'}"


def _expected_mde(
    contrast: Contrast, blocks: int, claims: int, earlier: Sequence[Claim], floor: Floor | None
) -> tuple[float | None, str]:
    """(least detectable effect, or None and why). An effect below the lab's own floor is no claim, however many blocks there are."""
    before = next((claim for claim in earlier if claim.name == contrast.name), None)
    if before is None and floor is None:
        return None, NO_LAST_RUN
    from svload.analysis.inference import least_detectable, sd_of_interval

    if before is None or before.ratio.low is None or before.ratio.high is None:
        mde = least_detectable(floor.sd, blocks, claims) if floor else None
        return (None, NO_LAST_RUN) if floor is None or mde is None else (max(mde, exp(floor.floor) - 1), "")
    sd = sd_of_interval(before.ratio.low, before.ratio.high, before.blocks)
    return (least_detectable(sd, blocks, claims), "") if sd is not None else (None, NO_LAST_RUN)
