"""Why a claim says what it says: its pairs, what was left out and why, and what would overturn or decide it. Lines of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import exp

from svload.analysis.claims.say import count
from svload.model.pairs import LostPair, PairRatio
from svload.model.results import Claim
from svload.model.units import show_duration


def claim_named(claims: Sequence[Claim], name: str) -> Claim | None:
    """The claim of that name, or the only one whose name begins so; upper and lower case are the same."""
    wanted = name.casefold().strip()
    whole = [claim for claim in claims if claim.name.casefold() == wanted]
    begun = [claim for claim in claims if claim.name.casefold().startswith(wanted)]
    return whole[0] if whole else begun[0] if len(begun) == 1 else None


def why_lines(claim: Claim) -> Iterator[str]:
    """The claim, its figures, every pair that counts, every one that does not."""
    yield claim.sentence
    yield ""
    yield from _figures(claim)
    yield ""
    yield f"{count(len(claim.evidence), 'pair')} that count{'s' if len(claim.evidence) == 1 else ''} ({claim.treatment} ÷ {claim.baseline}):"
    for unit, pairs in groupby(
        sorted(claim.evidence, key=lambda one: (one.unit, one.block)), lambda one: one.unit
    ):
        yield from _unit(claim, unit, list(pairs))
    if claim.lost:
        yield ""
        yield f"{count(len(claim.lost), 'pair')} left out:"
        yield from (_left_out(one) for one in claim.lost)


def _figures(claim: Claim) -> Iterator[str]:
    if claim.single is not None:
        yield f"95 % interval of this claim alone: {claim.single[0]:.4g} to {claim.single[1]:.4g}"
    if claim.robust is not None:
        yield f"Hodges–Lehmann: {claim.robust:.4g} ×"
    if claim.p is not None:
        check = (
            f"; sign flips over whole units {claim.p_sign_flip:.2g}" if claim.p_sign_flip is not None else ""
        )
        yield f"p = {claim.p:.2g}, {claim.p_adjusted:.2g} after Holm{check}"
    if claim.overturn_pairs is not None and claim.overturn_bias is not None:
        yield f"{count(claim.overturn_pairs, 'pair')} of the opposite sign would overturn it, or a common bias of {100 * claim.overturn_bias:.3g} %"
    if claim.carry_over is not None:
        first, second = claim.carry_over.baseline_first, claim.carry_over.treatment_first
        yield f"Neighbours: {first:.4g} × where {claim.baseline} ran first, {second:.4g} × where {claim.treatment} did"
    if claim.more_blocks is not None:
        takes = f", about {show_duration(claim.more_s)}" if claim.more_s is not None else ""
        yield f"{count(claim.more_blocks, 'more block')}{takes} would decide it by the scatter seen"
    if any(claim.refused_sides):
        before, after = claim.refused_sides
        yield f"Pairs refused by one side alone: {before} by {claim.baseline}, {after} by {claim.treatment}"
    if any(claim.overloaded):
        yield f"OVERLOADED trials: {claim.overloaded[0]} of {claim.baseline}, {claim.overloaded[1]} of {claim.treatment}"


def _unit(claim: Claim, unit: int, pairs: Sequence[PairRatio]) -> Iterator[str]:
    if claim.unit == "bring-up":
        yield f"  bring-up {unit}"
    for pair in pairs:
        against = f" over {pair.against[1]} ÷ {pair.against[0]}" if pair.against else ""
        bound = f" (true {exp(pair.log_ratio - pair.below):.4g} to {exp(pair.log_ratio + pair.above):.4g})" if pair.below or pair.above else ""  # fmt: skip
        yield f"  block {pair.block:>3}  {pair.treatment} ÷ {pair.baseline}{against}  {exp(pair.log_ratio):.4g} ×{bound}"


def _left_out(lost: LostPair) -> str:
    trials = ", ".join(lost.trials) or f"{lost.treatment}, {lost.baseline}"
    return f"  block {lost.block:>3}  {trials}: {lost.reason or lost.why}"
