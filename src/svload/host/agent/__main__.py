"""The machine's agent, `python -m svload.host.agent --dir DIR`: a keeper and its child, the server of
requests.

The keeper creates a PID namespace if permitted, so that the server of requests is its first process: if that
dies, the kernel kills everything it ever started. Otherwise children have a death signal, and keeper and
server adopt orphans. If the server dies, the keeper finishes its journal; if the keeper dies, the server sees
its pipe close and ends in order. Only the server is in a separate network namespace of the lab: the keeper
stays in the machine's, where it can restore settings. Both hold the lab's lock (one open file), so the lock
is free only when neither is left.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from svload.host.agent import journal
from svload.host.agent.folders import LOCK, SOCKET, clear
from svload.host.machine import linux

_ORPHAN_BOUND_S = 5.0
_POLL_S = 0.01
CLEAN = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the lease is lost; return 0 if everything was undone in order."""
    parser = argparse.ArgumentParser(
        prog="python -m svload.host.agent", description="the hands of svload on one machine"
    )
    parser.add_argument("--dir", type=Path, required=True, help="the lab's folder, with owner.json")
    parser.add_argument("--lock-fd", type=int, help="descriptor that holds the lab's lock already")
    parser.add_argument("--ready-fd", type=int, help="descriptor to write a line to once requests are taken")
    parser.add_argument("--plain", action="store_true", help="make no PID namespace")
    parser.add_argument("--own-network", action="store_true", help="make a network namespace for the lab")
    options = parser.parse_args(arguments)
    folder = options.dir.absolute()
    lock = _take_lock(folder, options.lock_fd)
    if lock is None:
        print(f"another agent serves {folder}", file=sys.stderr)
        return 1
    isolated = not options.plain and _isolate()
    linux.adopt_orphans()
    life_read, life_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(life_write)
        _serve(folder, life_read, options.ready_fd, isolated, options.own_network)
    os.close(life_read)
    if options.ready_fd is not None:
        os.close(options.ready_fd)
    return _keep(folder, pid)


def _take_lock(folder: Path, inherited: int | None) -> int | None:
    """Return the lock's descriptor, never to be closed; None if another process holds it."""
    if inherited is not None:
        os.set_inheritable(inherited, False)
        return inherited
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _isolate() -> bool:
    try:
        linux.unshare(linux.CLONE_NEWPID)
    except OSError:
        return False
    return True


def _own_network() -> str | None:
    """Move into a new network with only loopback; return the file of the previous one, None if refused."""
    outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux.unshare(linux.CLONE_NEWNET)
        linux.raise_loopback()
    except OSError:
        os.close(outside)
        return None
    return f"/proc/self/fd/{outside}"


def _serve(folder: Path, life: int, ready: int | None, first_process: bool, own_network: bool) -> None:
    """Run the child process: serve, then exit without the keeper's clean-up code."""
    code = 1
    try:
        if ready is not None:
            os.set_inheritable(ready, False)
        linux.adopt_orphans()
        outside = _own_network() if own_network else None
        from svload.host.agent import serve

        code = serve.run(folder, life, ready, first_process=first_process, outside=outside)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _keep(folder: Path, server: int) -> int:
    """Wait for the server of requests; undo what it could not; clear the folder after an orderly end."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(server, 0)
    _end_orphans()
    outcome = journal.undo(folder)
    for line in (*outcome.lines, *outcome.failures):
        print(line, file=sys.stderr)
    code = os.waitstatus_to_exitcode(status)
    if outcome.failures:
        return 1
    if code == CLEAN:
        clear(folder)
    else:
        print(f"the agent ended with {code}", file=sys.stderr, flush=True)
        (folder / SOCKET).unlink(missing_ok=True)
    return 0 if code == CLEAN else 1


def _end_orphans() -> None:
    """Kill all processes that we adopted; with a PID namespace there are none."""
    own, deadline = linux.machine_pid(), time.monotonic() + _ORPHAN_BOUND_S
    while time.monotonic() < deadline:
        for found in linux.processes():
            if found.parent == own and not found.ended:
                linux.send_signal(found.pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main())
