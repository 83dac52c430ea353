"""What a run will take, before it is started: seconds of wall time and bytes on disk.

Load time is known; what surrounds it is measured in the last run of the same study, or stated here as constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt

from svload.model.results import Findings
from svload.model.study import CaseConfig, Lock
from svload.model.traffic import FixedWork, Group, OpenLoop

START_S = 0.5
"""The machine's agent, generators and monitors, once."""
UP_S = 0.8
"""Bringing one service up, once a bring-up."""
FILL_OBJECTS_PER_S = 2_000.0
"""Objects put into a store a second."""
RESET_S = 0.01
"""Resetting one service before a trial."""
WARM_ROWS_PER_S = 5_000.0
"""Rows warmed a second before a trial."""
TRIAL_S = 0.28
"""Everything else of a trial: shares, common start, counters, tables, seal, provisional verdict."""
DRAIN_S = 0.03
"""From the window's end until the last answer, of a server that keeps up."""
REPORT_S = 4.0
"""Analysis and report of a run, and so much more a trial:"""
REPORT_TRIAL_S = 0.06

ROW_BYTES = 55.0
"""A sample in Parquet."""
INTERVAL_BYTES = 8.0
"""An interval of a group."""
HISTOGRAM_BYTES = 2.5
"""A filled bucket of one metric in one interval; n requests in an interval fill about √n buckets."""
METRICS = 8
MOST_BUCKETS = 400
READINGS_PER_S = 1_300.0
READING_BYTES = 3.0
TRIAL_BYTES = 20_000.0
"""Summary, lab, seal, journal and rows of a trial."""
LEAST_CYCLE_S = 0.005
"""A request of a user who does not think, where nothing is known of the server."""


@dataclass(frozen=True)
class RunEstimate:
    """Wall seconds and bytes of a whole run. `load_s` is load and ramps alone; `basis` says where the rest comes from."""

    seconds: float
    size_bytes: float
    load_s: float
    trials: int
    basis: str


def estimate_run(
    lock: Lock, configs: Mapping[str, CaseConfig], last: Findings | None = None, bring_ups: int = 1
) -> RunEstimate:
    """The estimate for all planned trials of `lock`. `last` is the findings of an earlier run of the same study and profile."""
    replicates = lock.measure.replicates
    duration_s = lock.measure.duration_ns / 1e9
    trials = replicates * len(configs)
    load_s = replicates * sum(config.ramp_ns / 1e9 + duration_s for config in configs.values())
    size = replicates * sum(_trial_bytes(config, duration_s) for config in configs.values())
    outside_s, basis = _outside(lock, configs, last, bring_ups)
    return RunEstimate(load_s + outside_s, size, load_s, trials, basis)


def _outside(
    lock: Lock, configs: Mapping[str, CaseConfig], last: Findings | None, bring_ups: int
) -> tuple[float, str]:
    replicates = lock.measure.replicates
    if (
        last is not None
        and last.study == lock.name
        and last.profile == lock.profile
        and last.sealed_trials
        and "total" in last.phases_s
    ):
        once = sum(last.phases_s.get(name, 0.0) for name in ("up", "install", "fill"))
        each = (last.phases_s["total"] - last.phases_s.get("load", 0.0) - once) / last.sealed_trials
        trials = replicates * len(configs)
        report_s = REPORT_S + REPORT_TRIAL_S * trials
        return once + max(each, 0.0) * trials + report_s, "measured in the last run"
    services = {service.name for config in configs.values() for service in config.services}
    objects = {objects.name: objects.count for config in configs.values() for objects in config.objects}
    up_s = START_S + bring_ups * UP_S * len(services) + sum(objects.values()) / FILL_OBJECTS_PER_S
    each_s = replicates * sum(_before_trial_s(config) + TRIAL_S + DRAIN_S for config in configs.values())
    trials = replicates * len(configs)
    return up_s + each_s + REPORT_S + REPORT_TRIAL_S * trials, "constants, no earlier run is known"


def _before_trial_s(config: CaseConfig) -> float:
    rows = {objects.name: objects.count for objects in config.objects}
    feeders = {feeder.name: feeder for feeder in config.feeders}
    seconds = 0.0
    for step in config.before_trial:
        seconds += RESET_S * len(step.reset)
        feeder = feeders.get(step.warm or "")
        if feeder is not None:
            seconds += (1 if feeder.take == "first" else rows.get(feeder.table, 0)) / WARM_ROWS_PER_S
    return seconds


def requests_of(group: Group, seconds: float) -> float:
    """Requests that a group can make at most in so many seconds."""
    executor, most = group.executor, group.longest_iteration
    if isinstance(executor, OpenLoop):
        return executor.arrivals_until(seconds * 1e9) * most
    asked = executor.users_ns(0, seconds * 1e9) / max(executor.cycle_ns, LEAST_CYCLE_S * 1e9)
    return min(asked, executor.work) * most if isinstance(executor, FixedWork) else asked * most


def _trial_bytes(config: CaseConfig, duration_s: float) -> float:
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
