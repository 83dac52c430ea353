"""A check whether a server works at its limit, from the limits and refusals that its monitors declare and its
CPU, in the kept window (docs/method.md §5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import Window
from svload.model.evidence import CaseLimit, CaseRefusal, Evidence, LimitUse
from svload.model.load_curve import ResourceUse

if TYPE_CHECKING:
    from svload.store import TrialData


def saturated(
    evidence: Evidence,
    trial: TrialData,
    window: Window,
    uses: Sequence[ResourceUse] = (),
    server_cores: Sequence[int] = (),
) -> tuple[str, ...]:
    """Return a clause for each limit that a service reached, or refused requests at; empty where none shows,
    or none is offered.

    `uses`: how much of each resource was used; `server_cores`: the cores that the services are pinned to, if
    any. Where a monitor declares a limit of CPU that was reached, that clause is used.
    """
    declared = tuple(declared_clauses(evidence))
    if any(use.resource == "cpu" and use.verdict and use.state == "reached" for use in evidence.limits):
        return declared
    return (*declared, *quota_clauses(uses), *_hot_cores(trial, window, uses, server_cores))


def declared_clauses(evidence: Evidence) -> Iterator[str]:
    """Return a clause for each declared limit that was reached, and each declared counter that moved in the
    window."""
    for use in evidence.limits:
        if use.verdict and use.state == "reached":
            waiting = "" if use.waiting is None else f", {use.waiting:,.3g} waiting"
            yield (
                f"{owner(use.name, use.service, use.entity)}: {use.used:,.4g} of {use.limit:,.4g} in use on "
                f"average{waiting}, full in {100 * use.full:.3g} % of its readings"
            )
    for count in evidence.refusals:
        if count.verdict and count.in_window > 0:
            yield f"{owner('', count.service, count.entity)}: {count.in_window:,.0f} {count.means}"


def owner(name: str, service: str, entity: str) -> str:
    """Return `accept queue of cache (8080)`, `cache`, `the machine (eth0)`."""
    whose = service or "the machine"
    told = f"{name} of {whose}" if name else whose
    return f"{told} ({entity})" if entity else told


GROUPS = "quota"
"""The monitor with control groups as entities: a machine's group is read in each service within it."""


def holder(one: LimitUse | CaseLimit) -> str:
    """Return a limit and its owner: for a machine that several services share, the machine."""
    if one.monitor == GROUPS and one.entity.partition("[")[0] not in ("", one.service.partition("[")[0]):
        return owner(one.name, one.entity, "")
    return owner(one.name, one.service, one.entity)


def what_failed(one: CaseLimit | CaseRefusal) -> str:
    """Return `the accept queue of cache (8080) was full`, or `cache: sessions dropped for a full queue`."""
    if isinstance(one, CaseLimit):
        verb = "were" if one.name.partition(" of ")[0].endswith("s") else "was"
        return f"the {holder(one)} {verb} full"
    return f"{owner('', one.service, one.entity)}: {one.means}"


def quota_clauses(uses: Sequence[ResourceUse]) -> Iterator[str]:
    """Return services that use all the CPU that their quota, or their few threads, allow."""
    for use in uses:
        own = use.kind == "cpu" and use.limited_by != "the servers' cores"
        if own and use.used >= limits.CPU_FULL * use.capacity:
            unit = "core" if use.capacity == 1 else "cores"
            yield (
                f"{use.service} used {100 * use.used / use.capacity:.3g} % of the {use.capacity:g} {unit} that it can "
                f"have ({use.limited_by})"
            )


def _hot_cores(
    trial: TrialData, window: Window, uses: Sequence[ResourceUse], server_cores: Sequence[int]
) -> Iterator[str]:
    """Return the servers' cores that are busy throughout, where the servers are what uses them."""
    if sum(use.used for use in uses if use.kind == "cpu") < limits.CPU_FULL / 2:
        return
    busy = of_monitor(trial.monitors, "host", "busy_seconds_total")
    for core in server_cores:
        series = busy.get(f"cpu{core}")
        rate = mean_rate(series, window) if series is not None else None
        if rate is not None and rate >= limits.CPU_FULL:
            yield f"core {core}, which the servers run on, was busy for {100 * rate:.3g} % of the time"
