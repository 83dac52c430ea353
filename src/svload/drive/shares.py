"""Cut a trial's plan into shares for the engine: pure, so that one or ten generators ask for the same requests.

The share's JSON is the contract of engine/README.md. Offsets count from the trial's common start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from svload.drive.packing import MANY_CORES, Part, name_of, packed
from svload.drive.places import ROOMY, Places, places_of
from svload.drive.redirect_tls import redirect_tls
from svload.drive.requests import Taken, Writer, feeders_of
from svload.model.errors import fail
from svload.model.facts import Endpoint
from svload.model.plan import Room
from svload.model.results import GroupSummary
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import (
    ClosedLoop,
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    Feeder,
    Group,
    OpenLoop,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    Template,
    Text,
    ThinkTime,
)

MSER_OBSERVATIONS = 600
"""docs/method.md §1: the interval is duration/600, at most 1 s, so that MSER-5 has its observations."""
MIN_INTERVAL_NS = 1_000_000
WORK_INTERVAL_NS = 100_000_000
"""The widest interval where all load is a fixed amount of work, whose end nobody knows before."""
WARM_SLOTS = 32


@dataclass(frozen=True)
class Timeline:
    """A trial's clock in ns from its start: load begins at 0, the kept window is [ramp, end), the drain follows."""

    ramp_ns: int
    duration_ns: int
    work_only: bool = False

    @property
    def end_ns(self) -> int:
        """Where nothing new is due any more."""
        return self.ramp_ns + self.duration_ns

    def until(self, stopped_ns: int) -> tuple[int, int]:
        """The kept window of a load that was stopped: whole intervals, none if it was still in its ramp."""
        whole_ns = stopped_ns // self.interval_ns * self.interval_ns
        return self.ramp_ns, max(self.ramp_ns, min(self.end_ns, whole_ns))

    @property
    def interval_ns(self) -> int:
        """Width of the series' intervals."""
        widest = WORK_INTERVAL_NS if self.work_only else 1_000_000_000
        return max(MIN_INTERVAL_NS, min(widest, self.duration_ns // MSER_OBSERVATIONS))


@dataclass(frozen=True)
class Share:
    """One generator process's part: the engine's JSON as plain data, and which of the case's groups its groups are (indices).

    `tables` are those of inputs/ that it needs; `values` are more tables (name → column → rows) that go with it and are never written.
    """

    name: str
    groups: tuple[int, ...]
    spec: dict[str, Any]
    tables: tuple[str, ...]
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def timeline(config: CaseConfig, duration_ns: int) -> Timeline:
    """The trial's timeline: ramps first, then `duration_ns`."""
    work_only = all(group.executor.shape == "finite" for group in config.groups)
    return Timeline(config.ramp_ns, duration_ns, work_only)


def build_shares(
    config: CaseConfig,
    seed: int,
    times: Timeline,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
    room: Room = ROOMY,
    taken: Taken | None = None,
    cores: int = MANY_CORES,
) -> list[Share]:
    """The shares of one trial, one a generator process. `endpoints` is keyed `scheme://host`; `allowed` are CIDR blocks; `taken` is
    what set-up took; `cores` are those of the load (`drive.packing`).

    Raises KeyError for a host that no service has and no authorised address stands for.
    """
    taken = taken or Taken()
    shares = []
    for parts in packed(config, cores):
        name = name_of(config, parts)
        groups = [config.groups[part.group] for part in parts]
        writers = [taken.writer(group.name) for group in groups]
        spec = {
            "format": 1,
            "id": name,
            "seed": seed,
            "start_at_ns": 0,
            "stop_fd": -1,
            "threads": 1,
            "cpus": [],
            "interval_ns": times.interval_ns,
            "spin_ns": max(group.spin_ns for group in groups),
            "window_ns": [times.ramp_ns, times.end_ns],
            "endpoints": {
                origin: spec for group in groups for origin, spec in _endpoints(group, endpoints).items()
            },
            **redirect_tls(groups, endpoints),
            "allowed": list(allowed),
            "groups": [
                _group(config, part, times, endpoints, places_of(group, room), writer)
                for part, group, writer in zip(parts, groups, writers, strict=True)
            ],
        }
        used = {name: None for group in groups for name in feeders_of(group.requests)}
        tables = dict.fromkeys(feeder.table for feeder in config.feeders if feeder.name in used)
        values = {name: table for writer in writers for name, table in writer.tables.items()}
        shares.append(Share(name, tuple(part.group for part in parts), spec, tuple(tables), values))
    return shares


def _group(
    config: CaseConfig,
    part: Part,
    times: Timeline,
    endpoints: Mapping[str, Endpoint],
    places: Places | None,
    writer: Writer,
) -> dict[str, Any]:
    """One group of a share."""
    group = config.groups[part.group]
    ramp_of = {other.name: other.executor.ramp_up_ns for other in config.groups}
    start_ns = ramp_of.get(group.start_when or "", 0)
    feeders = {feeder.name: feeder for feeder in config.feeders}
    vus = _vus(group.executor)
    return (
        _common(group, start_ns, _stop_ns(group.executor, start_ns, times.end_ns))
        | {
            "executor": _executor(group, part.number, places),
            "feeders": {
                **{name: _feeder(feeders[name], vus) for name in feeders_of(group.requests)},
                **writer.feeder(vus),
            },
        }
        | _iteration(group, endpoints, writer)
    )


def asks_for(share: Share, feeder: str) -> int | None:
    """Which of the share's groups takes rows of `feeder`; None where none does."""
    takers = (at for at, group in enumerate(share.spec["groups"]) if feeder in group["feeders"])
    return next(takers, None)


def warm_share(
    template: Share,
    at: int,
    feeder: str,
    rows: int,
    endpoint: str,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
) -> Share:
    """A share that asks for each of the first `rows` rows of `feeder` exactly once through `endpoint`, `WARM_SLOTS` at a time.

    It reuses the request of `template`'s group `at` (a share of the case), so that what is warmed is what is asked.
    """
    group = dict(template.spec["groups"][at])
    origin = _origin(endpoint, endpoints[endpoint])
    asked = _asking_for(group, feeder)
    request = asked | {"endpoint": origin}
    group.pop("scenarios", None)
    rate_rps = 20_000.0
    last_ns = round((rows + 1) / rate_rps * 1e9)
    group |= {
        "name": "warm",
        "client": "engine",
        "connection": "keep-alive",
        "record": "histogram",
        "start_offset_ns": 0,
        "stop_offset_ns": last_ns,
        "graceful_stop_ns": 120_000_000_000,
        "request": request,
        "executor": {
            "kind": "constant-arrival-rate",
            "rate_rps": rate_rps,
            "index_from": 0,
            "index_step": 1,
            "limit": rows,
            "max_vus": WARM_SLOTS,
            "on_full": "wait",
            "arrivals": "constant",
        },
    }
    if asked.get("endpoint") != origin:
        # What is asked counts, not how it gets there: another service, or its other port, may speak HTTP/1.1 alone.
        group.pop("http2", None)
    group.pop("pacing_quantum_ns", None)
    group["feeders"] = {
        name: dict(spec) | {"take": spec["take"] if spec["take"] == "first" else "walk"}
        for name, spec in group["feeders"].items()
    }
    spec = dict(template.spec) | {
        "id": f"warm.{feeder}",
        "interval_ns": 1_000_000_000,
        "spin_ns": 0,
        "window_ns": [0, last_ns],
        "endpoints": {origin: _endpoint(endpoints[endpoint], endpoint)},
        "allowed": list(allowed),
        "groups": [group],
    }
    return Share("warm", (), spec, template.tables, template.values)


def _asking_for(group: Mapping[str, Any], feeder: str) -> dict[str, Any]:
    """The group's first request that asks for rows of `feeder`, without what only its scenario knows."""
    steps = [step["request"] for scenario in group.get("scenarios", []) for step in scenario["steps"]]
    named = f'"feeder": "{feeder}"'
    request = next(one for one in [group.get("request"), *steps] if one and named in json.dumps(one))
    known = [
        [name, parts] for name, parts in request["headers"] if all("taken" not in part for part in parts)
    ]
    return {key: value for key, value in request.items() if key != "take"} | {"headers": known}


def shortened(
    times: Timeline, groups: Sequence[GroupSummary]
) -> tuple[tuple[int, int], tuple[GroupSummary, ...]]:
    """The kept window and the groups' totals over it.

    Where all load is a fixed amount of work that was done before the time was over, the window ends with the interval of the last
    answer. Nothing was in flight after that, so a time average over the shorter window is the same area over less time.
    """
    window_ns = (times.ramp_ns, times.end_ns)
    last_ns = max((group.last_done_ns for group in groups), default=-1)
    if not (times.work_only and last_ns >= 0 and all(group.plan_done for group in groups)):
        return window_ns, tuple(groups)
    end_ns = min(
        times.end_ns,
        times.ramp_ns + (-(-(last_ns + 1 - times.ramp_ns) // times.interval_ns)) * times.interval_ns,
    )
    stretch = (times.end_ns - times.ramp_ns) / (end_ns - times.ramp_ns)
    return (times.ramp_ns, end_ns), tuple(
        group.model_copy(update={"in_flight_mean": group.in_flight_mean * stretch}) for group in groups
    )


def group_seed(seed: int, *parts: object) -> int:
    """A 63-bit seed from the study's seed and any parts (positions, never names that a reader could change)."""
    text = "/".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _stop_ns(executor: Executor, start_ns: int, end_ns: int) -> int:
    """Nothing is due from then on: the trial's end, or where the stages end before it."""
    return end_ns if executor.stages_ns is None else min(end_ns, start_ns + executor.stages_ns)


def _common(group: Group, start_ns: int, stop_ns: int) -> dict[str, Any]:
    return (
        {
            "name": group.name,
            "client": group.client,
            "connection": _connection(group),
            "record": "rows" if group.keeps_rows else "histogram",
            "start_offset_ns": start_ns,
            "stop_offset_ns": stop_ns,
            "graceful_stop_ns": group.longest_timeout_ns
            if group.graceful_stop_ns is None
            else group.graceful_stop_ns,
            "follow_redirects": max(request.follow_redirects for request in group.requests),
        }
        | _source(group)
        | ({} if group.tls_resumption else {"tls_resumption": False})
        | ({"close_by_reset": True} if group.close == "reset" else {})
        | ({"pacing_quantum_ns": group.pacing_quantum_ns} if group.pacing_quantum_ns else {})
        | _http2(group)
    )


def _source(group: Group) -> dict[str, Any]:
    return {"source_addresses": list(group.source_addresses)} if group.source_addresses else {}


def _http2(group: Group) -> dict[str, Any]:
    if not group.http2:
        return {}
    return {"http2": {"streams": group.streams, "fallback": group.http2 == "preferred"}}


def _connection(group: Group) -> str:
    """As the engine has it: the places of an open loop share their connections anyway."""
    alike = group.connection == "shared" and isinstance(group.executor, OpenLoop)
    return "keep-alive" if alike else group.connection


def _executor(group: Group, part: int, places: Places | None) -> dict[str, Any]:
    """The executor's options in a share: every so-manieth user or arrival from number `part`, whole connections together."""
    own: dict[str, Any]
    executor = group.executor
    match executor:
        case ConstantVus():
            spread_ns = 0 if executor.ramp_up_ns else executor.spread_ns
            own = {"ramp_up_ns": executor.ramp_up_ns, "spread_ns": spread_ns}
        case SharedIterations() | PerVuIterations():
            own = {"spread_ns": executor.spread_ns, "iterations": executor.iterations}
        case RampingVus():
            own = {"start_vus": executor.start_vus, "stages": _stages(executor.stages, whole=True)}
        case ConstantArrivalRate():
            own = {"rate_rps": executor.rate_rps}
        case RampingArrivalRate():
            own = {"start_rate_rps": executor.start_rate_rps, "stages": _stages(executor.stages)}
    if isinstance(executor, ClosedLoop):
        return {"kind": executor.kind, **_users(executor, group, part), **own}
    assert places is not None
    return {"kind": executor.kind, **_arrivals(executor, group, part, places.most), **own}


def _users(executor: ClosedLoop, group: Group, part: int) -> dict[str, Any]:
    mine = _dealt(executor.most_vus, group, part)
    return {
        "vus": len(mine),
        "vus_total": executor.most_vus,
        "vu_from": mine.start,
        "vu_step": mine.step,
        "think_time": think_time(executor.think_time),
    } | ({"pacing_ns": executor.pacing_ns} if executor.pacing_ns else {})


def _arrivals(executor: OpenLoop, group: Group, part: int, places: int) -> dict[str, Any]:
    return {
        "index_from": part,
        "index_step": group.generators,
        "max_vus": max(1, len(_dealt(places, group, part))),
        "on_full": executor.on_full,
        "arrivals": executor.arrivals,
    }


def _dealt(count: int, group: Group, part: int) -> range:
    """Which of `count` users or places are a generator's: every so-manieth one; those that share a connection stay together."""
    if group.streams == 1:
        return range(part, count, group.generators)
    connections = group.connections(count)
    begins = [
        sum(len(range(one, connections, group.generators)) for one in range(end)) for end in (part, part + 1)
    ]
    first, end = (min(count, begin * group.streams) for begin in begins)
    return range(first, end)


def _stages(stages: Sequence[Stage], whole: bool = False) -> list[dict[str, Any]]:
    return [
        {"duration_ns": stage.duration_ns, "target": round(stage.target) if whole else stage.target}
        for stage in stages
    ]


def _vus(executor: Executor) -> int:
    return executor.most_vus if isinstance(executor, ClosedLoop) else 1


def think_time(think: ThinkTime) -> dict[str, Any]:
    """A think time in a share."""
    if think.uniform_ns is not None:
        return {"uniform_ns": list(think.uniform_ns)}
    if think.exponential_ns is not None:
        return {"exponential_ns": think.exponential_ns}
    if think.lognormal_ns is not None:
        return {"lognormal_ns": list(think.lognormal_ns)}
    return {"constant_ns": think.constant_ns or 0}


def _feeder(feeder: Feeder, vus: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"table": feeder.table, "take": feeder.take, "vus_total": vus}
    if feeder.offset is not None:
        spec["offset"] = feeder.offset
    return spec | ({"when_exhausted": "stop"} if feeder.when_exhausted == "stop" else {})


def _iteration(group: Group, endpoints: Mapping[str, Endpoint], writer: Writer) -> dict[str, Any]:
    """What an iteration does: one request, or the steps of a scenario."""
    if not group.scenarios:
        return {"request": writer.request(group.request, _origins(endpoints))}
    return {
        "scenarios": [
            {
                "weight": scenario.weight,
                "steps": [
                    {
                        "request": writer.request(step.request, _origins(endpoints)) | {"name": step.name},
                        "think_time": think_time(step.think_time),
                    }
                    for step in scenario.steps
                ],
            }
            for scenario in group.scenarios
        ]
    }


def _origins(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    return {name: _origin(name, endpoint) for name, endpoint in endpoints.items()}


def _endpoints(group: Group, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The group's own targets; every service's where an answer may name any of them: in a redirect, or a variable."""
    anywhere = any(request.goes_anywhere for request in group.requests)
    for name in group.endpoints:
        if name not in endpoints:
            scheme, _, service = name.partition("://")
            others = sorted(other for other in endpoints if other.endswith(f"://{service}"))
            raise fail(
                "usage",
                reason=f"traffic.{group.name} asks {name}, and {service} does not speak {scheme}",
                hint=f"Write {' or '.join(others)}." if others else "",
            )
    names = list(endpoints) if anywhere else list(group.endpoints)
    return {_origin(name, endpoints[name]): _endpoint(endpoints[name], name) for name in names}


def _origin(name: str, endpoint: Endpoint) -> str:
    """What the server itself is called: a server outside the lab is asked by its own host, never by the service's name."""
    scheme, _, host = name.partition("://")
    return f"{_AS_HTTP.get(scheme, scheme)}://{endpoint.authority or host}"


_AS_HTTP = {"tcp": "http", "tls": "https"}
"""The engine knows endpoints by HTTP's schemes, with and without TLS."""


def _endpoint(endpoint: Endpoint, name: str) -> dict[str, Any]:
    tls = None
    origin = urlsplit(_origin(name, endpoint))
    if origin.scheme == "https":
        tls = {
            "server_name": origin.hostname,
            "ca_pem": endpoint.ca_pem,
            "verify": endpoint.verify,
            "min": "1.2",
        }
    return {"address": endpoint.connects_to, "tls": tls}


def literal(text: str) -> Template:
    """A template that is one literal."""
    return (Text(text=text),)
