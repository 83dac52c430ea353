"""Resource use at a load's limit compared with half of that load, and which limit a case reached first
(docs/method.md §5). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Literal

from svload.analysis.evidence import first_to_fail
from svload.analysis.saturation import holder, owner, what_failed
from svload.model.declared import Resource
from svload.model.evidence import CaseEvidence, CaseLimit, CaseRefusal, LimitState
from svload.model.load_curve import LoadCurve, LoadLimit, LoadPoint

NEAR_HALF = 1.6
"""A level counts as half of the load if it is within this factor of it."""
LEAST_SHARE = 0.05
"""Limits used less than this share at N* are not reported."""
MOST_USES = 10
_ORDER: tuple[LimitState, ...] = ("reached", "approached", "clear")


@dataclass(frozen=True)
class Use:
    """One declared limit at both loads, as shares in use (1 is full)."""

    what: str
    resource: Resource
    half: float | None
    """null: not read at this load"""
    at: float
    state: LimitState
    """its state at the load's limit"""
    own: bool
    """whether the limit is the server's own; a machine's limit may be reached because of other programs"""


@dataclass(frozen=True)
class Turned:
    """One counter of what was refused, lost or made to wait, at both loads, per trial."""

    what: str
    resource: Resource
    half: float
    at: float
    own: bool


@dataclass(frozen=True)
class AtLimit:
    """Two levels of a load curve, and the resources in use at each."""

    limit: LoadLimit
    at: LoadPoint
    half: LoadPoint
    uses: tuple[Use, ...]
    """those at their limit first, then by share"""
    turned: tuple[Turned, ...] = ()
    """counters that increased at either load, largest at the limit first"""


def at_limit(curve: LoadCurve, evidence: Mapping[str, CaseEvidence]) -> AtLimit | str:
    """Return the first level at or above N* (N_break if there is no N*) compared with the level nearest to
    half of it; else why one of them is missing. `evidence` is by case."""
    limit = next(
        (one for one in curve.limits if one.value is not None and one.name in ("N*", "N_break")), None
    )
    if curve.kind != "users" or limit is None or limit.value is None:
        return "no N* was found"
    above = [point for point in curve.points if point.at >= limit.value and point.case in evidence]
    if not above:
        return f"no level that counts lies at or above {limit.name}"
    at = above[0]
    below = [point for point in curve.points if point.at < at.at and point.case in evidence]
    half = min(below, key=lambda point: abs(log(2 * point.at / at.at)), default=None)
    if half is None or abs(log(2 * half.at / at.at)) > log(NEAR_HALF):
        return f"no level that counts lies near half of {at.level}, the first one at or above {limit.name}"
    both = evidence[half.case], evidence[at.case]
    return AtLimit(limit, at, half, _uses(*both), _turned(*both))


def _uses(half: CaseEvidence, at: CaseEvidence) -> tuple[Use, ...]:
    before = {_key(one): one.share for one in half.limits}
    found = [
        Use(holder(one), one.resource, before.get(_key(one)), one.share, one.state, one.verdict)
        for one in at.limits
        if one.state != "clear" or one.share >= LEAST_SHARE
    ]  # fmt: skip
    once = {use.what: use for use in found}  # each service on a machine reads the machine's limits
    return tuple(
        sorted(once.values(), key=lambda use: (_ORDER.index(use.state), -use.at, use.what))[:MOST_USES]
    )


def _turned(half: CaseEvidence, at: CaseEvidence) -> tuple[Turned, ...]:
    before, after = ({_counter(one): one for one in case.refusals} for case in (half, at))
    found = [
        Turned(
            f"{owner('', one.service, one.entity)}: {one.means}",
            one.resource,
            before[key].count if key in before else 0.0,
            after[key].count if key in after else 0.0,
            one.verdict,
        )
        for key, one in {**before, **after}.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.own, -one.at, one.what))[:MOST_USES])


def _counter(one: CaseRefusal) -> tuple[str, str, str, str]:
    return one.service, one.monitor, one.counter, one.entity


def _key(one: CaseLimit) -> tuple[str, str, str, str]:
    return one.service, one.monitor, one.name, one.entity


@dataclass(frozen=True)
class Limiting:
    """What limited a case: the first of its servers' own limits to be reached, or the nearest one."""

    resource: Resource
    what: str
    state: Literal["gave way", "nearest"]
    others: tuple[str, ...] = ()
    """limits reached after it"""


def limiting(evidence: CaseEvidence) -> Limiting | None:
    """Return what limited the case; None if no limit of a server was read."""
    failed = first_to_fail(evidence)
    if failed:
        names = list(dict.fromkeys(what_failed(one) for one in failed))
        return Limiting(failed[0].resource, names[0], "gave way", tuple(names[1:]))
    own = [one for one in evidence.limits if one.verdict]
    if not own:
        return None
    near = max(own, key=lambda one: one.share)
    told = f"the {holder(near)} {100 * near.share:.0f} % in use"
    return Limiting(near.resource, told, "nearest")
