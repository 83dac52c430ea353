"""Signals that end a command even while C code keeps Python from handling them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from svload.host.machine.linux import handle_once


def hear(number: int, handler: Callable[[int, FrameType | None], Any] | Any) -> Any:
    """Like `signal.signal`, but for one delivery: unless the handler calls this again, a second one ends the
    process.

    Python runs handlers between bytecodes. While a library does not return, the first signal is pending and
    the kernel handles the second.
    """
    before = signal.signal(number, handler)
    if callable(handler):
        handle_once(number)
    return before
