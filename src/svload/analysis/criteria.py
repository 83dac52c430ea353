"""Criteria (`expect`, thresholds) on measured values: the one place that maps a metric's name to its
number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from svload.analysis import limits
from svload.model.metrics import Criterion, MetricRef, Source, parse_criterion, parse_metric
from svload.model.results import Belief, Estimate, ServerState
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_number, show_percent, show_size

TIMED_OUT = "> timeout"
"""How the reason begins where too many requests failed for the number to lie within the timeout; code decides
by the reason's code."""
_UPPER, _LOWER, _EXACT = ("<", "<=", "=="), (">", ">=", "=="), ("==", "!=")
_NO_SUCH_NUMBER = ("not measured", "in stages", "no request", "no looks-up")
"""Reasons for a missing number that do not mean that more load made it worse."""


def owners_of_case(config: CaseConfig) -> dict[str, Source]:
    """Return the owners that a metric may name in this case."""
    owners: dict[str, Source] = {feeder.name: "feeder" for feeder in config.feeders}
    owners |= {service.name: "service" for service in config.services}
    owners |= {group.name: "traffic" for group in config.groups}
    owners |= {
        f"{group.name}.{step.name}": "traffic"
        for group in config.groups
        if group.scenarios
        for step in group.steps
    }
    return owners


def metric_of(text: str, config: CaseConfig, owners: Mapping[str, Source] | None = None) -> MetricRef:
    """Parse the metric in `text`; without an owner it refers to the case's main group. Raises ValueError."""
    return _owned(parse_metric(text, {**owners_of_case(config), **(owners or {})}), config)


def criterion_of(text: str, config: CaseConfig, owners: Mapping[str, Source] | None = None) -> Criterion:
    """Parse the criterion in `text`; without an owner it refers to the case's main group. Raises
    ValueError."""
    criterion = parse_criterion(text, {**owners_of_case(config), **(owners or {})})
    return replace(criterion, ref=_owned(criterion.ref, config))


def _owned(ref: MetricRef, config: CaseConfig) -> MetricRef:
    return ref if ref.owner else replace(ref, owner=config.main_group)


def find(ref: MetricRef, metrics: Mapping[str, Estimate]) -> Estimate:
    """Return the metric's estimate, or null with the reason why it was not measured."""
    return metrics.get(str(ref)) or Estimate(
        value=None, reason=f"{ref} was not measured in this case", why="not measured"
    )


def mirror_of(ref: MetricRef, metrics: Mapping[str, Estimate]) -> Estimate | None:
    """Return the share of successes that complements a share of errors; None for other metrics."""
    if ref.metric.source != "traffic" or ref.metric.name != "error_rate":
        return None
    return metrics.get(f"{ref.owner}.success_rate")


def ends(value: float, estimate: Estimate, mirror: Estimate | None = None) -> tuple[float, float] | None:
    """Return the least and the greatest value that `value` may have given the disturbances, in its unit; None
    where that is not known.

    A bound is a share of the value, and no share of 0 errors is an error: the bound on success widens it
    instead.
    """
    own = _within(value, value, value, estimate.belief)
    if own is None or mirror is None or mirror.value is None:
        return own
    success = _within(mirror.value, mirror.value, mirror.value, mirror.belief)
    if success is None:
        return None
    least, most = success
    return (min(own[0], 1 - most), max(own[1], 1 - least)) if least < most else own


def _within(value: float, low: float, high: float, belief: Belief | None) -> tuple[float, float] | None:
    if belief is None:
        return low, high
    if belief.below is None or belief.above is None:
        return None
    return low - value * belief.below, high + value * belief.above


def number_of(estimate: Estimate) -> float | None:
    """Return the measured value, even where it is not shown since too few of its trials can be believed."""
    if estimate.value is None and estimate.why == "refused" and estimate.belief:
        return estimate.belief.as_measured
    return estimate.value


def is_broken(estimate: Estimate) -> bool:
    """Return whether the instrument or the load itself failed, so that no range holds the undisturbed
    value."""
    from svload.analysis.checks import role_of

    doubts = estimate.belief.doubts if estimate.belief else ()
    return estimate.grade == "REFUSED" and any(role_of(one) in ("lost", "missing") for one in doubts)


