"""An estimate, before a run starts, of what it will take: seconds of wall time and bytes on disk.

Load time is known. The rest is measured in the last run of the same study and profile, case by case; without
such a run it follows from what each kit states (model.costs) and a few constants of svload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean

from svload.analysis.phases import AFTER_TRIALS, BEFORE_TRIALS
from svload.analysis.turn_plan import least_plan, least_rounds, sides_of
from svload.model.costs import Costs
from svload.model.events import Event
from svload.model.executors import ClosedLoop, FixedWork, OpenLoop
from svload.model.study import CaseConfig, Lock
from svload.model.traffic import Group

START_S = 0.5
"""Starting the machine's agent, generators and monitors, once."""
TRIAL_S = 0.2
"""Overhead of a trial: shares, common start, counters, tables, seal, provisional verdict."""
REPORT_S = 2.0
"""Analysis and report of a run, and this much more for each trial:"""
REPORT_TRIAL_S = 0.03

ROW_BYTES = 55.0
"""A sample in Parquet."""
INTERVAL_BYTES = 8.0
"""An interval of a group."""
HISTOGRAM_BYTES = 2.5
"""A filled bucket of one metric in one interval; n requests in an interval fill about √n buckets."""
METRICS = 10
MOST_BUCKETS = 400
READINGS_PER_S = 1_300.0
READING_BYTES = 3.0
TRIAL_BYTES = 20_000.0
"""Summary, lab, seal, journal and rows of a trial."""
LEAST_CYCLE_S = 0.005
"""Cycle of a user who does not think, where nothing is known about the server."""


@dataclass(frozen=True)
class Measured:
    """Overhead beside load (s) of an earlier run of the same study and profile. `beside_s`: that of a trial
    of each case, on average."""

    once_s: float
    beside_s: Mapping[str, float]
    report_trial_s: float


@dataclass(frozen=True)
class RunEstimate:
    """Wall seconds and bytes of a whole run. `load_s` is load and ramps alone; `basis` says where the other
    figures come from."""

    seconds: float
    size_bytes: float
    load_s: float
    trials: int
    basis: str


def estimate_run(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    costs: Mapping[str, Mapping[str, Costs]],
    *,
    restarts: int = 0,
    last: Measured | None = None,
) -> RunEstimate:
    """Estimate all planned trials of `lock`. `costs`: case → service → what it takes; `restarts` of the whole
    lab."""
    trials = sum(config.measure.replicates for config in configs.values())
    load_s = _over_trials(configs, lambda _, config: load_seconds(config))
    size = size_of_run(lock, configs)
    if last is not None:
        average_s = fmean(last.beside_s.values())  # for a case that the last run left out
        beside_s = _over_trials(configs, lambda name, _: last.beside_s.get(name, average_s))
        outside_s = last.once_s + beside_s + trials * last.report_trial_s
        return RunEstimate(load_s + outside_s, size, load_s, trials, "measured in the last run")
    sides = max(map(len, sides_of(lock)), default=1)
    outside_s = _bring_ups_s(configs, costs, sides * (restarts + 1) - 1)
    outside_s += _over_trials(configs, lambda name, config: _trial_s(config, costs[name]))
    outside_s += REPORT_S + REPORT_TRIAL_S * trials
    return RunEstimate(
        load_s + outside_s, size, load_s, trials, "what its kits state; no earlier run is known"
    )


def load_seconds(config: CaseConfig) -> float:
    """Return how long a trial's load takes, with its ramps; with turns, at least as long as its fewest turns
    and their pauses take."""
    ramp_s, duration_ns = config.ramp_ns / 1e9, config.measure.duration_ns
    if config.measure.order != "turns":
        return ramp_s + duration_ns / 1e9
    return ramp_s + least_plan(duration_ns, least_rounds(config)).seconds(sides=1)


def size_of_run(lock: Lock, configs: Mapping[str, CaseConfig]) -> float:
    """Return the bytes on disk of all planned trials of `lock`."""
    return _over_trials(configs, lambda _, config: _trial_bytes(config))


def _over_trials(configs: Mapping[str, CaseConfig], each: Callable[[str, CaseConfig], float]) -> float:
    """Sum over all trials what one trial of each case takes."""
    return sum(config.measure.replicates * each(name, config) for name, config in configs.items())


