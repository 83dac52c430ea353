"""The known contents of a store's data folder: a note on each object, and a full table at the end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from svload.model.outputs import write_output

Held = dict[str, tuple[int, str]]
"""Path → size in bytes and MD5."""
FLUSH_LINES, FLUSH_S = 64, 0.5


class KeptData:
    """The notes on one set of objects, by its content key; none without a folder. Threads may write notes
    concurrently.

    A note is written after the store's answer: objects that were put but not noted before a kill are put
    again, so no object is left out.
    """

    def __init__(self, folder: Path | None, key: str) -> None:
        self._whole = folder / f"filled-{key}.json" if folder else None
        self._notes = folder / f"filling-{key}.jsonl" if folder else None
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        self._unflushed, self._flushed_s = 0, 0.0
        self.objects: Held = {}
        self.containers: set[str] = set()

    def whole(self) -> Held | None:
        """Return what a finished filling put; None if there was none."""
        if self._whole is None:
            return None
        try:
            raw = json.loads(self._whole.read_text(encoding="utf-8"))
            return {path: (int(size), str(digest)) for path, (size, digest) in raw["objects"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def go_on(self) -> int:
        """Read the notes of an interrupted filling and continue them; return how many objects it had put."""
        if self._notes is None:
            return 0
        try:
            text = self._notes.read_bytes()
        except OSError:
            text = b""
        whole = text[: text.rfind(b"\n") + 1]  # a killed process may leave half a line
        for line in whole.splitlines():
            self._take(line)
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        with self._notes.open("ab") as file:
            file.truncate(len(whole))
        self._file = self._notes.open("a", encoding="utf-8")
        return len(self.objects)

    def _take(self, line: bytes) -> None:
        try:
            match json.loads(line):
                case [str(path)]:
                    self.containers.add(path)
                case [str(path), int(size), str(digest)]:
                    self.objects[path] = size, digest
        except ValueError:
            return

    def note_container(self, path: str) -> None:
        with self._lock:
            self.containers.add(path)
            self._say([path])

    def note_object(self, path: str, size: int, digest: str) -> int:
        """Note that an object was put; return how many were."""
        with self._lock:
            self.objects[path] = size, digest
            self._say([path, size, digest])
            return len(self.objects)

    def forget_but(self, right: Mapping[str, tuple[int, str]]) -> None:
        """Forget the notes on all objects except these, which are as they were put."""
        with self._lock:
            self.objects = {path: found for path, found in self.objects.items() if right.get(path) == found}

    def _say(self, note: list[Any]) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(note, separators=(",", ":")) + "\n")
        self._unflushed += 1
        if self._unflushed >= FLUSH_LINES or time.monotonic() - self._flushed_s > FLUSH_S:
            self._file.flush()
            self._unflushed, self._flushed_s = 0, time.monotonic()

    def close(self) -> None:
        """Flush and close the notes, which are kept."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def finish(self) -> None:
        """Record that everything is put and listed; `whole` returns it from now on."""
        self.close()
        if self._whole is None or self._notes is None:
            return
        text = json.dumps({"format": 1, "objects": self.objects}, separators=(",", ":"))
        write_output(self._whole, text)
        self._notes.unlink(missing_ok=True)
