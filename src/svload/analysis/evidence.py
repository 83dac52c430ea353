"""Which limits were approached, which counters of refusals moved, and whether a server works at its limit: a
pure function of what monitors declare and what they read, in the kept window (docs/method.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.readings import Floats, Readings, Series, mean_rate, of_monitor, readings_of
from svload.analysis.view import Window
from svload.model.declared import Declared, Limit, Refusal
from svload.model.evidence import (
    CaseEvidence,
    CaseLimit,
    CaseRefusal,
    Evidence,
    LimitState,
    LimitUse,
    RefusalCount,
)
from svload.model.load_curve import ResourceUse
from svload.model.units import show_percent

if TYPE_CHECKING:
    from svload.store import TrialData

_WORST: tuple[LimitState, ...] = ("reached", "approached", "clear")


def evidence_of(trial: TrialData, window: Window) -> Evidence:
    """Return every declared limit that was read in the window, and every declared counter that moved in the
    trial."""
    return evidence(readings_of(trial.monitors), trial.lab.declared or (), window, trial.summary.window_ns[1])


def evidence(readings: Readings, declared: Iterable[Declared], window: Window, end_ns: float) -> Evidence:
    """Compute the same from plain readings. `end_ns`: the load's end."""
    uses: list[LimitUse] = []
    counts: list[RefusalCount] = []
    for one in declared:
        for service in readings.services_of(one.monitor):
            for limit in one.limits:
                found = _uses(readings, service, one.monitor, limit, window)
                if _is_another_s(readings, one.monitor, limit, window):
                    found = (use.model_copy(update={"state": "clear", "first_s": None}) for use in found)
                uses += found
            for refusal in one.refusals:
                counts += _counts(readings, service, one.monitor, refusal, window, end_ns)
    uses.sort(key=lambda use: (use.service, use.monitor, use.name, use.entity))
    counts.sort(key=lambda count: (count.first_s, count.service, count.counter, count.entity))
    return Evidence(limits=tuple(uses), refusals=tuple(counts))


# limits


def _is_another_s(readings: Readings, monitor: str, limit: Limit, window: Window) -> bool:
    """Return whether the use of a limit that any process may fill is not the services': together they made
    less than half of what fills it."""
    if not limit.own or not isinstance(limit.of, float | int):
        return False
    own = [
        rate
        for service in readings.services_of(monitor)
        if (series := readings.of(service, monitor, limit.own).get("")) is not None
        and (rate := mean_rate(series, window)) is not None
    ]
    return bool(own) and sum(own) < limit.at * limit.of / 2


class _Use(NamedTuple):
    """The readings of a limit: times, the share of the limit in use, the limit."""

    at: Floats
    share: Floats
    limit: Floats


def _uses(readings: Readings, service: str, monitor: str, limit: Limit, window: Window) -> Iterator[LimitUse]:
    most = readings.of(service, monitor, limit.of) if isinstance(limit.of, str) else {}
    waiting = readings.of(service, monitor, limit.waiting) if limit.waiting else {}
    for entity, series in readings.of(service, monitor, limit.used).items():
        if limit.entity not in (None, entity):
            continue
        bound = most.get(entity, most.get("")) if isinstance(limit.of, str) else limit.of
        found = None if bound is None else _shares(series, bound, limit.used.endswith("_total"))
        if found is not None and len(found.at):
            yield from _judged(
                service, monitor, limit, entity, found, waiting.get(entity, waiting.get("")), window
            )


def _shares(series: Series, bound: Series | float, counter: bool) -> _Use | None:
    """Return used over limit at each reading; for a counter, the growth a second since the previous reading.
    Without a limit, return nothing."""
    at, used = series
    if counter:
        gap = np.diff(at) / 1e9
        usable = gap > 0
        at, used = at[1:][usable], np.maximum(np.diff(used)[usable] / gap[usable], 0.0)
    most = bound.standing(at) if isinstance(bound, Series) else np.full(len(at), float(bound))
    limited = most > 0
    return _Use(at[limited], used[limited] / most[limited], most[limited]) if limited.any() else None


def _judged(
    service: str, monitor: str, limit: Limit, entity: str, found: _Use, waiting: Series | None, window: Window
) -> Iterator[LimitUse]:
    inside = (found.at >= window.low_ns) & (found.at <= window.high_ns)
    if not inside.any():
        return
    full = found.share > 1.0 if limit.beyond else found.share >= limit.at
    waits = None
    if limit.waiting:
        waits = waiting.standing(found.at) if waiting is not None else np.zeros(len(found.at))
        full = full & (waits > 0)
    share, often = found.share[inside], float(np.mean(full[inside]))
    first = found.at[full & (found.at >= 0)]
    yield LimitUse(
        service=service,
        monitor=monitor,
        name=limit.name,
        resource=limit.resource,
        entity=entity,
        used=float(np.mean(share * found.limit[inside])),
        limit=float(np.mean(found.limit[inside])),
        share=float(np.mean(share)),
        peak_share=float(np.max(share)),
        full=often,
        waiting=None if waits is None else float(np.mean(waits[inside])),
        state=_state(limit, share, often),
        first_s=float(first[0]) / 1e9 if len(first) else None,
        verdict=limit.verdict,
    )


