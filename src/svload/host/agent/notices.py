"""The agent's notices, numbered, for its clients; the oldest are dropped."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

_KEPT = 50_000
_AT_ONCE = 1_000


class Notices:
    """A bounded, numbered list that clients can wait for. Used from one event loop."""

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._next = 0
        self._waiting: set[asyncio.Event] = set()

    def add(self, child: str, kind: str, data: dict[str, Any]) -> None:
        """Add a notice (kind: line, exit, note) and wake those who wait."""
        stamp = time.monotonic_ns()
        self._kept.append(
            {"number": self._next, "child": child, "kind": kind, "data": data, "monotonic_ns": stamp}
        )
        self._next += 1
        for event in self._waiting:
            event.set()

    async def after(self, since: int, wait_s: float) -> tuple[int, list[dict[str, Any]]]:
        """Return the notices from number `since` (at most 1,000) and the number to request next. Waits up to
        `wait_s` for the first.

        A negative `since` means from now on.
        """
        since = since if since >= 0 else self._next
        if since >= self._next and wait_s > 0:
            event = asyncio.Event()
            self._waiting.add(event)
            try:
                await asyncio.wait_for(event.wait(), wait_s)
            except TimeoutError:
                pass
            finally:
                self._waiting.discard(event)
        first = self._next - len(self._kept)
        begin = max(since, first)
        found = [self._kept[number - first] for number in range(begin, min(begin + _AT_ONCE, self._next))]
        return (found[-1]["number"] + 1 if found else since), found
