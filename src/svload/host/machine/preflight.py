"""Measurements of loopback's bandwidth and the lateness of short sleeps. Kept until the next boot."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import threading
import time
from pathlib import Path
from typing import NamedTuple

from svload.host.machine.linux import boot_id
from svload.model.environment import state_dir
from svload.model.private import write_private

FORMAT = 1
_TRIES, _TRY_S = 5, 0.01
_TRIES_IN_DOUBT = 30
_CHUNK_BYTES = 1 << 18
_SLEEPS, _SLEEP_S = 20, 0.001
_PR_SET_TIMERSLACK = 29


class Preflight(NamedTuple):
    """Figures of `model.conditions.Machine`; None if they could not be measured."""

    loopback_bytes_per_s: float | None
    timer_floor_ns: float | None


def preflight(*, measure_again: bool = False, state: Path | None = None) -> Preflight:
    """Return the figures measured since this boot, or measure them now (some 0.1 s). Never raises.

    `measure_again` always measures; the higher of two figures for loopback is kept, since a busy machine can only be
    too slow.
    """
    known = _kept(_path(state))
    if known is not None and not measure_again:
        return known
    found = Preflight(measure_loopback(), measure_timer_floor())
    if known is not None and known.loopback_bytes_per_s is not None:
        rate = max(known.loopback_bytes_per_s, found.loopback_bytes_per_s or 0.0)
        found = found._replace(loopback_bytes_per_s=rate)
    _keep(found, state)
    return found


def _path(state: Path | None) -> Path:
    return (state or state_dir()) / "preflight.json"


def _keep(found: Preflight, state: Path | None) -> None:
    path = _path(state)
    text = json.dumps({"format": FORMAT, "boot": _boot(), **found._asdict()})
    with contextlib.suppress(OSError):
        write_private(path, text + "\n")


def above(bytes_per_s: float, known: float, *, state: Path | None = None) -> float:
    """Return what one stream over loopback carries. If a trial received more than the figure `known`, which
    other use of the machine made too small, it is measured again, for longer, and the greater of both is
    kept."""
    if bytes_per_s <= known:
        return known
    kept = preflight(state=state)
    found = max(known, kept.loopback_bytes_per_s or 0.0)
    if bytes_per_s > found:
        found = max(found, measure_loopback(_TRIES_IN_DOUBT) or 0.0)
        _keep(kept._replace(loopback_bytes_per_s=found), state)
    return found


def measure_loopback(tries: int = _TRIES) -> float | None:
    """Return the bytes per second of one TCP stream over loopback, the best of a few short tries; None if
    sockets are refused.

    The sender passes a file's pages without a copy (sendfile), like the fastest servers, so that no real
    server is faster.
    """
    try:
        return max(_stream() for _ in range(tries))
    except OSError:
        return None


def _stream() -> float:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = socket.create_connection(listening.getsockname())
        receiver, _ = listening.accept()
    with sender, receiver:
        sending = threading.Thread(target=_send, args=(sender,), daemon=True)
        sending.start()
        buffer = bytearray(_CHUNK_BYTES)
        begun = time.perf_counter()
        received = 0
        while (spent := time.perf_counter() - begun) < _TRY_S:
            received += receiver.recv_into(buffer)
        receiver.shutdown(socket.SHUT_RDWR)
        receiver.close()
        sending.join(5.0)
        return received / spent


def _send(to: socket.socket) -> None:
    pages = os.memfd_create("svload-preflight")
    try:
        os.ftruncate(pages, _CHUNK_BYTES)
        with contextlib.suppress(OSError):
            while True:
                os.sendfile(to.fileno(), pages, 0, _CHUNK_BYTES)
    finally:
        os.close(pages)


def measure_timer_floor() -> float:
    """Return the median lateness of a sleep of 1 ms, in ns, with timers as precise as the load's."""
    late: list[float] = []

    def sleeper() -> None:
        with contextlib.suppress(OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        for _ in range(_SLEEPS):
            begun_ns = time.perf_counter_ns()
            time.sleep(_SLEEP_S)
            late.append(time.perf_counter_ns() - begun_ns - _SLEEP_S * 1e9)

    # Timer slack is per thread, so a separate thread leaves the caller's unchanged.
    thread = threading.Thread(target=sleeper)
    thread.start()
    thread.join()
    return sorted(late)[len(late) // 2]


def _kept(path: Path) -> Preflight | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT or found["boot"] != _boot():
            return None
        return Preflight(found["loopback_bytes_per_s"], found["timer_floor_ns"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _boot() -> str:
    """Return an identifier of this boot and kernel."""
    return f"{boot_id()} {platform.release()}"
