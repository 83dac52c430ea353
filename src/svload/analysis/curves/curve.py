"""Throughput and response over every factor that is a load, what the laws state about them, and what a curve
says in sentences: computed without being asked for (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from statistics import median
from typing import Any

import numpy as np

from svload.analysis import limits
from svload.analysis.claims.pairs import grade_of
from svload.analysis.inference import t_interval, welch_interval
from svload.analysis.laws.every import Laws, balance, laws_of
from svload.analysis.laws.levels import Kind, Limit, Resource, Run
from svload.model.executors import ConstantArrivalRate, ConstantVus
from svload.model.load_curve import (
    DemandFound,
    LimitName,
    LoadCurve,
    LoadLimit,
    LoadPoint,
    RampBreak,
    ResourceUse,
)
from svload.model.results import CaseResult, Finding, TrialResult
from svload.model.study import CaseConfig, Factor, Lock
from svload.model.traffic import Group
from svload.model.units import show_duration, show_number

_LIMITS: Mapping[Kind, LimitName] = {"users": "N*", "think": "Z*", "rate": "full rate"}


def load_curves(
    lock: Lock, configs: Mapping[str, CaseConfig], cases: Sequence[CaseResult], trials: Sequence[TrialResult]
) -> tuple[LoadCurve, ...]:
    """Return a curve for each set of cases that differ in a load alone and have numbers at two levels or
    more."""
    by_case: dict[str, list[TrialResult]] = {}
    for trial in trials:
        by_case.setdefault(trial.case, []).append(trial)
    ran = {case.case: case for case in cases if case.excluded is None and case.case in configs}
    found = (
        _curve(axis, by_case)
        for factor in lock.factors
        if len(factor.levels) > 1
        for axis in axes_of(factor, ran, configs)
    )
    return tuple(one for one in found if one is not None)


def _curve(axis: Axis, by_case: Mapping[str, Sequence[TrialResult]]) -> LoadCurve | None:
    runs: dict[str, list[Run]] = {}
    uses: list[ResourceUse] = []
    for case in axis.cases.values():
        for trial in by_case.get(case, ()):
            run = _run(trial, axis.group)
            if run is not None:
                runs.setdefault(case, []).append(run)
                uses += trial.uses
    if axis.kind == "think":
        runs = {case: _alike(mine) for case, mine in runs.items()}
    return curve_of(axis, runs, uses)


def curve_of(
    axis: Axis, runs: Mapping[str, Sequence[Run]], uses: Sequence[ResourceUse] = ()
) -> LoadCurve | None:
    """Return the curve of runs by case; None with fewer than two levels. `uses` gives the capacity of each
    resource of the runs."""
    every = [run for mine in runs.values() for run in mine]
    laws = laws_of(every, _resources(uses), axis.kind)
    if laws is None:
        return None
    points = tuple(sorted(_points(axis, runs, laws), key=lambda one: one.at))
    offs = [point.accounted - 1 for point in points if point.accounted is not None]
    curve = LoadCurve(
        factor=axis.factor,
        kind=axis.kind,
        group=axis.group,
        when=axis.when,
        points=points,
        demands=_demands(laws, uses),
        limits=tuple(_limits(laws)),
        top_rps=laws.bounds.top_rps if laws.bounds else None,
        alone_s=laws.bounds.alone_s if laws.bounds else None,
        agree=laws.agree,
        law_off=max(offs, key=abs, default=None),
        law_allowed=max([limits.LAW_HOLDS, *(one.edge for one in laws.balances if one.edge is not None)]),
        scalability=(fit.one_rps, fit.serial, fit.crosstalk) if (fit := laws.scalability) else None,
    )
    return curve.model_copy(update={"sentences": sentences_of(curve)})


def _run(trial: TrialResult, group: str) -> Run | None:
    """Return a trial in the form that the laws take; None where its throughput or its mean response cannot be
    believed."""
    names = [f"{group}.throughput", f"{group}.response.mean"]
    found = [trial.metrics.get(name) for name in names]
    load = trial.loads.get(group)
    if load is None or any(grade_of(trial, name) == "REFUSED" for name in names):
        return None
    throughput, response = (one.value if one else None for one in found)
    if not throughput or not response:
        return None
    return Run(
        throughput_rps=throughput,
        response_s=response,
        users=load.users,
        rate_rps=load.rate_rps,
        think_s=load.think_s,
        block=trial.block,
        window_s=load.window_s,
        longest_cycle_s=load.longest_cycle_s,
        uses={use.name: use.used for use in trial.uses},
    )


def _alike(runs: Sequence[Run]) -> list[Run]:
    """Merge runs of one case with one think time, the median of what was measured, since they are one
    level."""
    think_s = median(run.think_s for run in runs)
    return [Run(**{**vars(run), "think_s": think_s}) for run in runs]


def _resources(uses: Sequence[ResourceUse]) -> list[Resource]:
    """Return each resource once, with the least capacity that a trial found."""
    least: dict[str, ResourceUse] = {}
    for use in uses:
        if use.name not in least or use.capacity < least[use.name].capacity:
            least[use.name] = use
    return [Resource(use.name, use.kind, use.capacity) for use in least.values() if use.capacity > 0]


def _points(axis: Axis, runs: Mapping[str, Sequence[Run]], laws: Laws) -> Iterator[LoadPoint]:
    levels = {id(run): level for level in laws.levels for run in level.runs}
    names = {case: level for level, case in axis.cases.items()}
    for case, mine in runs.items():
        level = levels.get(id(mine[0]))
        if level is None:
            continue
        throughput, response = (
            [getattr(run, name) for run in mine] for name in ("throughput_rps", "response_s")
        )
        x_interval, r_interval = t_interval(throughput), t_interval(response)
        most_rps, least_s = laws.bounds.at(level, axis.kind) if laws.bounds else (None, None)
        balances = [one.accounted / one.users for run in mine if (one := balance(run)) is not None]
        yield LoadPoint(
            case=case,
            level=names[case],
            at=level.at,
            users=level.users,
            think_s=level.think_s,
            throughput_rps=level.throughput_rps,
            throughput_low=max(x_interval[0], 0.0) if x_interval else None,
            throughput_high=x_interval[1] if x_interval else None,
            response_s=level.response_s,
            response_low=max(r_interval[0], 0.0) if r_interval else None,
            response_high=r_interval[1] if r_interval else None,
            runs=tuple(zip(throughput, response, strict=True)),
            most_rps=most_rps,
            least_s=least_s,
            accounted=float(np.mean(balances)) if balances else None,
            flat=any(one is level for one in laws.flat),
        )


def _demands(laws: Laws, uses: Sequence[ResourceUse]) -> tuple[DemandFound, ...]:
    if laws.ground is None:
        return ()
    by_name = {use.name: use for use in uses}
    return tuple(
        DemandFound(
            resource=one.resource.name,
            limited_by=by_name[one.resource.name].limited_by,
            kind=one.resource.kind,
            capacity=one.resource.capacity,
            demand_s=one.demand_s,
            low=one.low,
            high=one.high,
            at_rest=one.at_rest,
            most_used=one.most_used,
            bottleneck=one is laws.ground.bottleneck,
        )
        for one in laws.ground.demands
    )


def _limits(laws: Laws) -> Iterator[LoadLimit]:
    yield _limit(_LIMITS[laws.kind], laws.limit)
    if laws.kind != "think":
        yield _limit("N_break" if laws.kind == "users" else "rate_break", laws.break_at)
    if laws.kind == "users":
        yield _limit("N_peak", laws.peak)


def _limit(name: LimitName, limit: Limit) -> LoadLimit:
    return LoadLimit(
        name=name, value=limit.value, low=limit.low, high=limit.high, state=limit.state, reason=limit.reason
    )


@dataclass(frozen=True)
class Axis:
    """Cases that differ in one group's load alone, by the level of the factor."""

    factor: str
    kind: Kind
    group: str
    when: dict[str, str]
    """levels of the other factors that have more than one level in the run"""
    cases: dict[str, str]
    """level → case"""


