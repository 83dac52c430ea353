"""Monitored series: counters become rates, cores a sum and the hottest, long series thin without losing their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svload.report.data.resources import (
    ALL_CORES,
    BINS,
    HOTTEST_CORE,
    Resource,
    monitors_cpu,
    resources_of,
)

SECOND_NS = 1_000_000_000
Reading = tuple[float, str, str, str, str, float]


def _table(readings: list[Reading]) -> dict[str, Any]:
    """(second, service, monitor, entity, metric, value) as a monitors table."""
    columns = list(zip(*readings, strict=True))
    texts = {
        name: np.array(column, dtype=object)
        for name, column in zip(("service", "monitor", "entity", "metric"), columns[1:5], strict=True)
    }
    return {
        "offset_ns": (np.array(columns[0]) * SECOND_NS).astype("<i8"),
        **texts,
        "value": np.array(columns[5], dtype="<f8"),
    }


def test_a_counter_is_its_rate_and_one_that_began_anew_is_not_negative() -> None:
    readings = [(float(at), "web", "nginx", "", "requests_total", value) for at, value in enumerate((100, 300, 700, 0, 50))]  # fmt: skip
    ((resource, series),) = resources_of(_table(readings), 10 * SECOND_NS).items()
    assert (resource.dimension, resource.label) == ("rate_rps", "requests a second")
    assert series.at_s.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert series.values.tolist() == [200, 400, 0, 50]


def test_cores_are_their_sum_and_the_hottest() -> None:
    readings = [
        (float(at), "", "host", core, "busy_seconds_total", at * busy)
        for core, busy in (("cpu0", 0.2), ("cpu1", 0.9))
        for at in range(4)
    ]
    found = resources_of(_table(readings), 10 * SECOND_NS)
    assert {resource.entity for resource in found} == {ALL_CORES, HOTTEST_CORE}
    both, hottest = (found[Resource("", "host", "busy_seconds_total", name)] for name in (ALL_CORES, HOTTEST_CORE))  # fmt: skip
    assert both.values.tolist() == pytest.approx([1.1] * 3)
    assert hottest.values.tolist() == pytest.approx([0.9] * 3)
    assert next(iter(found)).label == "busy, cores, all cores"
    assert next(iter(found)).owner == "machine"


def test_disks_and_interfaces_stay_apart_and_the_only_process_is_the_whole() -> None:
    readings = [(float(at), "", "host", name, "read_bytes_total", at * 1024.0) for at in (0, 1) for name in ("vda", "vdb")]  # fmt: skip
    readings += [(float(at), "web", "process", name, "rss_bytes", 7.0) for at in (0, 1) for name in ("", "nginx")]  # fmt: skip
    found = resources_of(_table(readings), 10 * SECOND_NS)
    assert [(one.owner, one.label) for one in found] == [
        ("machine", "read bytes a second, vda"),
        ("machine", "read bytes a second, vdb"),
        ("web", "rss bytes"),
    ]


@pytest.mark.parametrize(
    ("metric", "dimension"),
    [
        ("used_bytes", "size_bytes"),
        ("sent_bytes_total", "size_bytes"),
        ("pressure_some_seconds_total", "count"),
        ("pass_seconds", "time_s"),
        ("cpu_ratio", "ratio"),
        ("connections_open", "count"),
        ("hits_total", "rate_rps"),
    ],
)
def test_the_unit_is_the_name_s(metric: str, dimension: str) -> None:
    assert Resource("web", "some", metric).dimension == dimension


def test_long_series_are_thinned_to_means_within_the_trial() -> None:
    readings = [(float(at), "web", "nginx", "", "waiting", float(at % 7)) for at in range(-5, 1000)]
    ((_, series),) = resources_of(_table(readings), 900 * SECOND_NS).items()
    assert len(series.at_s) == BINS
    assert 0 <= series.at_s.min() <= series.at_s.max() <= 900
    assert series.values.mean() == pytest.approx(3.0, abs=0.05)


def test_every_monitor_of_ours_tells_what_its_metrics_are() -> None:
    assert "accept queue" in Resource("", "host", "listen_overflows_total").meaning
    assert Resource("web", "of somebody else", "thing").meaning == ""


def test_what_the_monitors_cost_is_cpu_over_time_however_uneven_the_readings_are() -> None:
    """10 ms of CPU at each of 0.2, 0.21 and 0.41 s: 30 ms of 0.41 s. A mean of the shares would be 37 %."""
    others = [(at, "", "sampler", "", "pass_seconds", 0.5) for at in (0.0, 0.2)]
    shares = [(0.41, 0.05), (0.0, 0.9), (0.21, 1.0), (0.2, 0.05)]
    readings = [*others, *((at, "", "sampler", "", "cpu_ratio", share) for at, share in shares)]
    assert monitors_cpu(_table(readings)) == pytest.approx(0.03 / 0.41)
    assert monitors_cpu(_table([*others, (0.2, "", "sampler", "", "cpu_ratio", 0.5)])) is None
    assert monitors_cpu(_table(others)) is None
