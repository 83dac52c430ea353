"""Ctrl-C and its kin while a run is under way: the first asks it to stop, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from svload.host.process.signals import hear


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Ctrl-C, TERM or HUP once asks to stop; a second time ends at once. The old handlers are
    put back; nohup's ignoring stays."""
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
