"""A claim in words: direction and size, what may be said of it, and where it stands to the lab's own
noise. Short sentences, one a fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import log
from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.model.certificates import AaCertificate
from svload.model.results import Claim
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.analysis.floor import LabFloor

FLOOR_UNKNOWN = "floor unknown: exploratory"
FLOOR_UNKNOWN_HERE = "floor unknown for this metric at this load: exploratory"
_ALMOST_ALL = 0.9
"""Pairs that count as no fewer than this share of themselves need no word."""
_LAG_TOLD = 0.01
_MOST_PERCENT = 10.0
"""A share above which nobody reads percent."""


def sentence(claim: Claim, lab: LabFloor | None, certificate: AaCertificate | None, claims: int) -> str:
    """The claim read out: effect, outcome, floor, then what else belongs to it."""
    parts = [effect(claim), outcome(claim, claims)]
    if claim.ratio.value is not None:
        parts.append(against_floor(claim, lab, certificate))
    parts += notes(claim)
    return " ".join(part for part in parts if part)


def effect(claim: Claim) -> str:
    """Direction and size with the interval."""
    head = f"{claim.name}: {claim.metric} with {claim.treatment}"
    value, low, high = claim.ratio.value, claim.ratio.low, claim.ratio.high
    if value is None:
        return f"{head} has no ratio to {claim.baseline}: {claim.ratio.reason}."
    between = f" ({low:.3g} to {high:.3g})" if low is not None and high is not None else ""
    if claim.by_levels:
        return f"{claim.name}: the effect of {claim.treatment} on {claim.metric} is {value:.3g} × as large{between}."
    return f"{head} is {value:.3g} × that with {claim.baseline}{between}."


def outcome(claim: Claim, claims: int) -> str:
    """Decided, no difference larger than so much, or open with what would decide it."""
    p = f"p = {claim.p_adjusted:.2g} {after_holm(claims)}" if claim.p_adjusted is not None else ""
    rests = f"{count(len(claim.evidence), 'pair')} in {count(claim.blocks, claim.unit)}"
    if claim.outcome == "decided":
        return f"Decided: {p}, {rests}." if claim.ratio.value is not None else f"Decided: {p}."
    if claim.outcome == "no difference" and claim.within is not None:
        return f"No difference larger than {100 * claim.within:.3g} % ({rests})."
    if claim.outcome == "refused":
        return "Every pair is broken: nothing is compared." if claim.lost else "Nothing is compared."
    if claim.ratio.value is None:
        return "Nothing is claimed of the ratio."
    left = _leaves(claim.within) if claim.within is not None else ""
    told = "; ".join(part for part in (claim.why_open, left, p) if part)
    return f"Open: {told} ({rests})." + would_decide(claim)


def _leaves(within: float) -> str:
    """What an interval leaves possible; beyond 1,000 % as a factor."""
    if within > _MOST_PERCENT:
        return f"the interval reaches to {1 + within:,.0f} times"
    return f"any difference is below {100 * within:.3g} %"


def would_decide(claim: Claim) -> str:
    """How much more would decide an open claim or gate."""
    if claim.more_blocks is None:
        return ""
    takes = f" (about {show_duration(claim.more_s)})" if claim.more_s is not None else ""
    return f" By the scatter seen, {count(claim.more_blocks, 'more block')}{takes} would decide it."


def against_floor(claim: Claim, lab: LabFloor | None, certificate: AaCertificate | None) -> str:
    """Where it stands to the lab's own noise."""
    if lab is None or claim.floor is None or claim.ratio.value is None:
        told = FLOOR_UNKNOWN if certificate is None else FLOOR_UNKNOWN_HERE
        return f"{told[0].upper()}{told[1:]}."
    under = abs(log(claim.ratio.value)) < claim.floor
    side = "below" if under else "above"
    from svload.analysis.floor import floor_percent

    of = "" if claim.floor == lab.floor.floor else f" for a mean of {count(claim.blocks, claim.unit)}"
    alone = f"{floor_percent(lab.floor.floor)} for one pair, " if of else ""
    rests = f"{alone}{lab.floor.pairs} A/A pairs, {'certified' if lab.floor.certified else 'estimated'}"
    return (
        f"It is {side} the floor of {floor_percent(claim.floor)}{of} "
        f"({rests}){': nothing is claimed' if under else ''}."
    )


