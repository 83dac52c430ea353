"""Traffic groups of one case: from checked parts of the file to the contracts in svload.model.traffic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from svload.model.executors import (
    ClosedLoop,
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.options import group_options
from svload.model.stages import Stage
from svload.model.traffic import Group, Request, Scenario
from svload.model.units import show_duration
from svload.study import distributions, schema_traffic
from svload.study.mistakes import Mistake, bad_value
from svload.study.tree import Path


def read_group(
    name: str,
    part: schema_traffic.GroupPart,
    request: Request,
    scenarios: Sequence[Scenario],
    present: Collection[str],
) -> Group:
    """Return the group of this case; `request` is its only one, or the first of its scenarios. `start_when`
    is dropped if its group is not `present`."""
    waits_for = (part.start_when or "").removesuffix(".ramped")
    options = {one.name: getattr(part, one.key) for one in group_options()}
    return Group(
        **options,
        name=name,
        executor=_executor(part),
        request=request,
        scenarios=tuple(scenarios),
        start_when=waits_for if waits_for in present else None,
        source_addresses=tuple(part.source_addresses),
        http2=part.http2,
    )


def _executor(part: schema_traffic.GroupPart) -> Executor:
    match part:
        case schema_traffic.OpenGroup():
            return ConstantArrivalRate(rate_rps=part.rate, ramp_up_ns=part.ramp_up, **_arriving(part))
        case schema_traffic.RampingRateGroup():
            return RampingArrivalRate(
                start_rate_rps=part.start_rate, stages=_stages(part.stages, part.hold_for), **_arriving(part)
            )
        case schema_traffic.RampingVusGroup():
            return RampingVus(
                start_vus=part.start_vus, stages=_stages(part.stages, part.hold_for), **_thinking(part)
            )
        case schema_traffic.IterationsGroup():
            kind = SharedIterations if part.executor == "shared-iterations" else PerVuIterations
            return kind(vus=part.vus, iterations=part.iterations, start=part.start, **_thinking(part))
    assert isinstance(part, schema_traffic.ClosedGroup)
    return ConstantVus(vus=part.vus, ramp_up_ns=part.ramp_up, start=part.start, **_thinking(part))


def _thinking(part: schema_traffic.Thinking) -> dict[str, Any]:
    return {"think_time": read_think_time(part.think_time), "pacing_ns": part.pacing}


def read_think_time(think: distributions.ThinkTimePart) -> ThinkTime:
    """Return a think time as data."""
    law = think.lognormal
    return ThinkTime(
        constant_ns=think.constant,
        uniform_ns=think.uniform,
        exponential_ns=think.exponential,
        lognormal_ns=(law.median, law.p99) if law else None,
    )


def _arriving(part: schema_traffic.Arriving) -> dict[str, Any]:
    return {"max_vus": part.max_vus, "arrivals": part.arrivals, "on_full": part.on_full}


def _stages(
    parts: Sequence[schema_traffic.VusStage] | Sequence[schema_traffic.RateStage], hold_for: int
) -> tuple[Stage, ...]:
    stages = [Stage(duration_ns=part.duration, target=part.target) for part in parts]
    held = [Stage(duration_ns=hold_for, target=stages[-1].target)] if hold_for else []
    return (*stages, *held)


def group_mistakes(part: schema_traffic.GroupPart, path: Path, duration_ns: int | None) -> list[Mistake]:
    """Return mistakes that only resolved numbers show. `duration_ns`: the measured time, None if broken."""
    executor = _executor(part)
    found = []
    vus = executor.most_vus if isinstance(executor, ClosedLoop) else executor.max_vus
    if vus is not None and part.generators > vus:
        reason = f"there are only {vus} VUs to share"
        found.append(bad_value((*path, "generators"), reason, part.generators))
    length_ns = executor.stages_ns
    if length_ns is not None and duration_ns is not None and length_ns > duration_ns:
        reason = f"the stages last longer than measure.duration ({show_duration(duration_ns / 1e9)})"
        found.append(
            bad_value(
                (*path, "stages"),
                reason,
                show_duration(length_ns / 1e9),
                "Give measure.duration at least as long.",
            )
        )
    return found
