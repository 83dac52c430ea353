"""The warm process, `python -m svload.cli.warm_keeper UNTIL READY_FD`: loads everything once, then keeps one
spare process waiting at a time.

A spare is a fork that has started the agent and generator of a load and listens. A process of the same user
and place hands it a command: the spare becomes that command, with the other's descriptors, folder and
environment, and dies with it; the next spare is forked when it has ended. The keeper ends with its lease or
by TERM, and the waiting spare with it, however the keeper ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from svload.cli.warm_client import GO, TAKEN
from svload.host.agent.unix_socket import is_own, listen
from svload.host.process.algebra import stay_single_threaded
from svload.host.process.warm import FACTS, LOCK, SOCKET, place, warm_dir
from svload.model.outputs import write_output

LOADED = (
    "rich.live", "numpy", "svload.analysis.judge", "svload.analysis.load_summary", "svload.cli.app", "svload.drive.totals", "svload.host.machine.preflight",
    "svload.lab.kits.external", "svload.report.wording.traffic", "svload.report.terminal.load_live", "svload.run.execution", "svload.store.parquet",
)  # fmt: skip
"""What a load needs from its start to its summary."""
_REQUEST_BOUND_S = 1.0
_REQUEST_BYTES = 8 << 20
_END_BOUND_S = 10.0
_UNUSED, _USED, _FAILED = 0, 1, 2


def main(until_wall: float, ready: int) -> int:
    """Keep a spare until the lease ends."""
    folder = warm_dir()
    os.chdir("/")
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another warm process is kept already")
        return 1
    for name in (FACTS, SOCKET):  # a killed one's: its pid may be another process's by now
        (folder / name).unlink(missing_ok=True)
    os.set_inheritable(ready, False)
    stay_single_threaded()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        _rehearse()
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until_wall))
        facts = {"until": until, "until_wall": until_wall, "pid": os.getpid()}
        write_output(folder / FACTS, json.dumps(facts))
        return _keep_spares(until_wall, lock, ready)
    except _Left:
        return 0
    finally:
        for name in (FACTS, SOCKET):
            (folder / name).unlink(missing_ok=True)


class _Left(Exception):
    """The keeper received TERM."""


def _leave(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Left


def _rehearse() -> None:
    """Load the modules that a load needs, and initialise the study reader."""
    from svload.api.load import rehearse

    for module in LOADED:
        import_module(module)
    rehearse()
    gc.collect()
    gc.freeze()


def _keep_spares(until_wall: float, lock: int, ready: int) -> int:
    """Fork a spare whenever there is none; return at the end of the lease, or if a spare cannot start."""
    while time.time() < until_wall:
        life, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            for descriptor in (ours, lock):
                os.close(descriptor)
            _spare(until_wall, life, ready)
        os.close(life)
        try:
            _, status = os.waitpid(pid, 0)
        except _Left:
            os.close(ours)
            _wait_for_idle(pid)
            raise
        os.close(ours)
        if os.waitstatus_to_exitcode(status) == _FAILED:
            return 1
    return 0


def _wait_for_idle(pid: int) -> None:
    """Wait until an idle spare has ended; one that runs a load belongs to its client."""
    deadline = time.monotonic() + _END_BOUND_S
    while time.monotonic() < deadline and not os.waitpid(pid, os.WNOHANG)[0]:
        time.sleep(0.01)


def _spare(until_wall: float, life: int, ready: int) -> NoReturn:
    """Run the forked side; never returns into the keeper's code."""
    code = _FAILED
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = _serve(until_wall, life, ready)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(until_wall: float, life: int, ready: int) -> int:
    """Start the processes of a load and wait for one command; return what became of the spare."""
    from svload.api.load import ready_hands

    hands = ready_hands()
    try:
        hands.wait()
        with listen(warm_dir(), SOCKET, 4) as door:
            with contextlib.suppress(OSError):
                os.write(ready, b"ready\n")
            os.close(ready)
            line, message, descriptors = _accepted(door, life, until_wall, hands.are_well)
            (warm_dir() / SOCKET).unlink(missing_ok=True)
        if line is None:
            return _UNUSED
        os.close(life)
        if _heard_go(line):
            code = _become(line, message, descriptors)
            hands.drop()
            with contextlib.suppress(OSError):
                line.sendall(b"%d\n" % code)
        return _USED
    finally:
        hands.drop()


def _accepted(
    door: socket.socket, life: int, until_wall: float, fit: Callable[[], bool]
) -> tuple[socket.socket | None, dict[str, Any], list[int]]:
    """Return the first accepted client, its request and its descriptors; None at the end of the lease or of
    the keeper, or if unfit."""
    own = place()
    while (left := until_wall - time.time()) > 0:
        found = select.select([door.fileno(), life], [], [], left)[0]
        if life in found:
            break
        if not found:
            continue
        line, _ = door.accept()
        descriptors: list[int] = []
        try:
            if not fit():
                line.close()
                break
            message = _request(line, descriptors) if is_own(line) else {}
            if message.get("place") == own and len(descriptors) == 4:
                line.sendall(TAKEN)
                return line, message, descriptors
        except (OSError, ValueError):
            pass
        line.close()
        for descriptor in descriptors:
            os.close(descriptor)
    return None, {}, []


def _request(line: socket.socket, descriptors: list[int]) -> dict[str, Any]:
    """Read one JSON line with its descriptors. Raises OSError, ValueError."""
    line.settimeout(_REQUEST_BOUND_S)
    text, came, _, _ = socket.recv_fds(line, 1 << 16, 4)
    descriptors += came
    while not text.endswith(b"\n"):
        piece = line.recv(1 << 16)
        if not piece or len(text) > _REQUEST_BYTES:
            raise ValueError("no whole request")
        text += piece
    return dict(json.loads(text))


def _heard_go(line: socket.socket) -> bool:
    """Return whether the client is still there and has handed the command over."""
    try:
        return line.recv(len(GO)) == GO
    except OSError:
        return False


def _become(line: socket.socket, message: dict[str, Any], descriptors: list[int]) -> int:
    """Run the command as the client would have; return its exit code."""
    line.settimeout(None)
    take_over(message, descriptors)
    threading.Thread(target=_follow, args=(line,), daemon=True).start()
    return carry_out()


def take_over(message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take the `arguments` and the `environment` of a command, its descriptors 0, 1, 2 and its folder."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number, inheritable=True)
    os.fchdir(descriptors[3])
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.argv[:] = message["arguments"]
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False)


def carry_out() -> int:
    """Run the command line here; return the exit code that its process would have had."""
    from svload.cli.main import run

    try:
        run()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1
    return code


def _follow(line: socket.socket) -> None:
    """Forward the client's signals to this process; when the client ends, however it ends, kill this
    process."""
    while True:
        try:
            numbers = line.recv(16)
        except OSError:
            numbers = b""
        if not numbers:
            os.kill(os.getpid(), signal.SIGKILL)
        for number in numbers:
            signal.pthread_kill(threading.main_thread().ident or 0, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
