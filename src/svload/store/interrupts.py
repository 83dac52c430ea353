"""Interruptible DuckDB calls: its own return only when they are done, and Python handles no signal before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
GRACE_S = 0.5
"""If DuckDB does not stop within this time after it was asked to, it will not stop soon."""
INTERRUPTED = 130


def interruptibly(connection: duckdb.DuckDBPyConnection, work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in another thread while this one waits; return or raise as it does.

    If a signal's handler raises here (KeyboardInterrupt), `connection` is interrupted, `stop` is set, and the
    exception is raised as soon as the work has ended; if DuckDB does not stop, this process exits with the
    code of an interrupt.
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
