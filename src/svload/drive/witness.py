"""Generators' observations of themselves during load, as monitor readings (monitor `generator`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

MONITOR = "generator"
METRICS: Mapping[str, str] = {
    "hiccup_seconds": "per thread of the load: longest gap since the previous reading, by a witness on the "
    "same cores that wakes every 10 ms",
    "loop_pass_seconds": "per thread of the load: longest pass of its own loop since the previous reading; "
    "data that arrived during it was read late",
    "cpu_seconds_total": "per thread of the load: CPU time, without polling before a start",
    "run_queue_seconds_total": "per thread of the load: time that it could have run and waited for a core",
    "gap_seconds": "per thread of the load: each gap above 5 ms, by its end; it may have begun up to 10 ms "
    "earlier than its length says",
    "pass_gap_seconds": "per thread of the load: each pass of its own loop above 5 ms, by its end",
    "stops_beyond": "per thread of the load, where it had more than 4,096 gaps or passes above 5 ms: number "
    "of those not listed individually, given with the last one that is",
}
"""Metric → meaning. The entity is `share/thread`."""
_COLUMNS: Mapping[str, str] = {
    "hiccup_seconds": "gap_ns",
    "loop_pass_seconds": "pass_ns",
    "cpu_seconds_total": "cpu_ns",
    "run_queue_seconds_total": "run_queue_ns",
}
_OF_KIND = ("gap_seconds", "pass_gap_seconds")
"""The metrics for a row of the engine's table `stops`, by its kind."""

Table = dict[str, tuple[str, Any]]


def with_witnesses(monitors: Table, shares: Iterable[tuple[str, Mapping[str, Table]]]) -> Table:
    """Return `monitors` (columns of `model.columns.MONITORS`) with rows from the engine's tables `witness`
    and `stops` of (share, tables).

    A share without such tables adds nothing.
    """
    rows = _Rows(monitors)
    for share, tables in shares:
        _looks(rows, share, tables.get("witness", {}))
        _stops(rows, share, tables.get("stops", {}))
    return rows.table()


class _Rows:
    """The monitors' table while it grows."""

    def __init__(self, monitors: Table) -> None:
        self._offsets, self._values = array("q"), array("d")
        self._offsets.frombytes(monitors["offset_ns"][1])
        self._values.frombytes(monitors["value"][1])
        self._names: dict[str, list[str]] = {
            name: list(monitors[name][1]) for name in ("service", "monitor", "entity", "metric")
        }

    def add(self, metric: str, entities: list[str], offsets_ns: array[int], values: Iterable[float]) -> None:
        """Add readings of one metric."""
        self._offsets.extend(offsets_ns)
        self._values.extend(array("d", values))
        self._names["entity"] += entities
        for name, text in (("service", ""), ("monitor", MONITOR), ("metric", metric)):
            self._names[name] += [text] * len(entities)

    def table(self) -> Table:
        return {
            "offset_ns": ("i64", self._offsets.tobytes()),
            **{name: ("utf8", cells) for name, cells in self._names.items()},
            "value": ("f64", self._values.tobytes()),
        }


def _looks(rows: _Rows, share: str, table: Table) -> None:
    if not table:
        return
    entities = [f"{share}/{thread}" for thread in _numbers("H", table["thread"])]
    looks = _numbers("q", table["offset_ns"])
    for metric, column in _COLUMNS.items():
        rows.add(metric, entities, looks, (figure / 1e9 for figure in _numbers("q", table[column])))


def _stops(rows: _Rows, share: str, table: Table) -> None:
    if not table:
        return
    last_ns = 0
    for thread, kind, offset_ns, length in zip(
        _numbers("H", table["thread"]),
        _numbers("B", table["kind"]),
        _numbers("q", table["offset_ns"]),
        _numbers("q", table["length_ns"]),
        strict=True,
    ):
        beyond = offset_ns < 0
        last_ns = last_ns if beyond else offset_ns
        metric, value = ("stops_beyond", length) if beyond else (_OF_KIND[kind], length / 1e9)
        rows.add(metric, [f"{share}/{thread}"], array("q", (last_ns,)), (value,))


def _numbers(code: str, column: tuple[str, Any]) -> array[int]:
    found = array(code)
    found.frombytes(column[1])
    return found