def notes(claim: Claim) -> Iterator[str]:
    """What else has to be said with it."""
    yield from _of_bring_ups(claim)
    yield from told_of_strangers(claim)
    if claim.without_lag is not None and lag_matters(claim):
        yield f"Without the generator's own delays it is {claim.without_lag:.3g} ×: the interval reaches over both."
    if claim.outcome == "decided" and claim.p_sign_flip is not None and claim.p_sign_flip > limits.ALPHA:
        yield f"Sign flips of single pairs give p = {claim.p_sign_flip:.2g}."
    if claim.range is not None:
        yield f"Its cases differ: from {claim.range[0]:.3g} × to {claim.range[1]:.3g} ×."
    if claim.carry_over is not None and claim.carry_over.differs:
        one = claim.carry_over
        yield (
            f"With the side that ran just before taken into account it is {one.ratio:.3g} × "
            f"({one.low:.3g} to {one.high:.3g})."
        )
    yield from told_of_success(claim.baseline, claim.treatment, claim.success)
    yield from _of_lost(claim)
    if claim.dropped_cases:
        yield f"Left out, too few pairs: {', '.join(claim.dropped_cases)}."
    if claim.outcome == "no difference" or (claim.gate is not None and claim.gate.outcome == "pass"):
        yield f"{rules_out(claim)}."
    if claim.gate is not None:
        said = {"fail": "FAILED", "pass": "Passed", "open": "Open gate"}[claim.gate.outcome]
        yield f"{said}: {claim.gate.text} ({claim.gate.why})."
        if claim.gate.outcome == "open" and claim.outcome != "open":
            yield would_decide(claim).strip()


def told_of_strangers(claim: Claim) -> Iterator[str]:
    """What other programs had of the machine, where that changed what pairs count."""
    found = claim.strangers
    if found is None or not found.readable:
        return
    pairs = len(claim.evidence)
    if found.lean_p < limits.LEANING:
        before, after = found.sides
        who = f" ({found.who})" if found.who else ""
        yield (
            f"Other programs had more of the machine beside one side ({_share(after)} beside {claim.treatment}, "
            f"{_share(before)} beside {claim.baseline}, p = {found.lean_p:.2g}): all pairs count alike, and what either "
            f"side's helpers cost is in the ratio{who}."
        )
    elif found.calm_pairs < _ALMOST_ALL * pairs:
        yield (
            f"Other programs used {_share(found.mean)} of the machine (at most {_share(found.most)}): its {pairs} pairs "
            f"count as {found.calm_pairs:.0f} calm ones."
        )
    if found.dilution > limits.DILUTION_MOST:
        yield (
            "The ratio is that beside them: on a quiet machine it may lie further from 1, so that neither "
            "“no difference” nor a pass is said."
        )


def rules_out(claim: Claim) -> str:
    """What so few replicates cannot have seen, with the worst trial and the scatter of both sides."""
    told = f"{claim.blocks} replicates rule out slow runs more frequent than {100 * (1 - 0.05 ** (1 / claim.blocks)):.0f} %"
    if claim.spread is None:
        return told
    before, after = claim.spread
    return (
        f"{told}; the worst trial was {before.worst:.3g} × its side's mean with {claim.baseline}, {after.worst:.3g} × with "
        f"{claim.treatment} (scatter {100 * before.sd:.2g} and {100 * after.sd:.2g} %)"
    )


def lag_matters(claim: Claim) -> bool:
    """The generator's own delays move the ratio by more than a hundredth."""
    value, clean = claim.ratio.value, claim.without_lag
    return bool(value and clean and abs(log(clean / value)) > _LAG_TOLD)


def _share(share: float) -> str:
    return f"{100 * share:.2g} %"


def _of_bring_ups(claim: Claim) -> Iterator[str]:
    if claim.unit == "block" and claim.bring_ups and claim.ratio.value is not None:
        of_these = "this one bring-up" if claim.bring_ups == 1 else f"these {claim.bring_ups} bring-ups"
        yield f"It speaks of {of_these}."


def _of_lost(claim: Claim) -> Iterator[str]:
    broken = [one for one in claim.lost if one.why == "broken"]
    if broken and claim.evidence:
        checks = Counter(f"{one.checks[0] if one.checks else 'check'}, {one.side}" for one in broken)
        told = "; ".join(f"{number} × {what}" for what, number in checks.most_common())
        yield f"{len(broken)} of {claim.believed_of[1]} pairs are broken ({told}): taken at the worst of the others."
    for why, told in (("missing", "were not made"), ("no number", "have no number")):
        if number := sum(one.why == why for one in claim.lost):
            yield f"{number} of {claim.believed_of[1]} pairs {told}."


def told_of_success(baseline: str, treatment: str, success: tuple[float | None, float | None]) -> list[str]:
    """Time and success are judged together (docs/method.md §2): a sentence where success differs."""
    before, after = success
    if before is None or after is None or abs(before - after) < limits.SUCCESS_DIFFERS:
        return []
    return [
        f"Success differs: {100 * after:.4g} % with {treatment}, {100 * before:.4g} % with {baseline}; "
        f"failures rank above every limit."
    ]


def after_holm(claims: int) -> str:
    """Over how many claims a p was adjusted."""
    return f"after Holm over {count(claims, 'claim')}"


def count(number: int, what: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
