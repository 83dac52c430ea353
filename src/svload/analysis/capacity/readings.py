"""Conversion of a judged trial into a reading of the search: how far the criterion nearest to its limit lies
from that limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

from svload.analysis.capacity.fit import FARTHEST
from svload.analysis.capacity.search import Reading
from svload.analysis.criteria import find, is_broken, number_of
from svload.model.metrics import Criterion
from svload.model.results import Estimate, TrialResult

KEEPS_UP = "the server keeps up"
"""What every search requires beside its criteria: an OVERLOADED server fails any (docs/method.md §3)."""
_SHARES = {"success_rate": False, "error_rate": True}
"""Metrics that are a share of all due requests → whether it is the share of bad ones."""
_UPPER, _LOWER = ("<", "<="), (">", ">=")


@dataclass(frozen=True)
class Measured:
    """A trial: its reading, the criterion that decided it, that criterion's value, and why the reading has
    none."""

    reading: Reading
    by: str = ""
    value: float | None = None
    lacks: str = ""


def why_no_limit(criterion: Criterion) -> str:
    """Return why a search cannot use it; empty where it can."""
    if criterion.level:
        return "a search chooses its loads itself, and holds one in each trial"
    if criterion.op not in (*_UPPER, *_LOWER):
        return "a search needs a limit that load can reach, written with <= or >="
    if _is_share(criterion):
        if criterion.op in (_UPPER if not _SHARES[criterion.ref.metric.name] else _LOWER):
            return "more load does not break it"
        if not 0 < _allowed(criterion) < 1:
            return "no number of requests shows that none ever fails: write success_rate >= 99.9 %"
    elif criterion.op in _LOWER and criterion.ref.metric.dimension == "rate_rps":
        return "it grows with the load, and more load does not break it"
    elif criterion.value <= 0:
        return "its limit is not above 0"
    return ""


def measured(result: TrialResult, criteria: Sequence[Criterion], load: int, timeout_s: float) -> Measured:
    """Return what a trial at `load` shows about the criteria; `timeout_s` is that of its requests. Where it
    is OVERLOADED a number does not matter, and where the median breaks a limit, so does every percentile
    above it."""
    strangers = next((one.value or 0.0 for one in result.verdict.checks if one.check == "others-cpu"), 0.0)
    if result.verdict.server == "OVERLOADED":
        return Measured(Reading(load, -inf, surely=True, strangers=strangers), KEEPS_UP)
    found: list[tuple[float, str, float | None]] = []
    shares: dict[str, tuple[float, float]] = {}
    lacks, surely = "", False
    for one in criteria:
        estimate = find(one.ref, result.metrics)
        value = as_measured(estimate)
        share = _is_share(one)
        if share and (value is not None or (estimate.why == "no request" and not is_broken(estimate))):
            value = _of_whole_load(one, value, result.metrics)
        if share and value is not None:
            bad = value if _SHARES[one.ref.metric.name] else 1 - value
            shares[one.text] = (max(bad, 0.0), _allowed(one))
        margin = _margin(one, value, estimate, timeout_s)
        lower = _by_lower_percentiles(one, result.metrics)
        surely = surely or lower < 0
        if margin is None:
            margin = lower if lower < 0 else None
        if margin is None:
            lacks = f"{one.text}: {estimate.reason or 'not measured'}"
        else:
            found.append((margin, one.text, value))
    least = min(found, default=None)
    if least is None or (lacks and least[0] >= 0):
        return Measured(Reading(load, None), lacks=lacks)
    surely = surely or least[0] <= -FARTHEST
    return Measured(Reading(load, least[0], surely, shares, strangers), least[1], least[2])


def gone_from(results: Sequence[TrialResult]) -> int | None:
    """Return the place of the first trial that the loss of the server spoilt, in the order they ran; None
    where the last one was answered. The trial before the first one without any answer counts as spoilt where
    requests failed in it."""
    place = len(results)
    while place and is_unanswered(results[place - 1]):
        place -= 1
    if place == len(results):
        return None
    group = results[place].outages[0].group
    return place - 1 if place and _count(results[place - 1], group, "failed") else place


def is_unanswered(result: TrialResult) -> bool:
    """Return whether the server was gone during the whole trial."""
    return any(
        one.until_s is None and _count(result, one.group, "failed") == _count(result, one.group, "requests")
        for one in result.outages
    )


def _count(result: TrialResult, group: str, of: str) -> float | None:
    estimate = result.metrics.get(f"{group}.{of}")
    return None if estimate is None else number_of(estimate)


def _of_whole_load(
    criterion: Criterion, value: float | None, metrics: Mapping[str, Estimate]
) -> float | None:
    """Return the share including requests that a warm-up cut leaves out, where it is worse: the server does
    not support users whose first connection is refused or hangs. None: no request was due in the kept
    window."""
    failed, asked = (
        number_of(metrics[name]) if (name := f"{criterion.ref.owner}.{of}") in metrics else None
        for of in ("failed", "requests")
    )
    if not asked or failed is None:
        return value
    is_bad = _SHARES[criterion.ref.metric.name]
    share = (failed if is_bad else asked - failed) / asked
    if value is None:
        return share
    return max(value, share) if is_bad else min(value, share)


def as_measured(estimate: Estimate) -> float | None:
    """Return its value, however disturbed: disturbances are in the scatter of the trials. None where the load
    or the instrument itself is broken."""
    doubts = estimate.belief.doubts if estimate.belief else ()
    # Users who still wait for earlier requests are an effect of too much load.
    return None if is_broken(estimate) and "carried-over" not in doubts else number_of(estimate)


def _is_share(criterion: Criterion) -> bool:
    return criterion.ref.metric.source == "traffic" and criterion.ref.metric.name in _SHARES


def _allowed(criterion: Criterion) -> float:
    return criterion.value if _SHARES[criterion.ref.metric.name] else 1 - criterion.value


def _margin(criterion: Criterion, value: float | None, estimate: Estimate, timeout_s: float) -> float | None:
    """Return the log distance to the limit, positive where it holds; −inf: beyond the timeout."""
    upper = criterion.op in _UPPER
    if value is None:
        return -inf if estimate.why == "time-out" and upper and criterion.value <= timeout_s else None
    if _is_share(criterion):
        bad = value if _SHARES[criterion.ref.metric.name] else 1 - value
        return log(_allowed(criterion) / bad) if bad > 0 else inf
    if value <= 0:
        return inf if upper else -inf
    return log(criterion.value / value) if upper else log(value / criterion.value)


def _by_lower_percentiles(criterion: Criterion, metrics: Mapping[str, Estimate]) -> float:
    """Return the least margin of the lower percentiles of the same time; inf without any."""
    ref = criterion.ref
    asked = _percentile(str(ref))
    if asked is None or criterion.op not in _UPPER:
        return inf
    stem = str(ref).rpartition(".")[0]
    values = [
        value
        for name, estimate in metrics.items()
        if name.startswith(f"{stem}.p")
        and (p := _percentile(name)) is not None
        and p < asked
        and (value := as_measured(estimate))
    ]
    return min((log(criterion.value / value) for value in values), default=inf)


def _percentile(name: str) -> float | None:
    text = name.rpartition(".p")[2]
    try:
        return float(text) if text != name else None
    except ValueError:
        return None