def measured(events: Sequence[Event]) -> Measured | None:
    """Return what a run took beside load according to its journal, restarts included and resumes averaged;
    None if none of its trials was sealed."""
    beside: dict[str, list[float]] = {}
    phases: dict[str, list[float]] = {}
    for event in events:
        beside_s, seconds = event.number("beside_s"), event.number("seconds")
        if event.kind == "trial-sealed" and beside_s is not None:
            beside.setdefault(event.text("case"), []).append(beside_s)
        elif event.kind == "phase" and seconds is not None:
            phases.setdefault(event.text("name"), []).append(seconds)
    if not beside:
        return None
    before_s, after_s = (
        sum(sum(phases.get(name, ())) for name in names) for names in (BEFORE_TRIALS, AFTER_TRIALS)
    )
    bring_ups, analyses = (max(len(phases.get(name, ())), 1) for name in ("up", "analyse"))
    sealed = sum(map(len, beside.values()))
    by_case = {case: fmean(times) for case, times in beside.items()}
    return Measured(START_S + before_s / bring_ups, by_case, after_s / analyses / sealed)


def _bring_ups_s(
    configs: Mapping[str, CaseConfig], costs: Mapping[str, Mapping[str, Costs]], restarts: int
) -> float:
    services = {name: cost for by_service in costs.values() for name, cost in by_service.items()}
    up_s = sum(cost.up_s for cost in services.values())
    sets = {one.table: one for config in configs.values() for one in config.objects}.values()
    fill_s = sum(one.count / services[one.service].fill_per_s for one in sets)
    refill_s = fmean(
        sum(
            one.count / (services[one.service].refill_per_s or services[one.service].fill_per_s)
            for one in config.objects
        )
        for config in configs.values()
    )
    return START_S + up_s + fill_s + restarts * (up_s + refill_s)


def _trial_s(config: CaseConfig, costs: Mapping[str, Costs]) -> float:
    """Return the overhead of a trial beside its load: reset, warming, two readings of settled counters,
    answers after the end."""
    rows = {objects.table: objects.count for objects in config.objects}
    feeders = {feeder.name: feeder for feeder in config.feeders}
    seconds = TRIAL_S + 2 * max((cost.settle_s for cost in costs.values()), default=0.0)
    for step in config.before_trial:
        seconds += sum(costs[service].reset_s for service in step.reset)
        feeder = feeders.get(step.warm or "")
        if feeder is not None:
            asked = 1 if feeder.take == "first" else rows.get(feeder.table, 0)
            seconds += asked / costs.get(step.through or "", Costs()).answers_per_s
    return seconds + _drain_s(config, costs)


def _drain_s(config: CaseConfig, costs: Mapping[str, Costs]) -> float:
    """Return the time from the load's end to the last answer: a closed loop's response time is its users over
    the throughput, R = N/X. A cache that was warmed answers by itself."""
    warmed = {step.through for step in config.before_trial if step.warm}
    busy: dict[str, float] = {}
    for group in config.groups:
        if isinstance(group.executor, ClosedLoop):
            for host in group.hosts:
                busy[host] = busy.get(host, 0.0) + group.executor.most_vus

    def answers_per_s(host: str) -> float:
        cost = costs.get(host, Costs())
        return (cost.hits_per_s if host in warmed else None) or cost.answers_per_s

    slowest_s = max((users / answers_per_s(host) for host, users in busy.items()), default=0.0)
    return min(slowest_s, max((group.longest_timeout_ns for group in config.groups), default=0) / 1e9)


def requests_of(group: Group, seconds: float) -> float:
    """Return the largest number of requests that a group can make in this many seconds."""
    executor, most = group.executor, group.longest_iteration
    if isinstance(executor, OpenLoop):
        return executor.arrivals_until(seconds * 1e9) * most
    asked = executor.users_ns(0, seconds * 1e9) / max(executor.cycle_ns, LEAST_CYCLE_S * 1e9)
    return min(asked, executor.work) * most if isinstance(executor, FixedWork) else asked * most


def _trial_bytes(config: CaseConfig) -> float:
    duration_s = config.measure.duration_ns / 1e9
    whole_s = duration_s + config.ramp_ns / 1e9
    intervals = ceil(whole_s / max(0.001, min(1.0, duration_s / 600)))
    size = TRIAL_BYTES + whole_s * READINGS_PER_S * READING_BYTES
    for group in config.groups:
        requests = requests_of(group, whole_s)
        buckets = min(sqrt(requests / intervals), MOST_BUCKETS) * intervals * METRICS
        size += (
            intervals * INTERVAL_BYTES
            + buckets * HISTOGRAM_BYTES
            + (requests * ROW_BYTES if group.keeps_rows else 0.0)
        )
    return size
