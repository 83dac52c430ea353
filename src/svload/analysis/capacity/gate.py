"""`--at-least`: the search as a gate, with a gate's three answers (docs/method.md §2)."""

from __future__ import annotations

from typing import Literal

from svload.model.capacity import CapacityGate, CapacityResult, noun_of

_WORDS = {"pass": "passed", "fail": "failed", "open": "open"}


def gate_of(at_least: int | None, found: CapacityResult) -> CapacityGate | None:
    """pass: the kept end reaches it, from above too; fail: a load no larger is broken; else open."""
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
    if found.broken is not None and found.broken <= at_least:
        return "fail", f"{found.broken:,} break it"
    came_back = any(one.way == "from above" and one.outcome == "kept" for one in found.confirmed)
    if found.kept is not None and found.kept >= at_least:
        if found.hysteresis and not came_back:
            return "open", "it holds only as long as no larger load came before"
        return "pass", f"{found.kept:,} keep it"
    if found.kept is not None and found.broken is not None:
        return "open", f"the limit lies between {found.kept:,} and {found.broken:,}"
    return "open", "the limit was not told"
