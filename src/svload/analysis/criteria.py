"""Criteria (`expect`, thresholds) on measured values: one place where a metric's name finds its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from svload.model.metrics import Criterion, MetricRef, Source, parse_criterion, parse_metric
from svload.model.results import Estimate
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_size

TIMED_OUT = "> time-out"


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


def outcome(criterion: Criterion, estimate: Estimate, timeout_s: float | None = None) -> bool | None:
    """Whether it surely holds; None where there is no number, or where its own bound leaves both (docs/method.md §3).

    A percentile beyond the time-out fails every upper limit within it. A REFUSED number may fail, beyond the
    limit by more than it can be off, and never holds.
    """
    belief = estimate.belief
    value = estimate.value
    if value is None and estimate.why == "refused" and belief:
        value = belief.as_measured
    if value is None and estimate.why == "not recovered":
        above = (
            criterion.op in ("<", "<=", "==") and estimate.low is not None and estimate.low >= criterion.value
        )
        return False if above and estimate.grade != "REFUSED" else None
    if value is None:
        beyond = estimate.reason.startswith(TIMED_OUT) and criterion.op in ("<", "<=", "==")
        sure = (
            beyond and estimate.grade != "REFUSED" and timeout_s is not None and criterion.value <= timeout_s
        )
        return False if sure else None
    if belief is None:
        return criterion.holds(value)
    if belief.below is None or belief.above is None:
        return None
    ends = {criterion.holds(end) for end in (value * (1 - belief.below), value, value * (1 + belief.above))}
    held = ends.pop() if len(ends) == 1 else None
    return None if held and belief.grade == "REFUSED" else held


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
