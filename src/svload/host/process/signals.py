"""Signals that end a command even where C code keeps Python from hearing them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from svload.host.machine.linux import handle_once


def hear(number: int, handler: Callable[[int, FrameType | None], Any] | Any) -> Any:
    """`signal.signal`, but for one signal: unless the handler calls this again, a second one ends the process.

    Python runs handlers between its own steps. Where a library does not return, the first signal waits and the
    second is the kernel's.
    """
    before = signal.signal(number, handler)
    if callable(handler):
        handle_once(number)
    return before
