"""A traffic group's load in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from svload.model.results import Imported
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import Body, Group, Request
from svload.model.units import show_duration, show_number, show_size
from svload.report.wording.spelling import count_words

MOST_LOADS = 3
"""Maximum number of a group's loads listed one by one; of more, the first and last."""
MOST_STAGES = 4
"""Maximum number of stages listed one by one; of more, the first and last."""


def describe_load(group: Group) -> str:
    """Return `10 VUs, think time 100 ms, a new connection for each request`."""
    executor = group.executor
    words = [_executor(executor)]
    if isinstance(executor, ClosedLoop):
        if executor.think_time.mean_ns:
            words.append(f"think time {_think(executor.think_time)}")
        if executor.pacing_ns:
            words.append(f"iterations at least {show_duration(executor.pacing_ns / 1e9)} apart")
    elif executor.max_vus:
        words.append(f"at most {executor.max_vus} at once, then {executor.on_full}")
    words += _body(group)
    words.append(_CONNECTIONS[group.connection])
    words += _http2(group)
    texts = (one.words(getattr(group, one.name)) for one in group_options())
    words += [text for text in texts if text]
    if group.client == "curl":
        words.append("curl-like client")
    return ", ".join(words)


def _think(think: ThinkTime) -> str:
    """Return `100 ms`, `50 to 150 ms (uniform)`, `100 ms on average (exponential)`."""
    if think.uniform_ns:
        low, high = (show_duration(bound / 1e9) for bound in think.uniform_ns)
        return f"{low} to {high} (uniform)"
    mean = show_duration(think.mean_ns / 1e9)
    law = "exponential" if think.exponential_ns else "log-normal" if think.lognormal_ns else ""
    return f"{mean} on average ({law})" if law else mean


_CONNECTIONS = {
    "keep-alive": "keep-alive",
    "new": "a new connection for each request",
    "shared": "connections shared between users",
}


def describe_run(configs: Sequence[CaseConfig]) -> dict[str, str]:
    """Return the load of these cases: traffic group → `closed loop: 200 VUs, keep-alive, in 10 of 20 cases`,
    and the objects in the stores."""
    loads: dict[str, Counter[str]] = {}
    for config in configs:
        for group in config.groups:
            text = f"{group.executor.model}: {describe_load(group)}"
            loads.setdefault(group.name, Counter())[text] += 1
        for objects in config.objects:
            text = f"{objects.count:,} of {_size_words(objects.size)}"
            loads.setdefault(f"objects in {objects.service}", Counter())[text] += 1
    return {name: _over_cases(text, len(configs)) for name, text in loads.items()}


def describe_imported(imported: Sequence[Imported]) -> dict[str, str]:
    """Return the load of imported trials: traffic group → `imported from JMeter: 10 to 50 users, in 4 files`;
    facts missing in the files are left out."""
    found: dict[str, str] = {}
    for group in dict.fromkeys(name for one in imported for name in one.groups):
        mine = [one for one in imported if group in one.groups]
        users = sorted({one.users[group] for one in mine if group in one.users})
        shown = (
            f": {users[0]} users"
            if len(users) == 1
            else f": {users[0]} to {users[-1]} users"
            if users
            else ""
        )
        tools = ", ".join(dict.fromkeys(one.tool for one in mine))
        found[group] = f"imported from {tools}{shown}" + (f", in {len(mine)} files" if len(mine) > 1 else "")
    return found


def _over_cases(counts: Counter[str], cases: int) -> str:
    """Return the loads of a group, each with the number of cases that have it."""
    if len(counts) > MOST_LOADS:
        first, *_, last = counts
        return f"{len(counts)} loads, from {first} to {last}"
    return "; ".join(
        text + ("" if count == cases else f", in {count} of {cases} cases") for text, count in counts.items()
    )


def _size_words(law: Mapping[str, Any]) -> str:
    """Return `40 KiB`, `40 KiB (median; 99 % below 400 KiB)`, `1 KiB to 9 KiB`."""
    match law:
        case {"lognormal": {"median": median, "p99": p99}}:
            return f"{_size(median)} (median; 99 % below {_size(p99)})"
        case {"uniform": [low, high]}:
            return f"{_size(low)} to {_size(high)}"
        case {"constant": size}:
            return _size(size)
    return "unknown size"


def _size(value: object) -> str:
    return show_size(value) if isinstance(value, int | float) else str(value)


def describe_requests(group: Group) -> str:
    """Return `GET, timeout 2 s, status == 200`; for a scenario, each step by its name."""
    if not group.scenarios:
        return describe_request(group.request)
    texts = []
    for scenario in group.scenarios:
        weight = f"{scenario.weight} × " if len(group.scenarios) > 1 else ""
        texts.append(
            weight + " → ".join(f"{step.name} ({describe_request(step.request)})" for step in scenario.steps)
        )
    return "; ".join(texts)


def describe_request(request: Request) -> str:
    """Return `GET, timeout 2 s, status == 200`."""
    words = f"{request.method}, timeout {show_duration(request.timeout_ns / 1e9)}"
    return words + "".join(f", {check.name}" for check in request.checks)


def _http2(group: Group) -> list[str]:
    if not group.http2:
        return []
    text = "HTTP/2 where the server takes it" if group.http2 == "preferred" else "HTTP/2"
    return [f"{text}, {group.streams} streams a connection" if group.streams > 1 else text]


def _executor(executor: Executor) -> str:
    match executor:
        case ConstantVus():
            return count_words(executor.vus, "VU")
        case RampingVus():
            return count_words(executor.start_vus, "VU") + _stages(executor.stages, "")
        case SharedIterations():
            total = count_words(executor.iterations, "iteration")
            return f"{total} by {count_words(executor.vus, 'VU')}"
        case PerVuIterations():
            each = count_words(executor.iterations, "iteration")
            return f"{each} of each of {count_words(executor.vus, 'VU')}"
        case ConstantArrivalRate():
            return f"{show_number(executor.rate_rps)}/s, {executor.arrivals} arrivals"
        case RampingArrivalRate():
            stages = _stages(executor.stages, "/s")
            return f"{show_number(executor.start_rate_rps)}/s{stages}, {executor.arrivals} arrivals"


def _stages(stages: Sequence[Stage], unit: str) -> str:
    """Return ` → 100 in 30 s → 0 in 10 s`."""
    texts = [
        f" → {show_number(stage.target)}{unit} in {show_duration(stage.duration_ns / 1e9)}"
        for stage in stages
    ]
    return "".join(texts) if len(texts) <= MOST_STAGES else f"{texts[0]} → …{texts[-1]}"


def _body(group: Group) -> list[str]:
    bodies = (request.body for request in group.requests)
    return list(dict.fromkeys(_content(body) for body in bodies if body is not None))


def _content(body: Body) -> str:
    if body.random is None:
        return "a text body" if body.text is not None else "a file as body"
    law = body.random
    mean = "" if law.constant is not None else " on average"
    return f"random bodies of {show_size(law.mean_bytes)}{mean}"
