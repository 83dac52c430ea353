"""Signals that end a command even while C code keeps Python from handling them."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

from svload.host.machine.linux import handle_once

_counted = False
"""Whether signals of all kinds are counted together."""


def hear(number: int, handler: Callable[[int, FrameType | None], Any] | Any) -> Any:
    """Like `signal.signal`, but for one delivery: unless the handler calls this again, a second one ends the
    process, and after `end_on_second` a second signal of any kind.

    Python runs handlers between bytecodes. While a library does not return, the first signal is pending and
    the kernel handles the second.
    """
    before = signal.signal(number, handler)
    if callable(handler):
        handle_once(number)
        if _counted:
            handle_once(signal.SIGIO, "abs")  # any C function that does nothing with a number
    return before


def end_on_second() -> None:
    """Let `hear` end this process by a second signal of another kind, too.

    The interpreter's C handler writes a byte for every signal, and the kernel sends SIGIO for every byte: the
    first one is ignored, once; by default SIGIO ends the process. The socket stays open until the process
    ends, since the kernel sends SIGIO for its end, too.
    """
    global _counted
    _counted = True
    read, write = (end.detach() for end in socket.socketpair())
    handle_once(signal.SIGIO, "abs")
    os.set_blocking(write, False)
    fcntl.fcntl(read, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
