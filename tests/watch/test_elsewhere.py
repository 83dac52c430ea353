"""Of a machine's readings those of its servers come to the run, and those that its judge asks for."""

from __future__ import annotations

from array import array
from typing import Any

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


def table(rows: list[Any]) -> dict[str, tuple[str, Any]]:
    return {
        "offset_ns": ("i64", array("q", (row[0] for row in rows)).tobytes()),
        "service": ("utf8", [row[1] for row in rows]),
        "monitor": ("utf8", [row[2] for row in rows]),
        "entity": ("utf8", [row[3] for row in rows]),
        "metric": ("utf8", [row[4] for row in rows]),
        "value": ("f64", array("d", (row[5] for row in rows)).tobytes()),
    }


def rows_of(found: dict[str, tuple[str, Any]]) -> list[Any]:
    offsets, values = array("q"), array("d")
    offsets.frombytes(found["offset_ns"][1])
    values.frombytes(found["value"][1])
    names = [found[name][1] for name in ("service", "monitor", "entity", "metric")]
    return list(zip(offsets, *names, values, strict=True))


def test_what_disturbs_a_machine_is_told_under_its_name_and_its_servers_under_theirs() -> None:
    assert rows_of(as_fleet(table(ROWS), "h1")) == [
        (0, "", "fleet", "h1/cpu0", "steal_seconds_total", 0.5),
        (1, "", "fleet", "h1/cpu1", "busy_seconds_total", 3.0),
        (3, "", "fleet", "h1", "others_cpu_seconds_total", 0.25),
        (5, "web", "process", "", "cpu_seconds_total", 9.0),
    ]


def test_readings_of_several_machines_are_one_table() -> None:
    both = together([table(ROWS), as_fleet(table(ROWS), "h1"), as_fleet(table([]), "h2")])
    assert rows_of(both)[: len(ROWS)] == ROWS
    assert len(rows_of(both)) == len(ROWS) + 4
