"""A traffic group's load in words."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.stages import Stage
from svload.model.traffic import (
    Body,
    ClosedLoop,
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    Group,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    Request,
    SharedIterations,
)
from svload.model.units import show_duration, show_size

MOST_STAGES = 4
"""Stages told one by one; of more, the first and last."""


def describe_load(group: Group) -> str:
    """`10 VUs, think time 100 ms, a new connection for each request`."""
    executor = group.executor
    words = [_executor(executor)]
    if isinstance(executor, ClosedLoop):
        if executor.think_time.mean_ns:
            words.append(f"think time {show_duration(executor.think_time.mean_ns / 1e9)}")
        if executor.pacing_ns:
            words.append(f"iterations at least {show_duration(executor.pacing_ns / 1e9)} apart")
    elif executor.max_vus:
        words.append(f"at most {executor.max_vus} at once, then {executor.on_full}")
    words += _body(group)
    words.append(_CONNECTIONS[group.connection])
    words += _http2(group)
    if group.pacing_quantum_ns:
        words.append(f"starts only every {show_duration(group.pacing_quantum_ns / 1e9)}")
    if group.client == "curl":
        words.append("curl-like client")
    return ", ".join(words)


_CONNECTIONS = {
    "keep-alive": "keep-alive",
    "new": "a new connection for each request",
    "shared": "connections shared between users",
}


def describe_requests(group: Group) -> str:
    """`GET, time-out 2 s, status == 200`; of a scenario each step by its name."""
    if not group.scenarios:
        return _request(group.request)
    told = []
    for scenario in group.scenarios:
        weight = f"{scenario.weight} × " if len(group.scenarios) > 1 else ""
        told.append(weight + " → ".join(f"{step.name} ({_request(step.request)})" for step in scenario.steps))
    return "; ".join(told)


def _request(request: Request) -> str:
    words = f"{request.method}, time-out {show_duration(request.timeout_ns / 1e9)}"
    return words + "".join(f", {check.name}" for check in request.checks)


def _http2(group: Group) -> list[str]:
    if not group.http2:
        return []
    told = "HTTP/2 where the server takes it" if group.http2 == "preferred" else "HTTP/2"
    return [f"{told}, {group.streams} streams a connection" if group.streams > 1 else told]


def _executor(executor: Executor) -> str:
    match executor:
        case ConstantVus():
            return f"{executor.vus} VUs"
        case RampingVus():
            return f"{executor.start_vus} VUs{_stages(executor.stages, '')}"
        case SharedIterations():
            return f"{executor.iterations:,} iterations by {executor.vus} VUs"
        case PerVuIterations():
            return f"{executor.iterations:,} iterations of each of {executor.vus} VUs"
        case ConstantArrivalRate():
            return f"{executor.rate_rps:g}/s, {executor.arrivals} arrivals"
        case RampingArrivalRate():
            stages = _stages(executor.stages, "/s")
            return f"{executor.start_rate_rps:g}/s{stages}, {executor.arrivals} arrivals"


def _stages(stages: Sequence[Stage], unit: str) -> str:
    """` → 100 in 30 s → 0 in 10 s`."""
    told = [f" → {stage.target:g}{unit} in {show_duration(stage.duration_ns / 1e9)}" for stage in stages]
    return "".join(told) if len(told) <= MOST_STAGES else f"{told[0]} → …{told[-1]}"


def _body(group: Group) -> list[str]:
    bodies = (request.body for request in group.requests)
    return list(dict.fromkeys(_content(body) for body in bodies if body is not None))


def _content(body: Body) -> str:
    if body.random is None:
        return "a text body" if body.text is not None else "a file as body"
    law = body.random
    mean = "" if law.constant is not None else " on average"
    return f"random bodies of {show_size(law.mean_bytes)}{mean}"
