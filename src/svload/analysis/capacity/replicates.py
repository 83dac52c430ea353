"""A judged trial as a replicate of its level: by criterion the margin to the limit, or the counts of a share."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log

from svload.analysis.capacity.level import Margin, Replicate, Share
from svload.analysis.criteria import ends, find, mirror_of
from svload.model.metrics import Criterion
from svload.model.results import Estimate, TrialResult

KEEPS_UP = "the server keeps up"
"""What every search asks beside its criteria: an OVERLOADED server fails any (docs/method.md §3)."""
_SHARES = {"success_rate": False, "error_rate": True}
"""Metrics that are a share of all due requests → whether it is the share of the bad ones."""
FARTHEST = log(1e6)
"""The margin of a value of 0."""
_WORST, _BEST = Margin(-inf, -inf, -inf), Margin(FARTHEST, FARTHEST, FARTHEST)
_UPPER, _LOWER = ("<", "<="), (">", ">=")


def why_no_limit(criterion: Criterion) -> str:
    """Why a search cannot ask for it; empty: it can."""
    if criterion.op not in (*_UPPER, *_LOWER):
        return "a search needs a limit that load can reach, written with <= or >="
    if _is_share(criterion):
        if criterion.op in (_UPPER if not _SHARES[criterion.ref.metric.name] else _LOWER):
            return "more load does not break it"
        if not 0 < _limit(criterion) < 1:
            return "no number of requests shows that none ever fails: write success_rate >= 99.9 %"
    elif criterion.op in _LOWER and criterion.ref.metric.dimension == "rate_rps":
        return "it grows with the load, and more load does not break it"
    elif criterion.value <= 0:
        return "its limit is not above 0"
    return ""


def replicate_of(
    result: TrialResult, criteria: Sequence[Criterion], load: int, after: int | None, timeout_s: float
) -> Replicate:
    """What a trial at `load` says of the criteria; `timeout_s` is its requests' own. Where it is
    OVERLOADED a number is beside the point."""
    overloaded = result.verdict.server == "OVERLOADED"
    margins: dict[str, Margin | None] = {KEEPS_UP: _WORST if overloaded else _BEST}
    shares: dict[str, Share] = {}
    lacks: dict[str, Estimate] = {}
    for one in criteria:
        estimate = find(one.ref, result.metrics)
        if _is_share(one):
            found = _share(one, estimate, mirror_of(one.ref, result.metrics)) or (
                Share(0, 0, _limit(one)) if overloaded else None
            )
            if found is not None:
                shares[one.text] = found
                continue
            margins[one.text] = None
        else:
            margins[one.text] = _margin(one, estimate, timeout_s) or (_WORST if overloaded else None)
        if margins[one.text] is None:
            lacks[one.text] = estimate
    return Replicate(
        load,
        margins,
        shares,
        after,
        {name: why_none(estimate) for name, estimate in lacks.items()},
        bool(lacks) and all(_is_few(estimate) for estimate in lacks.values()),
    )


def value_at(criterion: Criterion, margin: float) -> float:
    """The value, in base units, that lies at this margin."""
    if _is_share(criterion):
        bad = min(_limit(criterion) * exp(-margin), 1.0)
        return bad if _SHARES[criterion.ref.metric.name] else 1 - bad
    return criterion.value * exp(-margin if criterion.op in _UPPER else margin)


def why_none(estimate: Estimate) -> str:
    """Why a trial has no number that counts, as a clause."""
    if estimate.grade == "REFUSED":
        doubts = estimate.belief.doubts if estimate.belief else ()
        return f"REFUSED ({', '.join(doubts[:2])})" if doubts else "REFUSED"
    return estimate.reason or "not measured"


def _is_few(estimate: Estimate) -> bool:
    return estimate.grade != "REFUSED" and estimate.why in ("too few", "no request")


def _is_share(criterion: Criterion) -> bool:
    return criterion.ref.metric.source == "traffic" and criterion.ref.metric.name in _SHARES


def _limit(criterion: Criterion) -> float:
    """Of a share of requests: the most that may be bad."""
    return criterion.value if _SHARES[criterion.ref.metric.name] else 1 - criterion.value


def _share(criterion: Criterion, estimate: Estimate, mirror: Estimate | None) -> Share | None:
    value, n = estimate.value, estimate.n
    if value is None or not n or estimate.grade == "REFUSED":
        return None
    within = ends(value, estimate, mirror)
    if within is None:
        return None
    of_bad = _SHARES[criterion.ref.metric.name]
    few, bad, many = sorted(_counted(one if of_bad else 1 - one, n) for one in (within[0], value, within[1]))
    return Share(bad, n, _limit(criterion), (few, many))


def _counted(share: float, n: int) -> int:
    return min(max(round(share * n), 0), n)


def _margin(criterion: Criterion, estimate: Estimate, timeout_s: float) -> Margin | None:
    upper = criterion.op in _UPPER
    value = estimate.value
    if value is None:
        beyond = estimate.why == "time-out" and upper and criterion.value <= timeout_s
        return _WORST if beyond and estimate.grade != "REFUSED" else None
    within = ends(value, estimate)
    if estimate.grade == "REFUSED" or within is None:
        return None
    far = [_distance(criterion, end, upper) for end in within]
    return Margin(_distance(criterion, value, upper), min(far), max(far))


def _distance(criterion: Criterion, value: float, upper: bool) -> float:
    """Log distance to the limit, positive where it holds."""
    if value <= 0:
        return FARTHEST if upper else -FARTHEST
    return log(criterion.value / value) if upper else log(value / criterion.value)
