"""Divide a trial's plan into shares for the engine: pure; any number of generators make the same requests.

engine/README.md describes what the engine makes of a share. Offsets count from the trial's start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlsplit

from svload.drive.packing import MANY_CORES, Part, name_of, packed
from svload.drive.places import ROOMY, Places, places_of
from svload.drive.share import executor_spec as spec
from svload.drive.share.requests import Taken, Writer, feeders_of
from svload.drive.share.spec import (
    EndpointSpec,
    FeederSpec,
    GroupSpec,
    Http2Spec,
    ScenarioSpec,
    SetSpec,
    ShareSpec,
    StepSpec,
    TlsSpec,
)
from svload.drive.share.timeline import Timeline
from svload.drive.targets import system_authorities
from svload.model.errors import SvloadError, fail
from svload.model.executors import (
    ClosedLoop,
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    OpenLoop,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.facts import Endpoint
from svload.model.options import EngineOptions
from svload.model.plan import Room
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import Feeder, Group, WrittenSet


@dataclass(frozen=True)
class Share:
    """One generator process's part: the engine's input, and the parts that its groups are, in order.

    `tables` are those of inputs/ that it needs; `values` are further tables (name → column → rows), which are
    never written to disk.
    """

    name: str
    parts: tuple[Part, ...]
    spec: ShareSpec
    tables: tuple[str, ...]
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[int, ...]:
        """Return which of the case's groups each of its groups is: several may be generators of one."""
        return tuple(part.group for part in self.parts)


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
    """Return a trial's shares, one per generator process. `endpoints` is keyed `scheme://host`; `allowed` are
    CIDR blocks; `taken` is the result of set-up; `cores` are the load's (`drive.packing`).

    Raises KeyError for a host that is neither a service nor an authorised address.
    """
    taken = taken or Taken()
    shares = []
    for parts in packed(config, cores):
        groups = [config.groups[part.group] for part in parts]
        writers = [taken.writer(group.name) for group in groups]
        specs = [
            _cut(config, part, times, endpoints, places_of(group, room, cores), writer)
            for part, group, writer in zip(parts, groups, writers, strict=True)
        ]
        name = name_of(config, parts)
        shares.append(around(name, config, groups, specs, writers, seed, times, endpoints, allowed, parts))
    return shares


def around(
    name: str,
    config: CaseConfig,
    groups: Sequence[Group],
    specs: Sequence[GroupSpec],
    writers: Sequence[Writer],
    seed: int,
    times: Timeline,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
    parts: tuple[Part, ...] = (),
) -> Share:
    """Return the share of these groups, whose specs and writers are given in the same order."""
    reached = [origin for group in groups for origin in _endpoints(group, endpoints).items()]
    share = ShareSpec(
        id=name,
        seed=seed,
        interval_ns=times.interval_ns,
        spin_ns=max(group.spin_ns for group in groups),
        window_ns=(times.ramp_ns, times.end_ns),
        turns_ns=times.turns_ns or None,
        endpoints=dict(reached),
        redirect_tls=redirect_tls(groups, endpoints),
        allowed=tuple(allowed),
        groups=tuple(specs),
    )
    used = {feeder for group in groups for feeder in feeders_of(group.requests)}
    tables = dict.fromkeys(feeder.table for feeder in config.feeders if feeder.name in used)
    tables |= dict.fromkeys(one.table for one in _sets_of(config, groups) if one.table is not None)
    values = {table: rows for writer in writers for table, rows in writer.tables.items()}
    return Share(name, parts, share, tuple(tables), values)


def _sets_of(config: CaseConfig, groups: Sequence[Group]) -> list[WrittenSet]:
    """Return the sets of written objects that these groups name."""
    named = {request.written for group in groups for request in group.requests}
    return [one for one in config.sets if one.name in named]


def _cut(
    config: CaseConfig,
    part: Part,
    times: Timeline,
    endpoints: Mapping[str, Endpoint],
    places: Places | None,
    writer: Writer,
) -> GroupSpec:
    """Return one group of a share, with its part of the group's users or arrivals."""
    group = config.groups[part.group]
    start_ns = config.begin_ns(group)
    stop_ns = _stop_ns(group.executor, start_ns, times.end_ns)
    return group_spec(
        config, group, (start_ns, stop_ns), _executor(group, part.number, places), endpoints, writer
    )


