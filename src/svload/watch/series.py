"""Storage of readings: an append-only file of JSON lines that survives a crash at any byte, and its reader.

    {"frame": 17, "service": "cache", "monitor": "varnish", "columns": [["", "threads"], …]}   columns of the next lines of 17
    [17, 123456789, 200, …]                                                                   a reading at CLOCK_MONOTONIC ns
    {"note": "…", "service": …, "monitor": …, "at_ns": …}                                       written once when a monitor fails or recovers

Uses only the standard library: the sampler imports it.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from svload.model.parsed import parsed
from svload.watch.monitor import Reading

_as_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for each line


FRAMES = 4
"""Sets of columns that a monitor may alternate between before one has to be written again."""


class SeriesWriter:
    """Appends readings. Keeps a few frames per monitor, so its memory does not grow."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab")
        size = self._file.seek(0, os.SEEK_END)
        if size:
            self._file.write(b"\n")
        # A line is longer than a byte, so no number repeats one that an earlier writer gave.
        self._next_frame = size + 1
        self._frames: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], int]] = {}

    def readings(self, service: str, monitor: str, at_ns: int, readings: Iterable[Reading]) -> None:
        """Append one monitor's readings. Raises OSError (disk full)."""
        found = list(readings)
        columns = tuple((one.entity, one.metric) for one in found)
        known = self._frames.setdefault((service, monitor), {})
        frame = known.get(columns)
        if frame is None:
            if len(known) >= FRAMES:
                del known[next(iter(known))]
            known[columns] = frame = self._next_frame
            self._next_frame += 1
            self._line({"frame": frame, "service": service, "monitor": monitor, "columns": columns})
        self._line([frame, at_ns, *(_short(one.value) for one in found)])

    def note(self, service: str, monitor: str, at_ns: int, text: str) -> None:
        """Append a sentence about a monitor."""
        self._line({"note": text, "service": service, "monitor": monitor, "at_ns": at_ns})

    def forget(self) -> None:
        """Drop all frames (the monitors are others from now on)."""
        self._frames.clear()

    def flush(self) -> None:
        """Make everything so far visible to readers."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _line(self, value: Any) -> None:
        self._file.write(_as_json(value).encode() + b"\n")


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value


class SeriesReader:
    """Reads one series file repeatedly, for later and later times, without starting over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._frames: dict[int, tuple[str, str, list[list[str]]]] = {}
        self._seen_to = 0
        self._seen_ns = 0

    def between(
        self, from_ns: int, to_ns: int, origin_ns: int, monitor: str | None = None
    ) -> dict[str, tuple[str, Any]]:
        """Return readings with from_ns ≤ time ≤ to_ns as a table of `model.columns.MONITORS`; `offset_ns`
        counts from `origin_ns`. With `monitor`, only that monitor's: the lines of all others are not parsed.

        Empty if there is no file yet. A torn last line is left for the next call; damaged lines are left out.
        """
        rows = Rows(origin_ns)
        if from_ns < self._seen_ns:
            self._seen_to = self._seen_ns = 0
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return rows.table()
        with file:
            file.seek(self._seen_to)
            before = True
            while (line := file.readline()).endswith(b"\n"):
                frame, at_ns = _head(line)
                if at_ns is not None and at_ns > to_ns:
                    break
                before = before and (at_ns is None or at_ns < from_ns)
                if before:
                    self._seen_to, self._seen_ns = file.tell(), at_ns or self._seen_ns
                if at_ns is None:
                    self._learn(_parsed(line))
                elif not before and (of := self._frames.get(frame)) and monitor in (None, of[1]):
                    value = _parsed(line)
                    if isinstance(value, list):
                        rows.add(at_ns, *of, value[2:])
        return rows.table()

    def _learn(self, value: Any) -> None:
        if isinstance(value, dict) and "frame" in value:
            self._frames[value["frame"]] = (value["service"], value["monitor"], value["columns"])

    def notes(self) -> list[str]:
        """Return all sentences about monitors so far, with their service and monitor."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            found = [_parsed(line) for line in file if line.startswith(b'{"note"')]
        return [
            f"{one['service'] or 'host'}.{one['monitor']}: {one['note']}"
            for one in found
            if isinstance(one, dict)
        ]


class Rows:
    """A table of `model.columns.MONITORS` that grows; its offsets count from `origin_ns`."""

    def __init__(self, origin_ns: int = 0) -> None:
        self._origin_ns = origin_ns
        self._offset = array("q")
        self._value = array("d")
        self._names: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])

    def add(
        self, at_ns: int, service: str, monitor: str, columns: list[list[str]], values: list[float]
    ) -> None:
        """Add one monitor's readings; a damaged line is left out."""
        if len(values) != len(columns):
            return
        for (entity, metric), value in zip(columns, values, strict=True):
            self._offset.append(at_ns - self._origin_ns)
            self._value.append(value)
            for names, name in zip(self._names, (service, monitor, entity, metric), strict=True):
                names.append(name)

    def table(self) -> dict[str, tuple[str, Any]]:
        """Return the table."""
        names = zip(("service", "monitor", "entity", "metric"), self._names, strict=True)
        return {
            "offset_ns": ("i64", self._offset.tobytes()),
            **{name: ("utf8", cells) for name, cells in names},
            "value": ("f64", self._value.tobytes()),
        }


def _head(line: bytes) -> tuple[int, int | None]:
    """Return frame and time of a reading, without parsing it; no time for any other line."""
    frame, _, rest = line.partition(b",")
    at = rest.partition(b",")[0].rstrip(b"]\n")
    found = frame[:1] == b"[" and frame[1:].isdigit() and at.isdigit() and len(frame) + len(at) < 40
    return (int(frame[1:]), int(at)) if found else (0, None)


def _parsed(line: bytes) -> Any:
    """Return a line's value: a reading, a frame or a note; None for a damaged line."""
    try:
        value = parsed(line)
    except ValueError:
        return None
    if isinstance(value, list) and len(value) >= 2 and all(isinstance(one, (int, float)) for one in value):
        return value
    return value if isinstance(value, dict) else None


def together(tables: Sequence[dict[str, tuple[str, Any]]]) -> dict[str, tuple[str, Any]]:
    """Return tables of readings as one."""
    first = tables[0]
    return {
        name: (kind, _joined(kind, [table[name][1] for table in tables])) for name, (kind, _) in first.items()
    }


def _joined(kind: str, columns: Iterable[Any]) -> Any:
    if kind == "utf8":
        return [cell for column in columns for cell in column]
    return b"".join(columns)
