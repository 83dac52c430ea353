"""Which of two URLs is faster, in one sentence: the answer of `svload compare URL URL`. Pure."""

from __future__ import annotations

from svload.model.results import Findings
from svload.report.told.answer import answer, nothing_line
from svload.report.told.claimed import Claimed, claimed
from svload.report.told.spelling import list_words, percent_words, show_value, split_metric

_NAMES = {"p50": "the median response"}


def faster_sentence(findings: Findings) -> str:
    """Return `/v2 is slower than /v1: the median response is 12 % longer (9 to 15 %) and p95 was 3 % longer
    (−2 to +8 %), which decides nothing, as these servers ran today.` A second sentence reports failed
    requests."""
    found = claimed(findings)
    nothing = nothing_line(answer(findings))
    if nothing or not found:
        return nothing
    decided = any(one.outcome in ("decided", "no difference") for one in found)
    said = list_words([f"{_name(one)} {_clause(one, decided)}" for one in found])
    success = _success(found[0])
    return f"{_head(found)}: {said}, as these servers ran today.{f' {success}' if success else ''}"


def _head(found: list[Claimed]) -> str:
    """Return which is faster, as far as the claims agree."""
    one, other = found[0].claim.treatment, found[0].claim.baseline
    slower = {(claim.claim.ratio.value or 1.0) > 1 for claim in found if claim.outcome == "decided"}
    if slower == {True}:
        return f"{one} is slower than {other}"
    if slower == {False}:
        return f"{one} is faster than {other}"
    if slower:
        return f"{one} is faster than {other} in one respect and slower in another"
    if all(claim.outcome == "no difference" for claim in found):
        return f"{one} and {other} are equally fast"
    return f"Whether {one} or {other} is faster is not decided"


def _name(one: Claimed) -> str:
    stat = split_metric(one.key)[2]
    return _NAMES.get(stat, stat)


def _clause(one: Claimed, decided: bool) -> str:
    """Return `is 12 % longer (9 to 15 %)`, `differs by less than 3 %`, `was 3 % longer (−2 to +8 %)`; if
    another claim is `decided`, an undecided one says that it isn't."""
    claim = one.claim
    if one.outcome == "decided":
        return f"is {one.effect_words}"
    if one.outcome == "no difference" and claim.within is not None:
        return f"differs by less than {percent_words(claim.within)}"
    if one.outcome == "refused":
        return "can't be compared"
    if not one.effect_words:
        return "is not decided"
    return f"was {one.effect_words}{', which decides nothing' if decided else ''}"


def _success(one: Claimed) -> str:
    """Return the failures of each side, if there were any."""
    before, after = one.claim.success
    if before is None or after is None or before == after == 1:
        return ""
    rates = [f"{show_value(1 - share, 'ratio')} of {side}'s" for side, share in ((one.claim.treatment, after), (one.claim.baseline, before))]  # fmt: skip
    return f"Of the requests {list_words(rates)} failed."