def _state(limit: Limit, share: Floats, often: float) -> LimitState:
    """Return the state by the limit's declared rule: one moment at it, most moments with something waiting,
    or the mean."""
    if limit.brief:
        reached = often > 0
    elif limit.waiting:
        reached = often >= limits.WORKERS_FULL
    else:
        reached = float(np.mean(share)) >= limit.at
    if reached:
        return "reached"
    near = float(np.max(share)) if limit.brief or limit.waiting else float(np.mean(share))
    return "approached" if near >= limits.LIMIT_APPROACHED else "clear"


# refusals


def _counts(
    readings: Readings, service: str, monitor: str, refusal: Refusal, window: Window, end_ns: float
) -> Iterator[RefusalCount]:
    for entity, series in readings.of(service, monitor, refusal.counter).items():
        trial = _from_the_start(series, end_ns)
        grown = np.flatnonzero(np.diff(trial.values) > 0)
        if not len(grown) or (refusal.beside and not _moved_beside(readings, refusal.beside, end_ns)):
            continue
        yield RefusalCount(
            service=service,
            monitor=monitor,
            counter=refusal.counter,
            resource=refusal.resource,
            entity=entity,
            means=refusal.means,
            kind=refusal.kind,
            count=trial.growth,
            in_window=series.enclosing(window).growth,
            first_s=max(float(trial.at[grown[0] + 1]), 0.0) / 1e9,
            verdict=refusal.verdict,
        )


def _from_the_start(series: Series, end_ns: float) -> Series:
    """Return the growth from the last reading before the load, or the first one, to the first reading after
    its end."""
    first = max(int(np.searchsorted(series.at, 0.0, side="right")) - 1, 0)
    last = min(int(np.searchsorted(series.at, end_ns)), len(series.at) - 1)
    return Series(series.at[first : last + 1], series.values[first : last + 1])


def _moved_beside(readings: Readings, counter: str, end_ns: float) -> bool:
    """Return whether the machine's counter moved too; a counter that was not read does not speak against
    it."""
    monitor, _, metric = counter.partition(".")
    found = readings.of("", monitor, metric)
    return not found or any(_from_the_start(series, end_ns).growth > 0 for series in found.values())


# a case


def case_evidence(trials: Sequence[Evidence]) -> CaseEvidence:
    """Summarise a case's trials: how near each limit was, how often it was reached, and which counters moved,
    the earliest first."""
    uses: dict[tuple[str, str, str, str], list[LimitUse]] = {}
    counts: dict[tuple[str, str, str, str], list[RefusalCount]] = {}
    for trial in trials:
        for use in trial.limits:
            uses.setdefault((use.service, use.monitor, use.name, use.entity), []).append(use)
        for count in trial.refusals:
            counts.setdefault((count.service, count.monitor, count.counter, count.entity), []).append(count)
    refusals = [_case_refusal(found, len(trials)) for found in counts.values()]
    refusals.sort(key=lambda one: (one.first_s, one.service, one.counter, one.entity))
    return CaseEvidence(
        limits=tuple(_case_limit(uses[key]) for key in sorted(uses)), refusals=tuple(refusals)
    )


def _case_limit(found: Sequence[LimitUse]) -> CaseLimit:
    one = found[0]
    firsts = [use.first_s for use in found if use.first_s is not None]
    states = [use.state for use in found]
    return CaseLimit(
        service=one.service,
        monitor=one.monitor,
        name=one.name,
        resource=one.resource,
        entity=one.entity,
        used=mean(use.used for use in found),
        limit=mean(use.limit for use in found),
        share=mean(use.share for use in found),
        peak_share=max(use.peak_share for use in found),
        state=max(_WORST, key=states.count),
        reached=states.count("reached"),
        trials=len(found),
        first_s=median(firsts) if firsts else None,
        verdict=one.verdict,
    )


def _case_refusal(found: Sequence[RefusalCount], trials: int) -> CaseRefusal:
    one = found[0]
    return CaseRefusal(
        service=one.service,
        monitor=one.monitor,
        counter=one.counter,
        resource=one.resource,
        entity=one.entity,
        means=one.means,
        kind=one.kind,
        count=sum(count.count for count in found) / trials,
        moved=len(found),
        trials=trials,
        first_s=median(count.first_s for count in found),
        verdict=one.verdict,
    )


def first_to_fail(case: CaseEvidence) -> tuple[CaseLimit | CaseRefusal, ...]:
    """Return what failed first, in order of time: the servers' own limits that most trials reached, and their
    counters that moved in most trials.

    What belongs to other processes or to the machine is not a server's first failure, and appears in the
    evidence only.
    """
    found: list[tuple[float, CaseLimit | CaseRefusal]] = [
        (one.first_s, one)
        for one in case.limits
        if one.verdict and one.state == "reached" and one.first_s is not None
    ]
    found += [(one.first_s, one) for one in case.refusals if one.verdict and 2 * one.moved > one.trials]
    return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))


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
                f"average{waiting}, full in {show_percent(use.full)} of its readings"
            )
    for count in evidence.refusals:
        if count.verdict and count.in_window > 0:
            yield f"{owner('', count.service, count.entity)}: {count.in_window:,.0f} {count.means}"


def owner(name: str, service: str, entity: str) -> str:
    """Return `accept queue of cache (8080)`, `cache`, `the machine (eth0)`."""
    whose = service or "the machine"
    text = f"{name} of {whose}" if name else whose
    return f"{text} ({entity})" if entity else text


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
                f"{use.service} used {show_percent(use.used / use.capacity)} of the {use.capacity:g} {unit} that it can "
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
            yield f"core {core}, which the servers run on, was busy for {show_percent(rate)} of the time"