def axes_of(
    factor: Factor, ran: Mapping[str, CaseResult], configs: Mapping[str, CaseConfig]
) -> Iterator[Axis]:
    """Return the sets of cases that differ in this factor alone, where that is a load."""
    others: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    levels = {(name, level) for case in ran.values() for name, level in case.levels.items()}
    varying = {name for name, _ in levels if sum(name == other for other, _ in levels) > 1} - {factor.name}
    for case in ran.values():
        key = tuple((name, level) for name, level in case.levels.items() if name in varying)
        others.setdefault(key, {})[case.levels[factor.name]] = case.case
    for when, cases in others.items():
        mine = [configs[name] for name in cases.values()]
        load = _load_that_varies(mine) if len(mine) > 1 else None
        if load is not None:
            ordered = {level.name: cases[level.name] for level in factor.levels if level.name in cases}
            yield Axis(factor.name, load[1], load[0], dict(when), ordered)


def _load_that_varies(configs: Sequence[CaseConfig]) -> tuple[str, Kind] | None:
    """Return (group, what) if the cases differ in one group's users, rate or think time, and in nothing
    else."""
    if any(_without_load(config) != _without_load(configs[0]) for config in configs[1:]):
        return None
    varying = []
    for name in (group.name for group in configs[0].groups):
        loads = [_load_of(group) for config in configs for group in config.groups if group.name == name]
        if any(load is None for load in loads):
            continue
        for kind, values in zip(
            ("users", "rate", "think"), zip(*[load for load in loads if load], strict=True), strict=True
        ):
            if len(set(values)) > 1:
                varying.append((name, kind))
    return varying[0] if len(varying) == 1 else None  # type: ignore[return-value]  # the words above are the kinds