def group_spec(
    config: CaseConfig,
    group: Group,
    offsets_ns: tuple[int, int],
    executor: spec.ExecutorSpec,
    endpoints: Mapping[str, Endpoint],
    writer: Writer,
    report_taken: bool = False,
) -> GroupSpec:
    """Return a group that begins and stops at these offsets."""
    feeders = {feeder.name: feeder for feeder in config.feeders}
    renewed = {name for one in group.scenarios if one.renew_ns for name in one.steps[0].request.takes}
    writer = replace(writer, renewed=frozenset(renewed))
    vus = group.executor.most_vus if isinstance(group.executor, ClosedLoop) else 1
    origins = {name: origin_of(name, endpoint) for name, endpoint in endpoints.items()}
    start_ns, stop_ns = offsets_ns
    graceful_ns = group.graceful_stop_ns
    return GroupSpec(
        **handed_on(group),
        name=group.name,
        connection=_connection(group),
        record="rows" if group.keeps_rows else "histogram",
        start_offset_ns=start_ns,
        stop_offset_ns=stop_ns,
        graceful_stop_ns=group.longest_timeout_ns if graceful_ns is None else graceful_ns,
        follow_redirects=max(request.follow_redirects for request in group.requests),
        source_addresses=group.source_addresses,
        close_by_reset=group.close == "reset",
        http2=Http2Spec(streams=group.streams, fallback=group.http2 == "preferred") if group.http2 else None,
        executor=executor,
        feeders={name: _feeder(feeders[name], vus) for name in feeders_of(group.requests)}
        | writer.feeder(vus),
        sets={one.name: SetSpec(table=one.table, digest=one.digest) for one in _sets_of(config, [group])},
        request=None if group.scenarios else writer.request(group.request, origins),
        scenarios=_scenarios(group, origins, writer),
        report_taken=report_taken,
        given={name: writer.trial[name] for name in sorted(renewed & writer.trial.keys())},
    )


def handed_on(group: Group) -> dict[str, Any]:
    """Return the options that the engine takes unchanged from the study."""
    return {one.name: getattr(group, one.name) for one in fields(EngineOptions)}


def group_seed(seed: int, *parts: object) -> int:
    """Return a 63-bit seed from the study's seed and any parts (positions, never names, which may change)."""
    text = "/".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def asks_for(share: Share, feeder: str) -> int | None:
    """Return which of the share's groups uses rows of `feeder`; None if none does."""
    takers = (at for at, group in enumerate(share.spec.groups) if feeder in group.feeders)
    return next(takers, None)


def _stop_ns(executor: Executor, start_ns: int, end_ns: int) -> int:
    """Return when nothing is due any more: the trial's end, or the end of the stages if earlier."""
    return end_ns if executor.stages_ns is None else min(end_ns, start_ns + executor.stages_ns)


def _connection(group: Group) -> Any:
    """Return the connection mode for the engine: places of an open loop share their connections anyway."""
    alike = group.connection == "shared" and isinstance(group.executor, OpenLoop)
    return "keep-alive" if alike else group.connection


def _executor(group: Group, part: int, places: Places | None) -> spec.ExecutorSpec:
    """Return the executor's options for one generator: its users, or its arrivals and places."""
    executor = group.executor
    match executor:
        case ConstantVus():
            spread_ns = 0 if executor.ramp_up_ns else executor.spread_ns
            return spec.ConstantVus(
                **_users(executor, group, part), ramp_up_ns=executor.ramp_up_ns, spread_ns=spread_ns
            )
        case SharedIterations() | PerVuIterations():
            kind = spec.SharedIterations if isinstance(executor, SharedIterations) else spec.PerVuIterations
            return kind(
                **_users(executor, group, part), spread_ns=executor.spread_ns, iterations=executor.iterations
            )
        case RampingVus():
            stages = _stages(executor.stages, whole=True)
            return spec.RampingVus(
                **_users(executor, group, part), start_vus=executor.start_vus, stages=stages
            )
    assert places is not None
    arrivals = _arrivals(executor, group, part, places.most)
    if isinstance(executor, ConstantArrivalRate):
        return spec.ConstantArrivalRate(**arrivals, rate_rps=executor.rate_rps)
    assert isinstance(executor, RampingArrivalRate)
    stages = _stages(executor.stages)
    return spec.RampingArrivalRate(**arrivals, start_rate_rps=executor.start_rate_rps, stages=stages)


def _users(executor: ClosedLoop, group: Group, part: int) -> dict[str, Any]:
    """Return the fields of `LoopOptions`."""
    mine = _dealt(executor.most_vus, group, part)
    return {
        "vus": len(mine),
        "vus_total": executor.most_vus,
        "vu_from": mine.start,
        "vu_step": mine.step,
        "think_time": think_time(executor.think_time),
        "pacing_ns": executor.pacing_ns,
    }


