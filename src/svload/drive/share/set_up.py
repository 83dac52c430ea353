"""Set-up before a trial's load: its requests as separate shares, and the variables that they took. Pure.

The requests for a trial are one iteration of all of them in order; those for a VU are an iteration of each VU
of a group. Neither is part of the load: the trial's tables contain nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from svload.drive.packing import Part
from svload.drive.share import executor_spec as spec
from svload.drive.share.cut import Share, around, group_spec
from svload.drive.share.requests import Taken, feeders_of
from svload.drive.share.timeline import Timeline
from svload.model.errors import fail
from svload.model.executors import ClosedLoop, PerVuIterations
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Http2, Scenario, SetUp, Step, TakenPart

APART_NS = 1_000_000
"""Time between the set-ups of two VUs: a thousand per second."""
ITSELF = "setup"


class VuSetUp(NamedTuple):
    """The share that sets up each of a group's VUs."""

    share: Share
    vus: int


def trial_set_up(
    config: CaseConfig, seed: int, endpoints: Mapping[str, Endpoint], allowed: Sequence[str], taken: Taken
) -> Share | None:
    """Return the share that sets up the trial; None if nothing is done once per trial. `taken`: secrets."""
    parts = [part for part in config.set_up if part.once == "trial"]
    if not parts:
        return None
    once = spec.SharedIterations(vus=1, vus_total=1, iterations=1)
    return _share(config, parts, once, _spoken(parts, config.groups), seed, endpoints, allowed, taken)


def vu_set_ups(
    config: CaseConfig, seed: int, endpoints: Mapping[str, Endpoint], allowed: Sequence[str], taken: Taken
) -> dict[str, VuSetUp]:
    """Return the shares that set up each VU, by the group whose requests use a variable of `once: vu`."""
    parts = [part for part in config.set_up if part.once == "vu"]
    given = {name for part in parts for name in part.request.takes}
    found = {}
    for group in config.groups:
        executor = group.executor
        if isinstance(executor, ClosedLoop) and given & _used(group):
            vus = executor.most_vus
            each = spec.PerVuIterations(vus=vus, vus_total=vus, iterations=1, spread_ns=APART_NS * (vus - 1))
            http2 = _spoken(parts, [group])
            share = _share(config, parts, each, http2, seed, endpoints, allowed, taken)
            found[group.name] = VuSetUp(share, vus)
    return found


def _used(group: Group) -> set[str]:
    parts = (part for request in group.requests for part in request.parts)
    return {part.taken for part in parts if isinstance(part, TakenPart)}


def _spoken(parts: Sequence[SetUp], groups: Sequence[Group]) -> Http2:
    """Return HTTP/2 if the groups use it for the targets of all these requests; a server of another kind may
    only know HTTP/1.1."""
    by_endpoint = {endpoint: group.http2 for group in groups if group.http2 for endpoint in group.endpoints}
    protocols = {by_endpoint.get(part.request.endpoint, False) for part in parts}
    return protocols.pop() if len(protocols) == 1 else False


def _share(
    config: CaseConfig,
    parts: Sequence[SetUp],
    executor: spec.SharedIterations | spec.PerVuIterations,
    http2: Http2,
    seed: int,
    endpoints: Mapping[str, Endpoint],
    allowed: Sequence[str],
    taken: Taken,
) -> Share:
    """Return one iteration of all `parts` in order by each VU of the executor, reporting its variables."""
    steps = tuple(Step(name=f"{number}", request=part.request) for number, part in enumerate(parts))
    group = Group(
        name=ITSELF,
        executor=PerVuIterations(vus=executor.vus, iterations=1),
        request=parts[0].request,
        scenarios=(Scenario(name=ITSELF, steps=steps),),
        http2=http2,
        record="histogram",
    )
    used = set(feeders_of(group.requests))
    feeders = tuple(feeder for feeder in config.feeders if feeder.name in used)
    alone = config.model_copy(update={"groups": (group,), "feeders": feeders})
    length_ns = APART_NS * executor.vus + sum(part.request.timeout_ns for part in parts)
    times = Timeline(0, length_ns, work_only=True)
    writer = taken.writer(ITSELF)
    asked = group_spec(alone, group, (0, times.end_ns), executor, endpoints, writer, report_taken=True)
    return around(
        f"{ITSELF}.0", alone, [group], [asked], [writer], seed, times, endpoints, allowed, (Part(0, 0),)
    )


def taken_of(summary: Mapping[str, Any], parts: Sequence[SetUp], vus: int) -> dict[str, list[str]]:
    """Return variable → values by VU number. Raises SvloadError set-up-failed if a VU has none."""
    group = summary["groups"][0]
    by_vu = {one["vu"]: one["values"] for one in group.get("taken", [])}
    if len(by_vu) < vus:
        failed = next((step for step in group["steps"] if step["failed"]), None)
        request = parts[int(failed["name"])].request if failed else parts[0].request
        why = _why(failed, group) if failed else f"no answer came within {request.timeout_ns / 1e9:g} s"
        text = f"{request.name} ({request.method}) failed for {vus - len(by_vu)} of {vus}: {why}"
        raise fail("set-up-failed", reason=text, request=request.name)
    names = [name for part in parts for name in part.request.takes]
    return {name: [by_vu[vu][name] for vu in range(vus)] for name in names}


def _why(step: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    """Return `capture (a variable was not found in the answer), status 401`."""
    words: dict[str, int] = step["errors"]
    texts = [_WORDS.get(name, str(name)) for name in words]
    if "status" in words:
        texts = [f"status {', '.join(step['status'])}" if word == "status" else word for word in texts]
    checks = [
        name
        for name, count in group["checks_failed"].items()
        if count and name.startswith(f"{step['name']}: ")
    ]
    if "check" in words:
        texts += [name.partition(": ")[2] for name in checks]
    return ", ".join(texts)


_WORDS = {"capture": "the response lacks the value to take", "check": "a check"}
