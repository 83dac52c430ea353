"""Criteria (`expect`, thresholds) on measured values: one place where a metric's name finds its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from svload.model.metrics import Criterion, MetricRef, Source, parse_criterion, parse_metric
from svload.model.results import Belief, Estimate, ServerState
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_size

TIMED_OUT = "> time-out"
"""How the reason of a number begins that so many failures reach; what decides is its code."""
_UPPER, _LOWER = ("<", "<=", "=="), (">", ">=", "==")
_NO_SUCH_NUMBER = ("not measured", "in stages", "no request", "no looks-up")
"""Why a case has no number that more load could have made worse."""


def main_group(config: CaseConfig) -> str:
    """The group meant when a metric names none."""
    return config.main_group


def owners_of_case(config: CaseConfig) -> dict[str, Source]:
    """Whom a metric may name in this case."""
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
    """The metric that `text` spells; without an owner it is the case's main group's. Raises ValueError."""
    return _owned(parse_metric(text, {**owners_of_case(config), **(owners or {})}), config)


def criterion_of(text: str, config: CaseConfig, owners: Mapping[str, Source] | None = None) -> Criterion:
    """The criterion that `text` spells; without an owner it is about the case's main group. Raises ValueError."""
    criterion = parse_criterion(text, {**owners_of_case(config), **(owners or {})})
    return replace(criterion, ref=_owned(criterion.ref, config))


def _owned(ref: MetricRef, config: CaseConfig) -> MetricRef:
    return ref if ref.owner else replace(ref, owner=main_group(config))


def find(ref: MetricRef, metrics: Mapping[str, Estimate]) -> Estimate:
    """The metric's estimate, or null with the reason that it was not measured."""
    return metrics.get(str(ref)) or Estimate(
        value=None, reason=f"{ref} was not measured in this case", why="not measured"
    )


def mirror_of(ref: MetricRef, metrics: Mapping[str, Estimate]) -> Estimate | None:
    """The share of successes that belongs to a share of errors. None for other metrics."""
    if ref.metric.source != "traffic" or ref.metric.name != "error_rate":
        return None
    return metrics.get(f"{ref.owner}.success_rate")


def ends(value: float, estimate: Estimate, mirror: Estimate | None = None) -> tuple[float, float] | None:
    """The least and the most that `value` may be by its bounds, in its unit. None: a bound is not known.

    A bound is a share of the value, and no share of 0 errors is one: what success may be off by widens it.
    """
    own = _within(value, estimate.belief)
    if own is None or mirror is None or mirror.value is None:
        return own
    success = _within(mirror.value, mirror.belief)
    if success is None:
        return None
    least, most = success
    return (min(own[0], 1 - most), max(own[1], 1 - least)) if least < most else own


def _within(value: float, belief: Belief | None) -> tuple[float, float] | None:
    if belief is None:
        return value, value
    if belief.below is None or belief.above is None:
        return None
    return value * (1 - belief.below), value * (1 + belief.above)


def outcome(
    criterion: Criterion,
    estimate: Estimate,
    timeout_s: float | None = None,
    server: ServerState | None = None,
    mirror: Estimate | None = None,
) -> bool | None:
    """Whether it surely holds; None where there is no number, or where its own bound leaves both (docs/method.md §3).

    A percentile beyond the time-out fails every upper limit within it, and so does what an OVERLOADED server
    makes worse (`fails_by_overload`). A REFUSED number may fail, beyond the limit by more than it can be off,
    and never holds; nor does one that grows with the run's length. `mirror`: the number's own (`mirror_of`).
    """
    if fails_by_overload(criterion, estimate, server):
        return False
    belief = estimate.belief
    value = estimate.value
    if value is None and estimate.why == "refused" and belief:
        value = belief.as_measured
    if value is None and estimate.why == "not recovered":
        above = criterion.op in _UPPER and estimate.low is not None and estimate.low >= criterion.value
        return False if above and estimate.grade != "REFUSED" else None
    if value is None:
        beyond = estimate.why == "time-out" and criterion.op in _UPPER
        sure = (
            beyond and estimate.grade != "REFUSED" and timeout_s is not None and criterion.value <= timeout_s
        )
        return False if sure else None
    within = ends(value, estimate, mirror)
    if within is None:
        return None
    answers = {criterion.holds(one) for one in (within[0], value, within[1])}
    held = answers.pop() if len(answers) == 1 else None
    unsure = estimate.grade == "REFUSED" or (estimate.why == "grows" and criterion.op in _UPPER)
    return None if held and unsure else held


def fails_by_overload(criterion: Criterion, estimate: Estimate, server: ServerState | None) -> bool:
    """Whether the criterion fails since the server is OVERLOADED, which is worse than any limit (docs/method.md §2).

    That is an upper limit on a time that the load saw, or a lower one on goodput: while the backlog grows, a
    longer load brings any time above its limit. What an overloaded server completes does not grow with the
    run's length, so throughput, shares and counts are judged as they are. A REFUSED number is open. `server`
    is the case's state; None: not known, and the number itself says whether it grows.
    """
    metric = criterion.ref.metric
    if metric.source != "traffic" or metric.name == "generator_lag":
        return False
    worse = (metric.dimension == "time_s" and criterion.op in _UPPER) or (
        metric.name == "goodput" and criterion.op in _LOWER
    )
    if not worse or estimate.grade == "REFUSED":
        return False
    if estimate.value is None and estimate.why in _NO_SUCH_NUMBER:
        return False
    return server == "OVERLOADED" or (server is None and estimate.why == "grows")


def show(ref: MetricRef, value: float | None) -> str:
    """A value in its metric's unit, three or four figures."""
    if value is None:
        return "–"
    match ref.metric.dimension:
        case "time_s":
            return show_duration(value)
        case "size_bytes":
            return show_size(value)
        case "ratio":
            return f"{100 * value:.4g} %"
        case "rate_rps":
            return f"{value:.4g}/s"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
