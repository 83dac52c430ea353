"""events.jsonl: append-only, one line an event. A line torn by a crash is dropped on reading, and said."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from svload.model.events import Event


class Journal:
    """Writer of one events.jsonl. Every line reaches the kernel at once; `sync` makes it survive a power cut too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._torn = _is_torn(path)

    def write(self, event: Event, *, sync: bool = False) -> None:
        """Append `event`; with `sync` return only when the disk has it. Raises OSError (disk full)."""
        line = event.to_json().encode("utf-8", "backslashreplace") + b"\n"
        if self._torn:
            line = b"\n" + line
        self._torn = True  # until the whole line is out: a full disk may take a part of it
        while line:
            line = line[self._file.write(line) :]
        self._torn = False
        if sync:
            self.sync()

    __call__ = write

    def sync(self) -> None:
        """Return when the disk has all lines."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; harmless if closed already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Journalled:
    """What a journal holds: its events in order, and a sentence for each line that could not be read."""

    events: tuple[Event, ...]
    dropped: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """numbers of those lines that no crash explains: a crash tears the last line, and the next execution
    follows it"""


def read_events(path: Path) -> Journalled:
    """The events at `path`; none where there is no file. Unreadable lines are dropped,
    each with a sentence that says so."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Journalled(())
    events: list[Event] = []
    dropped, damaged = [], []
    torn = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            events.append(Event.from_json(line.decode("utf-8")))
        except ValueError:
            end = "the torn last line" if number == len(lines) else "a damaged line"
            dropped.append(f"{path.name}:{number}: {end} was dropped ({len(line)} bytes)")
            damaged += [torn] if torn else []
            torn = number
        else:
            damaged += [torn] if torn and events[-1].kind not in _AFTER_A_CRASH else []
            torn = 0
    if 0 < torn < len(lines):  # a whole line, with its end: no crash writes that
        damaged.append(torn)
    return Journalled(tuple(events), tuple(dropped), tuple(damaged))


_AFTER_A_CRASH = ("run-started", "run-ended")
"""What an execution writes first; the end, where it can't begin."""


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