def _load_of(group: Group) -> tuple[float, float, float] | None:
    """Return (users, rate, think time in ns) of a constant load; None for any other."""
    executor = group.executor
    if isinstance(executor, ConstantVus):
        steps = sum(step.think_time.mean_ns for step in group.steps)
        return float(executor.vus), 0.0, executor.cycle_ns + steps
    return (0.0, executor.rate_rps, 0.0) if isinstance(executor, ConstantArrivalRate) else None


def _without_load(config: CaseConfig) -> dict[str, Any]:
    """Return everything in a case's configuration except its load and its criteria."""
    plain = config.model_dump(exclude={"case", "expects", "thresholds"})
    for group in plain["groups"]:
        if group["executor"]["kind"] in ("constant-vus", "constant-arrival-rate"):
            for name in ("vus", "rate_rps", "think_time", "pacing_ns", "max_vus", "ramp_up_ns"):
                group["executor"].pop(name, None)
        for scenario in group["scenarios"]:
            for step in scenario["steps"]:
                step.pop("think_time", None)
    return plain


MEASURED = "measured"
_LAW = "N = X·(R + Z)"


def sentences_of(curve: LoadCurve) -> tuple[str, ...]:
    """Return the sentences: think time first, then the limit, then whether the law holds where no other
    sentence has stated it."""
    texts = []
    if curve.kind == "think":
        texts += list(_think_time(curve))
    texts += [sentence for sentence in (_limit_words(curve), _peak(curve)) if sentence]
    if curve.kind == "users" and curve.law_off is not None:
        texts.append(f"{_law(curve)}.")
    return tuple(texts)


def curve_findings(curves: Sequence[LoadCurve]) -> Iterator[Finding]:
    """Return one finding per curve, with the cases that it rests on."""
    for curve in curves:
        if curve.sentences:
            where = ", ".join(f"{factor} {level}" for factor, level in curve.when.items())
            yield Finding(
                kind="law",
                sentence=(f"{where}: " if where else "") + " ".join(curve.sentences),
                evidence=tuple(f"cases/{point.case}" for point in curve.points),
                certainty=MEASURED,
            )


def _law(curve: LoadCurve) -> str:
    """State whether N = X·(R + Z) holds, without a full stop."""
    off = curve.law_off
    if off is None:
        return f"{_LAW} can't be checked: the trials' windows hold fewer than {limits.LAW_CYCLES} cycles"
    if abs(off) <= curve.law_allowed:
        return f"{_LAW} holds within {max(ceil(100 * abs(off)), 1)} %"
    more = (
        "late completions are counted"
        if off > 0
        else "users spent time on something other than response and think time"
    )
    return f"{_LAW} is off by {100 * off:+.2g} %: {more}"


def _think_time(curve: LoadCurve) -> Iterator[str]:
    """Describe the effect of the longest pause compared with the shortest."""
    short, long = curve.points[0], curve.points[-1]
    if long.response_s >= short.response_s:
        return
    pause = show_duration(long.at)
    fell = f"response time fell from {show_duration(short.response_s)} to {show_duration(long.response_s)}"
    change = long.throughput_rps / short.throughput_rps - 1
    if _surely_more(short, long):
        yield (
            f"With a think time of {pause} {fell} and throughput rose from {_rate(short.throughput_rps)} to "
            f"{_rate(long.throughput_rps)} ({100 * change:+.2g} %): with fewer requests at once the server is more efficient. "
            f"{_law(curve)}."
        )
    else:
        kept = "stayed at" if abs(change) <= limits.FLAT else "went to"
        yield (
            f"The {pause} think time did not make the server faster: {fell}, because users think instead of waiting, "
            f"throughput {kept} {_rate(long.throughput_rps)} ({100 * change:+.2g} %), and {_law(curve)}."
        )


def _surely_more(short: LoadPoint, long: LoadPoint) -> bool:
    """Return whether throughput is higher with the longer pause: by its interval, or with single trials by
    more than 5 %."""
    logs = [np.log([run[0] for run in point.runs]) for point in (long, short)]
    difference, interval = welch_interval(logs[0], logs[1])
    least = interval[0] if interval else difference - log(1 + limits.FLAT)
    return least > 0 and difference > log(1 + limits.FLAT)


