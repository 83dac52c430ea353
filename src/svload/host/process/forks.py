"""Work distributed over the cores of this process, in forks of it, which need no imports and have the
parent's data.

Only for finished runs, never while a load is running on these cores. A fork inherits the locks that threads
hold, so a worker prints nothing, flushes nothing and exits silently; this process repeats what a worker could
not do.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Self, TypeVar

from svload.host.machine import linux

T = TypeVar("T")
R = TypeVar("R")

_TICKET = struct.Struct("<I")
_HEAD = struct.Struct("<IQ")
_FAILED = (1 << 64) - 1
_MOST_TICKETS = 4096 // _TICKET.size
"""The bytes that a new pipe accepts without blocking, even if this user's memory for pipes is used up."""
_LEAST_ITEMS = 2
"""The minimum of items per worker: with fewer a fork costs more than it saves."""
_READ_BYTES = 1 << 20
_IDLE_S = 20.0
"""How long all workers may send nothing and use no CPU until they count as stopped, or as waiting for a lock
that a thread held at the fork."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_worker = False


def spread(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return `function` of every item, in order: the same as a plain loop, exceptions included, but faster on
    several cores.

    Results must be picklable; `function` and `items` need not be. Workers' prints, warnings and changes of
    inherited data are lost. Blocks until all is done. A worker that is killed or hangs only costs time.
    """
    workers = min(_cores(), len(items) // _LEAST_ITEMS)
    if workers < 2:
        return [function(item) for item in items]
    with _Workers(function, items, workers) as at_work:
        done = at_work.results()
    return [done.pop(at) if at in done else function(item) for at, item in enumerate(items)]


@contextmanager
def beside(function: Callable[[], R]) -> Iterator[Callable[[], R]]:
    """Start `function` in a worker. The yielded callable waits for it, and returns or raises like `function`.
    The worker is ended with the block.

    The conditions of `spread` apply. On one core the function only runs when waited for.
    """
    if _cores() < 2:
        yield function
        return
    with _Workers(lambda _: function(), (None,), 1) as at_work:

        def result() -> R:
            done = at_work.results()
            return done[0] if done else function()

        yield result


def _cores() -> int:
    """Return how many cores this process may use; a worker has one."""
    return 1 if _worker else len(os.sched_getaffinity(0))


class _Workers:
    """Forks that take items from a shared pipe and return results through separate ones."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any], count: int) -> None:
        self._ends: dict[int, int] = {}
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, _ENDING
        )  # none between a fork and its entry in `_ends`
        try:
            try:
                with suppress(OSError):  # too many processes or open files: fewer workers
                    self._start(function, items, count, before)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            self._end()
            raise

    def _start(
        self, function: Callable[[Any], Any], items: Sequence[Any], count: int, before: set[Any]
    ) -> None:
        tickets = _tickets(len(items))
        try:
            for _ in range(count):
                self._fork(function, items, tickets, before)
        finally:
            os.close(tickets[0])

    def _fork(
        self, function: Callable[[Any], Any], items: Sequence[Any], tickets: tuple[int, int], before: set[Any]
    ) -> None:
        parent = os.getpid()
        end, out = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(end)
            raise
        else:
            if not pid:
                _work(function, items, tickets, out, parent, before)
            self._ends[end] = pid
        finally:
            os.close(out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self._end()

    def _end(self) -> None:
        """End all workers, whatever they are doing."""
        for pid in self._ends.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for end, pid in self._ends.items():
            os.close(end)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._ends.clear()

    def results(self) -> dict[int, Any]:
        """Return the results by item once all workers have ended or hang, or one had an exception. Missing
        items must be repeated."""
        done: dict[int, Any] = {}
        used = -1
        with selectors.DefaultSelector() as open_ends:
            for end in self._ends:
                open_ends.register(end, selectors.EVENT_READ, bytearray())
            while open_ends.get_map():
                ready = open_ends.select(_IDLE_S)
                before, used = used, self._cpu_ticks()
                if not ready and used == before:
                    break
                for key, _ in ready:
                    piece = os.read(key.fd, _READ_BYTES)
                    key.data.extend(piece)
                    if not piece:
                        open_ends.unregister(key.fd)
                    elif not _take(key.data, done):
                        return done
        return done

    def _cpu_ticks(self) -> int:
        """Return the CPU ticks that all workers have used so far."""
        return sum(found.own_ticks for pid in self._ends.values() if (found := linux.process_stat(pid)))


def _tickets(items: int) -> tuple[int, int]:
    """Return (a pipe with the number of each work unit's first item, the number of items per unit)."""
    step = -(-items // _MOST_TICKETS)
    numbers, filled = os.pipe()
    os.write(filled, b"".join(_TICKET.pack(first) for first in range(0, items, step)))
    os.close(filled)
    return numbers, step


def _take(data: bytearray, done: dict[int, Any]) -> bool:
    """Move complete results from `said` to `done`; return False if one of them is an exception."""
    while len(data) >= _HEAD.size:
        at, size = _HEAD.unpack_from(data)
        if size == _FAILED:
            return False
        if len(data) < _HEAD.size + size:
            break
        with memoryview(data) as view, view[_HEAD.size : _HEAD.size + size] as result:
            done[at] = pickle.loads(result)
        del data[: _HEAD.size + size]
    return True


def _work(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    tickets: tuple[int, int],
    out: int,
    parent: int,
    before: set[Any],
) -> NoReturn:
    """Run a worker, without the inherited `finally` blocks and buffers, which are the parent's."""
    try:
        _become_worker(parent, before)
        numbers, step = tickets
        while ticket := os.read(numbers, _TICKET.size):
            (first,) = _TICKET.unpack(ticket)
            for at in range(first, min(first + step, len(items))):
                if not _tell(out, at, function, items[at]):
                    os._exit(1)
        os._exit(0)
    finally:
        os._exit(1)


def _become_worker(parent: int, before: set[Any]) -> None:
    """Die with the parent, and at once at Ctrl-C; use none of its streams, which threads may hold."""
    global _worker
    linux.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    _worker = True
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = open(nowhere, "w", encoding="utf-8", errors="replace")  # noqa: SIM115 - for life
    gc.freeze()  # the parent's memory stays shared as long as nobody writes to it


def _tell(out: int, at: int, function: Callable[[Any], Any], item: Any) -> bool:
    """Send the result and return whether there is one. After an exception only its absence is sent, since the
    parent repeats the call."""
    try:
        result = pickle.dumps(function(item), pickle.HIGHEST_PROTOCOL)
    except BaseException:
        os.write(out, _HEAD.pack(at, _FAILED))
        return False
    for piece in (_HEAD.pack(at, len(result)), result):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(out, rest) :]
    return True
