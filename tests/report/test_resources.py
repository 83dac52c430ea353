"""Monitored series become rates and means; outliers are reported with what servers did meanwhile."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter
from tests.results import readings

from svload.model.faults import FaultEvent
from svload.report.data.digest import GroupDigest, SlowRequest, TrialDigest
from svload.report.data.gather import gather
from svload.report.data.outliers import Outlier, outliers
from svload.report.data.resources import (
    ALL_CORES,
    BINS,
    HOTTEST_CORE,
    Resource,
    Series,
    monitors_cpu,
    resources_of,
)
from svload.report.page.cases import case_section, outlier_rows, section_places
from svload.report.page.data import LEVELS, Anchors
from svload.store.parquet import as_arrays

SECOND_NS = 1_000_000_000
Reading = tuple[float, str, str, str, str, float]


def _table(rows: list[Reading]) -> dict[str, Any]:
    """Return (second, service, monitor, entity, metric, value) as a monitors table."""
    return as_arrays(readings(*((round(at * SECOND_NS), *more) for at, *more in rows)))


def test_a_counter_is_its_rate_and_one_that_began_again_is_not_negative() -> None:
    values = enumerate((100, 300, 700, 0, 50))
    table = _table([(float(at), "web", "nginx", "", "requests_total", value) for at, value in values])
    ((resource, series),) = resources_of(table, 10 * SECOND_NS).items()
    assert (resource.dimension, resource.label) == ("rate_rps", "requests a second")
    assert series.at_s.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert series.values.tolist() == [200, 400, 0, 50]


def test_cores_are_their_sum_and_the_hottest() -> None:
    cores = product((("cpu0", 0.2), ("cpu1", 0.9)), range(4))
    busy = [(float(at), "", "host", core, "busy_seconds_total", at * share) for (core, share), at in cores]
    found = resources_of(_table(busy), 10 * SECOND_NS)
    assert {resource.entity for resource in found} == {ALL_CORES, HOTTEST_CORE}
    both, hottest = (found[Resource("", "host", "busy_seconds_total", name)] for name in (ALL_CORES, HOTTEST_CORE))  # fmt: skip
    assert both.values.tolist() == pytest.approx([1.1] * 3)
    assert hottest.values.tolist() == pytest.approx([0.9] * 3)
    assert next((one.owner, one.label) for one in found) == ("machine", "busy, cores, all cores")


def test_disks_and_interfaces_stay_apart_and_the_only_process_is_the_whole() -> None:
    rows: list[Reading] = []
    for at in (0.0, 1.0):
        rows += [(at, "", "host", disk, "read_bytes_total", at * 1024) for disk in ("vda", "vdb")]
        rows += [(at, "web", "process", name, "rss_bytes", 7.0) for name in ("", "nginx")]
    found = resources_of(_table(rows), 10 * SECOND_NS)
    disks = [("machine", f"read bytes a second, {name}") for name in ("vda", "vdb")]
    assert [(one.owner, one.label) for one in found] == [*disks, ("web", "rss bytes")]


def test_long_series_are_thinned_to_means_within_the_trial() -> None:
    waiting = [(float(at), "web", "nginx", "", "waiting", float(at % 7)) for at in range(-5, 1000)]
    ((_, series),) = resources_of(_table(waiting), 900 * SECOND_NS).items()
    assert len(series.at_s) == BINS
    assert 0 <= series.at_s.min() <= series.at_s.max() <= 900
    assert series.values.mean() == pytest.approx(3.0, abs=0.05)


def test_every_monitor_describes_its_metrics() -> None:
    assert "accept queue" in Resource("", "host", "listen_overflows_total").meaning
    assert Resource("web", "of somebody else", "thing").meaning == ""


def test_what_the_monitors_cost_is_cpu_over_time_however_uneven_the_readings_are() -> None:
    """10 ms of CPU at each of 0.2, 0.21 and 0.41 s: 30 ms of 0.41 s. A mean of the shares would be 37 %."""
    others = [(at, "", "sampler", "", "pass_seconds", 0.5) for at in (0.0, 0.2)]
    shares = [(0.41, 0.05), (0.0, 0.9), (0.21, 1.0), (0.2, 0.05)]
    costs = [(at, "", "sampler", "", "cpu_ratio", share) for at, share in shares]
    assert monitors_cpu(_table([*others, *costs])) == pytest.approx(0.03 / 0.41)
    assert monitors_cpu(_table([*others, (0.2, "", "sampler", "", "cpu_ratio", 0.5)])) is None
    assert monitors_cpu(_table(others)) is None


STALL_S = (0.4, 0.5)
CPU = Resource("cache", "process", "cpu_seconds_total")


def _series(values: list[float], end_s: float = 1.0) -> Series:
    step = end_s / len(values)
    return Series((np.arange(len(values)) + 0.5) * step, np.array(values))


@pytest.fixture
def quiet(reported: Reporter) -> list[TrialDigest]:
    """Return four trials whose slowest response is 10 to 11 ms in every tenth, and a cache on half a core."""
    found = reported("mixed")
    trial = next(iter(gather(found.run, found.findings).digests.values()))
    group = trial.groups["probe"]
    rng = np.random.default_rng(7)
    trials = []
    for number in range(4):
        slowest = _series((0.010 + 0.001 * rng.random(10)).tolist())
        series = {**group.series, "slowest": slowest, "failures": _series([0.0] * 10)}
        resources = {CPU: _series((0.5 + 0.01 * rng.random(10)).tolist())}
        own = {"groups": {"probe": replace(group, series=series, slow=())}, "resources": resources}
        trials.append(replace(trial, name=f"A.r{number + 1}", end_s=1.0, kept_s=(0.0, 1.0), **own))
    return trials


def _spoilt(trial: TrialDigest, **of_group: Any) -> TrialDigest:
    group: GroupDigest = trial.groups["probe"]
    return replace(trial, groups={"probe": replace(group, **of_group)})


def _stalled(trial: TrialDigest) -> TrialDigest:
    """Return the same trial with one request of 0.9 s in its fifth tenth, while the cache uses two cores."""
    slowest = trial.groups["probe"].series["slowest"]
    late = Series(slowest.at_s, np.where(np.isclose(slowest.at_s, 0.45), 0.9, slowest.values))
    series = {**trial.groups["probe"].series, "slowest": late}
    slow = SlowRequest(0.43, 0.9, {"connect": 0.01, "server": 0.88}, "status 200")
    cpu = trial.resources[CPU]
    busy = Series(cpu.at_s, np.where(np.isclose(cpu.at_s, 0.45), 2.0, cpu.values))
    return replace(_spoilt(trial, series=series, slow=(slow,)), resources={CPU: busy})


def _named(trials: list[TrialDigest], medians_s: dict[str, float] | None = None) -> list[Outlier]:
    return outliers(trials, medians_s or {}, "probe")


def test_a_stall_is_named_with_time_and_cause(quiet: list[TrialDigest]) -> None:
    trials = [*quiet[:2], _stalled(quiet[2]), quiet[3]]
    (found,) = _named(trials)
    assert (found.trial, found.group) == ("A.r3", "probe")
    assert found.at_s == pytest.approx(STALL_S) and found.value_s == pytest.approx(0.9)
    assert 0.010 < found.usual_s < 0.011
    assert [(one.resource, round(one.value, 3)) for one in found.unusual] == [(CPU, 2.0)]
    assert found.unusual[0].usual == pytest.approx(0.5, abs=0.02)
    (row,) = outlier_rows(trials, {}, "probe")
    assert row.when == "0.4–0.5 s" and "slowest response 900 ms, usually 10" in row.what
    assert "cache cpu, cores 2 (usually 0.50" in row.servers
    assert row.request == "due at 0.43 s, 900 ms, status 200: server 880 ms and connect 10 ms"

    stalled = replace(trials[2], resources=quiet[2].resources)
    (row,) = outlier_rows([*quiet[:2], stalled, quiet[3]], {}, "probe")
    assert row.servers == "none of the 1 monitored series left its usual range"
    assert _named([replace(one, kept_s=(0.5, 1.0)) for one in trials]) == [], "in the warm-up"


def test_a_trial_far_from_the_others_is_named_first(quiet: list[TrialDigest]) -> None:
    medians_s = {"A.r1": 0.0050, "A.r2": 0.0051, "A.r3": 0.0052, "A.r4": 0.0100}
    (found,) = _named(quiet, medians_s)
    assert (found.trial, found.at_s, found.value_s) == ("A.r4", None, pytest.approx(0.0100))
    del medians_s["A.r1"]
    assert _named(quiet[1:], medians_s) == []


def test_failures_are_named_where_next_to_none_fail_and_not_where_many_do(quiet: list[TrialDigest]) -> None:
    def failing(trial: TrialDigest, rates: list[float]) -> TrialDigest:
        return _spoilt(trial, series={**trial.groups["probe"].series, "failures": _series(rates)})

    once = failing(quiet[0], [0, 0, 0, 30.0, 0, 0, 0, 0, 0, 0])
    (found,) = _named([once, *quiet[1:]])
    assert (found.trial, round(found.failures)) == ("A.r1", 3)
    cut = replace(failing(quiet[0], [0.0] * 9 + [50.0]), end_s=0.96, kept_s=(0.0, 0.96))
    (found,) = _named([cut, *quiet[1:]])
    assert found.at_s == pytest.approx((0.9, 0.96)) and round(found.failures) == 3
    assert _named([failing(one, [10.0] * 10) for one in quiet]) == []


KILLED = FaultEvent(place=0, do="kill", target="cache", planned_s=0.1, begun_s=0.1, done_s=0.2)


@pytest.mark.parametrize("ended", [False, True], ids=["not read", "ended by a fault"])
def test_a_service_without_counts_in_a_trial_has_no_sum(reported: Reporter, ended: bool) -> None:
    """The client's count is over all trials, and a server that was started again counts from 0."""
    found = reported("plain")
    gathered = gather(found.run, found.findings)
    case = found.findings.cases[0]

    def counted() -> list[str]:
        places = section_places(gathered, case, LEVELS[0], Anchors())
        rows = case_section(gathered, case, LEVELS[0], places)["counted"]
        return next(values for what, _, values in rows if what == "requests written")

    before = counted()
    first = gathered.of_case(case.case)[0]
    others = {name: one for name, one in first.lab.before.items() if name != "cache"}
    lab = evolve(first.lab, faults=(KILLED,)) if ended else evolve(first.lab, before=others)
    gathered.digests[first.name] = replace(first, lab=lab)
    assert sorted(set(counted()) - set(before)) == ["not offered"] and counted().count("not offered") == 1
