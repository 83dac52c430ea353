"""A claim in words: direction and size, and what may be said of it. What else belongs to it are the claim's fields, which
the report reads out."""

from __future__ import annotations

from svload.analysis import limits
from svload.model.results import Claim
from svload.model.units import show_duration

FLOOR_UNKNOWN = "floor unknown: exploratory"
_MOST_PERCENT = 10.0
"""A share above which nobody reads percent."""


def sentence(claim: Claim, claims: int) -> str:
    """Read the claim out: effect and outcome."""
    return f"{effect(claim)} {outcome(claim, claims)}"


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
    over = f"after Holm over {count(claims, 'claim')}"
    p = f"p = {claim.p_adjusted:.2g} {over}" if claim.p_adjusted is not None else ""
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


def told_of_success(baseline: str, treatment: str, success: tuple[float | None, float | None]) -> list[str]:
    """Time and success are judged together (docs/method.md §2): a sentence where success differs."""
    before, after = success
    if before is None or after is None or abs(before - after) < limits.SUCCESS_DIFFERS:
        return []
    return [
        f"Success differs: {100 * after:.4g} % with {treatment}, {100 * before:.4g} % with {baseline}; "
        f"failures rank above every limit."
    ]


def count(number: int, what: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
