"""events.jsonl: append-only, one line per event. A line torn by a crash is dropped on reading, and
reported."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from svload.model.events import Event


class Journal:
    """Writer of one events.jsonl. Every line reaches the kernel immediately; with `sync` it survives even a
    power cut."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._torn = _is_torn(path)

    def write(self, event: Event, *, sync: bool = False) -> None:
        """Append `event`; with `sync` return only when it is on the disk. Raise OSError (disk full), which
        names the file."""
        line = event.to_json().encode("utf-8", "backslashreplace") + b"\n"
        if self._torn:
            line = b"\n" + line
        self._torn = True  # until the whole line is out: a full disk may take a part of it
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as why:
            raise OSError(why.errno, why.strerror, str(self.path)) from why
        self._torn = False
        if sync:
            self.sync()

    __call__ = write

    def sync(self) -> None:
        """Return when all lines are on the disk."""
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
    """A journal's events in order, and a sentence for each line that could not be read."""

    events: tuple[Event, ...]
    dropped: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """numbers of those lines that no crash explains: a crash tears the last line, and the next execution
    continues after it"""


def read_events(path: Path) -> Journalled:
    """Return the events at `path`; none if there is no file. Unreadable lines are dropped, with a sentence
    for each."""
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
"""The first event that an execution writes: `run-ended` if it cannot start."""


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