def range_of(
    ref: MetricRef, estimate: Estimate, mirror: Estimate | None = None, timeout_s: float | None = None
) -> tuple[float, float] | None:
    """Return the range that holds the true value with 95 %: the interval of its replicates (for a single
    load, of batches), widened for disturbances. Where the disturbance is unknown it takes the widest range,
    or has no end but the timeout. None: there is no number."""
    value = number_of(estimate)
    if value is None:
        return None
    low, high = estimate.low, estimate.high
    if ref.metric.source == "traffic" and ref.stat and ref.stat not in ("min", "max"):
        most = timeout_s if timeout_s is not None and ref.metric.dimension == "time_s" else inf
        low, high = (0.0 if low is None else low), (max(most, value) if high is None else high)
    low, high = (value if low is None else low), (value if high is None else high)
    widest = value * (1 - limits.WIDEST[0]), value * (1 + limits.WIDEST[1])
    disturbed = ends(value, estimate, mirror) or widest
    if mirror is None:
        disturbed = max(disturbed[0], widest[0]), min(disturbed[1], widest[1])
    if value <= 0:  # no share of 0 is a range
        return min(low, disturbed[0]), max(high, disturbed[1])
    return low * (max(disturbed[0], 0.0) / value), high * (disturbed[1] / value)


def outcome(
    criterion: Criterion,
    estimate: Estimate,
    timeout_s: float | None = None,
    server: ServerState | None = None,
    mirror: Estimate | None = None,
) -> bool | None:
    """Return whether the criterion holds, by where the whole range of its number lies; None where the range
    allows both, or there is no number (docs/method.md §2, *A threshold has three answers*).

    A percentile beyond the timeout fails every upper limit within it, and so does what an OVERLOADED server
    makes worse (`fails_by_overload`). A broken number has no answer, and one that grows with the run's length
    never holds. `mirror`: the number's own (`mirror_of`).
    """
    if is_broken(estimate):
        return None
    if fails_by_overload(criterion, estimate, server):
        return False
    if (within := range_of(criterion.ref, estimate, mirror, timeout_s)) is None:
        return False if _fails_without_number(criterion, estimate, timeout_s) else None
    value = number_of(estimate)
    assert value is not None
    if criterion.op in _EXACT:
        return criterion.holds(value)
    answers = {criterion.holds(one) for one in (*within, value)}
    held = answers.pop() if len(answers) == 1 else None
    return None if held and estimate.why == "grows" and criterion.op in _UPPER else held


def _fails_without_number(criterion: Criterion, estimate: Estimate, timeout_s: float | None) -> bool:
    if criterion.op not in _UPPER:
        return False
    if estimate.why == "not recovered":
        return estimate.low is not None and estimate.low >= criterion.value
    return estimate.why == "time-out" and timeout_s is not None and criterion.value <= timeout_s


def fails_by_overload(criterion: Criterion, estimate: Estimate, server: ServerState | None) -> bool:
    """Return whether the criterion fails because the server is OVERLOADED, which is worse than any limit
    (docs/method.md §2).

    That applies to an upper limit on a time that the load saw, and to a lower one on goodput: while the
    backlog grows, a longer load brings any time above its limit. What an overloaded server completes does not
    grow with the run's length, so throughput, shares and counts are judged as usual. `server` is the case's
    state; None: not known, and the number itself tells whether it grows.
    """
    metric = criterion.ref.metric
    if metric.source != "traffic" or metric.name == "generator_lag":
        return False
    worse = (metric.dimension == "time_s" and criterion.op in _UPPER) or (
        metric.name == "goodput" and criterion.op in _LOWER
    )
    if not worse or is_broken(estimate):
        return False
    if estimate.value is None and estimate.why in _NO_SUCH_NUMBER:
        return False
    return server == "OVERLOADED" or (server is None and estimate.why == "grows")


def show(ref: MetricRef, value: float | None) -> str:
    """Format a value in its metric's unit, with three or four figures."""
    if value is None:
        return "–"
    match ref.metric.dimension:
        case "time_s":
            return show_duration(value)
        case "size_bytes":
            return show_size(value)
        case "ratio":
            return show_percent(value, 4)
        case "rate_rps":
            return f"{show_number(value, 4)}/s"
    return f"{value:,.0f}" if float(value).is_integer() else show_number(value, 4)