def _limit_words(curve: LoadCurve) -> str:
    limit = curve.limits[0]
    first = next((one for one in curve.demands if one.bottleneck), None)
    if limit.value is None:
        return f"No limit of {_what(limit.name)}: {limit.reason}."
    shown = shown_limit(limit)
    if limit.state != "bracketed":
        return (
            f"{limit.name} is not bracketed by the levels: about {shown}, "
            f"{_beside(curve, limit)}{_because(first, limit)}."
        )
    words = {
        "N*": f"From N* = {shown} users on, users wait for one another{_because(first, limit)}",
        "Z*": (
            f"With a think time below Z* = {shown} these users saturate the server{_because(first, limit)}"
        ),
    }.get(limit.name, f"The server is saturated at {shown}{_because(first, limit)}")
    return f"{words}{_breaks(curve)}."


def _breaks(curve: LoadCurve) -> str:
    """Compare the measured break with the limit; "" where there is none."""
    found = next((one for one in curve.limits if one.name in ("N_break", "rate_break")), None)
    if found is None or found.value is None or found.state != "bracketed":
        return ""
    agrees = (
        "they agree within 25 %"
        if curve.agree
        else "they differ by more than 25 %: they are two different quantities"
    )
    return f"; measured throughput stops rising linearly at {shown_limit(found)}, and {agrees}"


def _peak(curve: LoadCurve) -> str:
    found = next((one for one in curve.limits if one.name == "N_peak"), None)
    if found is None or found.value is None:
        return ""
    return f"Throughput is largest at N_peak = {shown_limit(found)} users and falls beyond it (Universal Scalability Law)."


def _what(name: LimitName) -> str:
    return {"N*": "users", "Z*": "think time"}.get(name, "the rate")


def _beside(curve: LoadCurve, limit: LoadLimit) -> str:
    first, last = (_value(limit.name, point.at) for point in (curve.points[0], curve.points[-1]))
    return {"below": f"below the lowest of {first}", "above": f"above the highest of {last}"}.get(
        limit.state, f"and its interval reaches beyond {first} to {last}"
    )


def _because(first: DemandFound | None, limit: LoadLimit) -> str:
    if first is None:
        return f" ({limit.reason})"
    if first.kind == "rate":
        return f" ({first.resource}: {show_duration(first.demand_s)} per request at {first.limited_by})"
    unit = "worker" if first.kind == "workers" else "core"
    several = "" if first.capacity == 1 else "s"
    return (
        f" ({first.resource}: {show_duration(first.demand_s)} per request, {first.capacity:g} {unit}{several}: "
        f"{first.limited_by})"
    )


def shown_limit(limit: LoadLimit) -> str:
    """Return `23.4 [22.1, 24.8]`."""
    assert limit.value is not None
    text = _value(limit.name, limit.value)
    if limit.low is None or limit.high is None:
        return text
    return f"{text} [{_value(limit.name, limit.low)}, {_value(limit.name, limit.high)}]"


def _value(name: LimitName, value: float) -> str:
    if name == "Z*":
        return show_duration(value)
    return _rate(value) if name in ("full rate", "rate_break") else f"{value:.3g}"


def _rate(value: float) -> str:
    return f"{show_number(value, 4)}/s"


def ramp_findings(trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Return a finding for each case and group with response or errors that left their line on a ramp: the
    earlier of the two first."""
    found: dict[tuple[str, str], dict[str, list[RampBreak]]] = {}
    for trial in trials:
        for one in trial.breaks:
            found.setdefault((trial.case, one.group), {}).setdefault(one.what, []).append(one)
    for (case, group), by_what in found.items():
        sentences = sorted(clause for what, breaks in by_what.items() if (clause := _ramp(what, breaks)))
        if sentences:
            clauses = " and ".join(clause for _, clause in sentences)
            yield Finding(
                kind="law",
                sentence=f"{case}: as the load of {group} rises, {clauses}.",
                evidence=(f"cases/{case}",),
                certainty=MEASURED,
            )


def _ramp(what: str, breaks: Sequence[RampBreak]) -> tuple[float, str] | None:
    """Return (where, clause) if it broke in most trials: with t over several trials, or with the own interval
    of a single trial."""
    known = [one for one in breaks if one.at is not None]
    if 2 * len(known) <= len(breaks):
        return None
    values = [one.at for one in known if one.at is not None]
    interval = t_interval(values) if len(values) >= limits.DESCRIBE_BLOCKS else (known[0].low, known[0].high)
    unit = "users" if known[0].kind == "users" else "/s"
    space = " " if unit == "users" else ""
    ends = (
        f" [{interval[0]:.3g}, {interval[1]:.3g}]"
        if interval and interval[0] is not None and interval[1] is not None
        else ""
    )
    word = "response time starts to rise faster" if what == "response" else "errors start"
    return median(values), f"{word} at {median(values):.3g}{ends}{space}{unit}"
