"""A reading of all monitors in the pause after each turn, to separate what a server used in its turns from
what it used between them. A reading may extend into the first part of the next turn, which is not
measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from svload.model.errors import SvloadError
from svload.watch import Sampler

READ_WITHIN_S = 30.0


class PauseReadings:
    """Reads in the middle of each pause, in a thread beside the load. `ends_ns`: ends of all sides' turns."""

    def __init__(self, sampler: Sampler, ends_ns: Sequence[int], pause_ns: int) -> None:
        self._sampler = sampler
        self._moments = sorted(end_ns + pause_ns // 2 for end_ns in ends_ns)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, start_at_ns: int) -> None:
        """Start: the load begins at this moment of CLOCK_MONOTONIC."""
        self._thread = threading.Thread(
            target=self._run, args=(start_at_ns,), name="svload-pauses", daemon=True
        )
        self._thread.start()

    def finish(self) -> None:
        """Stop reading, and wait for a reading in progress."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(READ_WITHIN_S)

    def _run(self, start_at_ns: int) -> None:
        with suppress(SvloadError):  # the load itself reports a lost agent
            for moment_ns in self._moments:
                if self._over.wait(max(0.0, (start_at_ns + moment_ns - time.monotonic_ns()) / 1e9)):
                    return
                self._sampler.read()
