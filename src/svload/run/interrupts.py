"""Ctrl-C and similar signals during a run: the first asks it to stop, the second ends it immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from svload.host.process.signals import hear


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Ask to stop on the first Ctrl-C, TERM or HUP; end immediately on the second. The old handlers are
    restored afterwards; signals ignored by nohup stay ignored."""
    stop = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        hear(number, handler)

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    asks = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        asks.append(signal.SIGHUP)
    old = {number: hear(number, handler) for number in asks}
    try:
        yield stop
    finally:
        for number, before in old.items():
            hear(number, before)