def _arrivals(executor: OpenLoop, group: Group, part: int, places: int) -> dict[str, Any]:
    """Return the fields of `Places`."""
    return {
        "index_from": part,
        "index_step": group.generators,
        "max_vus": max(1, len(_dealt(places, group, part))),
        "on_full": executor.on_full,
        "arrivals": executor.arrivals,
    }


def _dealt(count: int, group: Group, part: int) -> range:
    """Return which of `count` users or places are a generator's: every g-th of g generators; those that share
    a connection stay together."""
    if group.streams == 1:
        return range(part, count, group.generators)
    connections = group.connections(count)
    begins = [
        sum(len(range(one, connections, group.generators)) for one in range(end)) for end in (part, part + 1)
    ]
    first, end = (min(count, begin * group.streams) for begin in begins)
    return range(first, end)


def _stages(stages: Sequence[Stage], whole: bool = False) -> tuple[spec.Stage, ...]:
    return tuple(
        spec.Stage(stage.duration_ns, round(stage.target) if whole else stage.target) for stage in stages
    )


def think_time(think: ThinkTime) -> spec.ThinkTime:
    """Return a think time of a share."""
    return spec.ThinkTime(**(think.model_dump(exclude_none=True) or {"constant_ns": 0}))


def _feeder(feeder: Feeder, vus: int) -> FeederSpec:
    return FeederSpec(**feeder.model_dump(exclude={"name"}), vus_total=vus)


def _scenarios(group: Group, origins: Mapping[str, str], writer: Writer) -> tuple[ScenarioSpec, ...]:
    return tuple(
        ScenarioSpec(
            weight=scenario.weight,
            renew_ns=scenario.renew_ns,
            steps=tuple(
                StepSpec(
                    request=writer.request(step.request, origins, step.name),
                    think_time=think_time(step.think_time),
                )
                for step in scenario.steps
            ),
        )
        for scenario in group.scenarios
    )


def _endpoints(group: Group, endpoints: Mapping[str, Endpoint]) -> dict[str, EndpointSpec]:
    """Return the group's own targets; every service's if an answer may name them (redirect or variable)."""
    anywhere = any(request.goes_anywhere for request in group.requests)
    for name in group.endpoints:
        if name not in endpoints:
            scheme, _, service = name.partition("://")
            others = sorted(other for other in endpoints if other.endswith(f"://{service}"))
            raise fail(
                "usage",
                reason=f"traffic.{group.name} uses {name}, but {service} does not speak {scheme}",
                hint=f"Write {' or '.join(others)}." if others else "",
            )
    names = list(endpoints) if anywhere else list(group.endpoints)
    return {origin_of(name, endpoints[name]): endpoint_spec(name, endpoints[name]) for name in names}


def origin_of(name: str, endpoint: Endpoint) -> str:
    """Return the server's own name: one outside the lab is requested by its host, not the service's name."""
    scheme, _, host = name.partition("://")
    return f"{_AS_HTTP.get(scheme, scheme)}://{endpoint.authority or host}"


_AS_HTTP = {"tcp": "http", "tls": "https"}
"""The engine knows endpoints by HTTP's schemes, with and without TLS."""


def endpoint_spec(name: str, endpoint: Endpoint) -> EndpointSpec:
    """Return where an endpoint is reached, and how it is verified."""
    origin = urlsplit(origin_of(name, endpoint))
    tls = None
    if origin.scheme == "https":
        tls = TlsSpec(server_name=origin.hostname or "", ca_pem=endpoint.ca_pem, verify=endpoint.verify)
    return EndpointSpec(address=endpoint.connects_to, tls=tls)


def redirect_tls(groups: Sequence[Group], endpoints: Mapping[str, Endpoint]) -> TlsSpec | None:
    """Return the TLS options of redirects; None if no request follows one, or nothing is trusted.

    Any certificate is accepted if the study says so of a target; else the endpoints' authorities and this
    system's are trusted.
    """
    if not any(request.follow_redirects for group in groups for request in group.requests):
        return None
    targets = {name for group in groups for name in group.endpoints}
    verify = all(endpoint.verify for name, endpoint in endpoints.items() if name in targets)
    trusted = list(dict.fromkeys(endpoint.ca_pem for endpoint in endpoints.values() if endpoint.ca_pem))
    if verify:
        with suppress(SvloadError):
            trusted.append(system_authorities())
    if verify and not trusted:
        return None
    return TlsSpec(server_name="redirect", ca_pem="".join(trusted) or None, verify=verify)
