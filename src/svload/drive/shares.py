"""Cut a trial's plan into shares for the engine: pure, so that one or ten generators ask for the same requests.

The share's JSON is the contract of engine/README.md. Offsets count from the trial's common start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import (
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    FeederPart,
    Group,
    Request,
    SizeCheck,
    Template,
    Text,
    ThinkTime,
)

ROWS_UP_TO_RPS = 1000.0
"""Every request is a row for `client: curl` and up to this rate; histograms above (DESIGN, the river)."""
MSER_OBSERVATIONS = 600
"""METHOD §1: the interval is duration/600, at most 1 s, so that MSER-5 has its observations."""
MIN_INTERVAL_NS = 1_000_000
FIRST_CYCLE_NS = 5_000_000
"""VUs without think time and without a ramp start spread over this (METHOD §1: spread over the first cycle)."""
WARM_SLOTS = 32


@dataclass(frozen=True)
class Timeline:
    """A trial's clock in ns from its start: load begins at 0, the kept window is [ramp, end), the drain follows."""

    ramp_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """Where nothing new is due any more."""
        return self.ramp_ns + self.duration_ns

    @property
    def interval_ns(self) -> int:
        """Width of the series' intervals."""
        return max(MIN_INTERVAL_NS, min(1_000_000_000, self.duration_ns // MSER_OBSERVATIONS))


@dataclass(frozen=True)
class Share:
    """One generator's part: the engine's JSON as plain data, and which of the case's groups it serves (index)."""

    name: str
    group: int
    spec: dict[str, Any]
    tables: tuple[str, ...]


def timeline(config: CaseConfig, duration_ns: int) -> Timeline:
    """The trial's timeline: ramps first, then `duration_ns`."""
    return Timeline(config.ramp_ns, duration_ns)


def build_shares(
    config: CaseConfig,
    seed: int,
    times: Timeline,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
) -> list[Share]:
    """The shares of one trial, group by group. `endpoints` is keyed `scheme://host`; `allowed` are CIDR blocks.

    Raises KeyError for a host that no service has and no authorised address stands for.
    """
    ramp_of = {group.name: group.executor.ramp_up_ns for group in config.groups}
    feeders = {feeder.name: feeder for feeder in config.feeders}
    shares = []
    for index, group in enumerate(config.groups):
        start_ns = ramp_of.get(group.start_when or "", 0)
        used = _feeders_of(group.request)
        for part in range(group.generators):
            spec = {
                "format": 1,
                "id": f"{group.name}.{part}",
                "seed": seed,
                "start_at_ns": 0,
                "stop_fd": -1,
                "threads": 1,
                "cpus": [],
                "interval_ns": times.interval_ns,
                "window_ns": [times.ramp_ns, times.end_ns],
                "endpoints": _endpoints(group, endpoints),
                "allowed": list(allowed),
                "groups": [
                    _common(group, start_ns, times.end_ns)
                    | {
                        "executor": _executor(group.executor, part, group.generators),
                        "feeders": {
                            name: {
                                "table": feeders[name].table,
                                "take": feeders[name].take,
                                "vus_total": _vus(group.executor),
                            }
                            for name in used
                        },
                        "request": _request(group.request, endpoints),
                    }
                ],
            }
            shares.append(
                Share(f"{group.name}.{part}", index, spec, tuple(feeders[name].table for name in used))
            )
    return shares


def warm_share(
    template: Share,
    feeder: str,
    rows: int,
    endpoint: str,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
) -> Share:
    """A share that asks for each of the first `rows` rows of `feeder` exactly once through `endpoint`, `WARM_SLOTS` at a time.

    It reuses the request of `template` (a share of the case), so that what is warmed is what is asked.
    """
    group = dict(template.spec["groups"][0])
    origin = _origin(endpoint, endpoints[endpoint])
    request = dict(group["request"]) | {"endpoint": origin}
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
    group["feeders"] = {
        name: dict(spec) | {"take": spec["take"] if spec["take"] == "first" else "walk"}
        for name, spec in group["feeders"].items()
    }
    spec = dict(template.spec) | {
        "id": f"warm.{feeder}",
        "interval_ns": 1_000_000_000,
        "window_ns": [0, last_ns],
        "endpoints": {origin: _endpoint(endpoints[endpoint], endpoint, resumption=True)},
        "allowed": list(allowed),
        "groups": [group],
    }
    return Share("warm", 0, spec, template.tables)


def group_seed(seed: int, *parts: object) -> int:
    """A 63-bit seed from the study's seed and any parts (positions, never names that a reader could change)."""
    text = "/".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def default_max_vus(rate_rps: float, timeout_ns: int, descriptors: int) -> int:
    """min(rate × timeout, descriptors − reserve), at least 1 (DESIGN, the engine)."""
    reserve = 64
    return max(1, min(round(rate_rps * timeout_ns / 1e9) or 1, descriptors - reserve))


def records_rows(group: Group) -> bool:
    """Whether every request of the group becomes a row."""
    if group.record != "auto":
        return group.record == "rows"
    if group.client == "curl":
        return True
    executor = group.executor
    if isinstance(executor, ConstantArrivalRate):
        return executor.rate_rps <= ROWS_UP_TO_RPS
    think_s = executor.think_time.mean_ns / 1e9
    return think_s > 0 and executor.vus / think_s <= ROWS_UP_TO_RPS


def _common(group: Group, start_ns: int, stop_ns: int) -> dict[str, Any]:
    return {
        "name": group.name,
        "client": group.client,
        "connection": group.connection,
        "record": "rows" if records_rows(group) else "histogram",
        "start_offset_ns": start_ns,
        "stop_offset_ns": stop_ns,
        "graceful_stop_ns": group.request.timeout_ns,
        "follow_redirects": group.request.follow_redirects,
    }


def _executor(executor: Executor, part: int, parts: int) -> dict[str, Any]:
    if isinstance(executor, ConstantVus):
        spread_ns = 0
        if executor.start == "spread" and executor.ramp_up_ns == 0:
            spread_ns = max(round(executor.think_time.mean_ns), FIRST_CYCLE_NS)
        return {
            "kind": executor.kind,
            "vus": len(range(part, executor.vus, parts)),
            "vus_total": executor.vus,
            "vu_from": part,
            "vu_step": parts,
            "ramp_up_ns": executor.ramp_up_ns,
            "spread_ns": spread_ns,
            "think_time": _think(executor.think_time),
        }
    max_vus = executor.max_vus or 256
    return {
        "kind": executor.kind,
        "rate_rps": executor.rate_rps,
        "index_from": part,
        "index_step": parts,
        "max_vus": max(1, len(range(part, max_vus, parts))),
        "on_full": executor.on_full,
        "arrivals": executor.arrivals,
    }


def _vus(executor: Executor) -> int:
    return executor.vus if isinstance(executor, ConstantVus) else 1


def _think(think: ThinkTime) -> dict[str, Any]:
    if think.uniform_ns is not None:
        return {"uniform_ns": list(think.uniform_ns)}
    if think.exponential_ns is not None:
        return {"exponential_ns": think.exponential_ns}
    return {"constant_ns": think.constant_ns or 0}


def _request(request: Request, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    return {
        "name": request.name,
        "method": request.method,
        "endpoint": _origin(request.endpoint, endpoints[request.endpoint]),
        "path": _template(request.path),
        "headers": [[name, _template(template)] for name, template in request.headers],
        "timeout_ns": request.timeout_ns,
        "expect_status": [list(span) for span in request.expect_status],
        "checks": [_check(check) for check in request.checks],
    }


def _check(check: Any) -> dict[str, Any]:
    if isinstance(check, SizeCheck):
        size = check.size_bytes
        wanted: Any = {"feeder": size.feeder, "column": size.column} if isinstance(size, FeederPart) else size
        return {"name": check.name, "size_bytes": wanted}
    return {"name": check.name, "status": list(check.status)}


def _template(template: Template) -> list[dict[str, str]]:
    return [part.model_dump() for part in template]


def _feeders_of(request: Request) -> list[str]:
    parts = [*request.path, *(part for _, template in request.headers for part in template)]
    parts += [
        check.size_bytes
        for check in request.checks
        if isinstance(check, SizeCheck) and isinstance(check.size_bytes, FeederPart)
    ]
    return list(dict.fromkeys(part.feeder for part in parts if isinstance(part, FeederPart)))


def _endpoints(group: Group, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The group's own target; where redirects are followed, every service's, since an answer may name any of them."""
    names = list(endpoints) if group.request.follow_redirects else [group.request.endpoint]
    return {
        _origin(name, endpoints[name]): _endpoint(endpoints[name], name, group.tls_resumption)
        for name in names
    }


def _origin(name: str, endpoint: Endpoint) -> str:
    """What the server itself is called: a server outside the lab is asked by its own host, never by the service's name."""
    return f"{endpoint.scheme}://{endpoint.authority}" if endpoint.authority else name


def _endpoint(endpoint: Endpoint, name: str, resumption: bool) -> dict[str, Any]:
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    tls = None
    if endpoint.scheme == "https":
        tls = {
            "server_name": urlsplit(_origin(name, endpoint)).hostname,
            "ca_pem": endpoint.ca_pem,
            "verify": True,
            "resumption": resumption,
            "min": "1.2",
        }
    return {"address": f"{host}:{endpoint.port}", "tls": tls}


def literal(text: str) -> Template:
    """A template that is one literal."""
    return (Text(text=text),)
