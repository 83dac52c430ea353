"""What the generators saw of themselves while they made load, as readings among the monitors' (monitor `generator`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

MONITOR = "generator"
METRICS: Mapping[str, str] = {
    "hiccup_seconds": "per thread of the load: longest gap since the reading before, by a witness on the same cores that sleeps to every 10 ms",
    "loop_pass_seconds": "per thread of the load: longest pass of its own loop since the reading before; what came meanwhile was read late",
    "cpu_seconds_total": "per thread of the load: CPU time, without what was spun away before a start",
    "run_queue_seconds_total": "per thread of the load: time that it could have run and waited for a core",
}
"""By metric: its meaning. The entity is `share/thread`."""
_COLUMNS: Mapping[str, str] = {
    "hiccup_seconds": "gap_ns",
    "loop_pass_seconds": "pass_ns",
    "cpu_seconds_total": "cpu_ns",
    "run_queue_seconds_total": "run_queue_ns",
}

Table = dict[str, tuple[str, Any]]


def with_witnesses(monitors: Table, shares: Iterable[tuple[str, Mapping[str, Table]]]) -> Table:
    """`monitors` (columns of `model.columns.MONITORS`) and the rows that the engine's tables `witness` of (share, tables) become.

    A share without such a table adds nothing.
    """
    offsets, values = array("q"), array("d")
    offsets.frombytes(monitors["offset_ns"][1])
    values.frombytes(monitors["value"][1])
    names: dict[str, list[str]] = {
        name: list(monitors[name][1]) for name in ("service", "monitor", "entity", "metric")
    }
    for share, tables in shares:
        if "witness" not in tables:
            continue
        table = tables["witness"]
        threads, looks = array("H"), array("q")
        threads.frombytes(table["thread"][1])
        looks.frombytes(table["offset_ns"][1])
        for metric, column in _COLUMNS.items():
            figures = array("q")
            figures.frombytes(table[column][1])
            offsets.extend(looks)
            values.extend(array("d", (figure / 1e9 for figure in figures)))
            names["entity"] += [f"{share}/{thread}" for thread in threads]
            for name, text in (("service", ""), ("monitor", MONITOR), ("metric", metric)):
                names[name] += [text] * len(looks)
    return {
        "offset_ns": ("i64", offsets.tobytes()),
        **{name: ("utf8", cells) for name, cells in names.items()},
        "value": ("f64", values.tobytes()),
    }
