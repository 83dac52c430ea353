"""`--at-least`: the search as a gate, with a gate's three answers (docs/method.md §2)."""

from __future__ import annotations

from typing import Literal

from svload.model.capacity import CapacityGate, CapacityResult, noun_of

_WORDS = {"pass": "passed", "fail": "failed", "open": "open"}


def gate_of(at_least: int | None, found: CapacityResult) -> CapacityGate | None:
    """pass: the limit's whole interval reaches it; fail: the interval ends below it; else open."""
    if at_least is None:
        return None
    outcome, why = _judged(at_least, found)
    need = f"{at_least:,} {noun_of(found.over)} {'is' if at_least == 1 else 'are'} needed"
    return CapacityGate(
        at_least=at_least, outcome=outcome, sentence=f"Gate {_WORDS[outcome]}: {need}, and {why}."
    )


def _judged(at_least: int, found: CapacityResult) -> tuple[Literal["pass", "fail", "open"], str]:
    if not found.ended:
        return "open", "the search is not at its end"
    if found.state == "above" and found.most is not None and at_least <= found.most:
        return "pass", f"{found.most:,} hold"
    if found.state == "below" and found.least is not None and at_least >= found.least:
        return "fail", f"{found.least:,} are too many"
    if found.state != "found" or found.low is None or found.high is None:
        return "open", "the limit is not known"
    ends = f"the limit lies between {found.low:,} and {found.high:,}"
    if found.low >= at_least:
        return "pass", ends
    return ("fail", ends) if found.high < at_least else ("open", ends)
