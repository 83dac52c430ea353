"""The share that warms a cache: every row of a feeder once, asked as the case asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from svload.drive.share.cut import Share, endpoint_spec, origin_of
from svload.drive.share.executor_spec import ConstantArrivalRate
from svload.drive.share.request_spec import RequestSpec, TakenPart
from svload.drive.share.spec import GroupSpec
from svload.model.facts import Endpoint

SLOTS = 32
RATE_RPS = 20_000.0
DRAIN_NS = 120_000_000_000


def warm_share(
    template: Share,
    at: int,
    feeder: str,
    rows: int,
    endpoint: str,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
) -> Share:
    """Asks for each of the first `rows` rows of `feeder` exactly once through `endpoint`, `SLOTS` at a time.

    It reuses the request of `template`'s group `at` (a share of the case), so that what is warmed is what is asked.
    """
    group = template.spec.groups[at]
    origin = origin_of(endpoint, endpoints[endpoint])
    asked = _asking_for(group, feeder)
    last_ns = round((rows + 1) / RATE_RPS * 1e9)
    warming = replace(
        group,
        name="warm",
        client="engine",
        connection="keep-alive",
        record="histogram",
        start_offset_ns=0,
        stop_offset_ns=last_ns,
        graceful_stop_ns=DRAIN_NS,
        pacing_quantum_ns=0,
        # What is asked counts, not how it gets there: another service, or its other port, may speak HTTP/1.1 alone.
        http2=group.http2 if asked.endpoint == origin else None,
        executor=ConstantArrivalRate(rate_rps=RATE_RPS, limit=rows, max_vus=SLOTS),
        feeders={
            name: replace(one, take="first" if one.take == "first" else "walk")
            for name, one in group.feeders.items()
        },
        request=replace(asked, endpoint=origin),
        scenarios=(),
    )
    share = replace(
        template.spec,
        id=f"warm.{feeder}",
        interval_ns=1_000_000_000,
        spin_ns=0,
        window_ns=(0, last_ns),
        endpoints={origin: endpoint_spec(endpoint, endpoints[endpoint])},
        allowed=tuple(allowed),
        groups=(warming,),
    )
    return Share("warm", (), share, template.tables, template.values)


def _asking_for(group: GroupSpec, feeder: str) -> RequestSpec:
    """The group's first request that asks for rows of `feeder`, without what only its scenario knows."""
    request = next(one for one in group.requests if one.uses(feeder))
    known = tuple(
        (name, parts)
        for name, parts in request.headers
        if not any(isinstance(part, TakenPart) for part in parts)
    )
    return replace(request, headers=known, take=())
