"""The share that warms a cache: every row of a feeder once, requested as in the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from svload.drive.share.cut import Share, endpoint_spec, origin_of
from svload.drive.share.executor_spec import ConstantVus
from svload.drive.share.request_spec import RequestSpec, TakenPart
from svload.drive.share.spec import FeederSpec, GroupSpec
from svload.model.facts import Endpoint

SLOTS = 32
PATIENCE_NS = 120_000_000_000
ROW_PATIENCE_NS = 20_000_000
"""A warming ends after two minutes plus the time that the rows take at 50 per second."""


def warm_share(
    template: Share,
    at: int,
    feeder: str,
    rows: int,
    endpoint: str,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
) -> Share:
    """Return a share that requests each of `feeder`'s first `rows` rows exactly once from `endpoint`.

    Each of the `SLOTS` users has its own consecutive rows. Neighbours in a table often share what a server
    looks up for them: requested concurrently, each would cause a look-up; in sequence, only the first does.

    It reuses the request of `template`'s group `at` (a share of the case), so that the same is warmed that is
    requested later. `rows` are those of its table, or 1.
    """
    group = template.spec.groups[at]
    origin = origin_of(endpoint, endpoints[endpoint])
    asked = _asking_for(group, feeder)
    vus = min(SLOTS, rows)
    end_ns = PATIENCE_NS + rows * ROW_PATIENCE_NS
    warming = replace(
        group,
        name="warm",
        client="engine",
        connection="keep-alive",
        record="histogram",
        start_offset_ns=0,
        stop_offset_ns=end_ns,
        graceful_stop_ns=0,
        pacing_quantum_ns=0,
        # The rows count, not the protocol: another service, or its other port, may only speak HTTP/1.1.
        http2=group.http2 if asked.endpoint == origin else None,
        executor=ConstantVus(vus=vus, limit=1 if group.feeders[feeder].take == "first" else None),
        feeders={name: _walked(one, name == feeder) for name, one in group.feeders.items()},
        request=replace(asked, endpoint=origin),
        scenarios=(),
    )
    share = replace(
        template.spec,
        id=f"warm.{feeder}",
        interval_ns=1_000_000_000,
        spin_ns=0,
        window_ns=(0, end_ns),
        endpoints={origin: endpoint_spec(endpoint, endpoints[endpoint])},
        allowed=tuple(allowed),
        groups=(warming,),
    )
    return Share("warm", (), share, template.tables, template.values)


def _walked(feeder: FeederSpec, asked: bool) -> FeederSpec:
    """Return each user's own part of it, once. Another feeder is walked from the same place, as far."""
    if feeder.take == "first":
        return FeederSpec(table=feeder.table, take="first")
    if asked:
        return FeederSpec(table=feeder.table, take="unique", when_exhausted="stop")
    return FeederSpec(table=feeder.table, take="walk")


def _asking_for(group: GroupSpec, feeder: str) -> RequestSpec:
    """Return the group's first request that uses rows of `feeder`, without what only its scenario knows."""
    request = next(one for one in group.requests if one.uses(feeder))
    known = tuple(
        (name, parts)
        for name, parts in request.headers
        if not any(isinstance(part, TakenPart) for part in parts)
    )
    return replace(request, headers=known, take=())
