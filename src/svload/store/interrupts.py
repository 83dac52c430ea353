"""DuckDB at work while Python hears signals: its own calls return only when they are done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
GRACE_S = 0.5
"""What DuckDB does not leave within this time after it was asked to, it would not leave soon."""
INTERRUPTED = 130


def interruptibly(connection: duckdb.DuckDBPyConnection, work: Callable[[threading.Event], T]) -> T:
    """`work(stop)` in a thread of its own, while this one waits; returns or raises as it does.

    What a signal's handler raises here (KeyboardInterrupt) interrupts `connection`, sets `stop` and
    is raised as soon as the work has ended; where DuckDB goes on for all that, this process ends
    with the code of an interrupt.
    """
    stop, done = threading.Event(), threading.Event()
    found: list[T] = []
    failed: list[BaseException] = []

    def at_work() -> None:
        try:
            found.append(work(stop))
        except BaseException as why:
            failed.append(why)
        finally:
            done.set()

    threading.Thread(target=at_work, name="duckdb", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        stop.set()
        connection.interrupt()
        if not done.wait(GRACE_S):
            os.write(2, b"svload: interrupted\n")
            os._exit(INTERRUPTED)
        raise
    if failed:
        raise failed[0]
    return found[0]
