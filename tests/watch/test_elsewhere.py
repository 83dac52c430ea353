"""Readings from other machines: a run keeps those of its servers, and those that its judge needs."""

from __future__ import annotations

from tests.results import readings, rows_of

from svload.watch.fleet import as_fleet
from svload.watch.series import together

ROWS = [
    (0, "", "host", "cpu0", "steal_seconds_total", 0.5),
    (1, "", "host", "cpu1", "busy_seconds_total", 3.0),
    (2, "", "host", "", "memory_bytes", 1e9),
    (3, "", "others", "", "cpu_seconds_total", 0.25),
    (4, "", "others", "find 7", "cpu_seconds_total", 0.2),
    (5, "web", "process", "", "cpu_seconds_total", 9.0),
]


def test_disturbances_are_reported_per_machine_and_servers_by_name() -> None:
    assert rows_of(as_fleet(readings(*ROWS), "h1")) == [
        (0, "", "fleet", "h1/cpu0", "steal_seconds_total", 0.5),
        (1, "", "fleet", "h1/cpu1", "busy_seconds_total", 3.0),
        (3, "", "fleet", "h1", "others_cpu_seconds_total", 0.25),
        (5, "web", "process", "", "cpu_seconds_total", 9.0),
    ]


def test_readings_of_several_machines_are_one_table() -> None:
    both = together([readings(*ROWS), as_fleet(readings(*ROWS), "h1"), as_fleet(readings(), "h2")])
    assert rows_of(both)[: len(ROWS)] == ROWS
    assert len(rows_of(both)) == len(ROWS) + 4
