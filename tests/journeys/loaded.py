"""Whole commands without the second that each takes to load: forks of one process that has svload loaded
(loader.py).

A command has its own arguments, environment, folder, streams and end, as if it had been started. What only a
new process shows (that it starts at all, how fast, what it loads, what is left after kill -9) is left to
tests that start one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

LOADER = Path(__file__).with_name("loader.py")


@cache
def door() -> socket.socket:
    """Open the loader's socket for the duration of these tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-P", str(LOADER), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return ours


def run_loaded(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path, bound_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `svload ARGUMENTS` to its end, without input, its output captured. Raise
    subprocess.TimeoutExpired; the command is killed then."""
    with _pipe() as (out, out_end), _pipe() as (err, err_end), _pipe() as (found, told_end):
        nothing, here = os.open(os.devnull, os.O_RDONLY), os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        text = {"arguments": ["svload", *arguments], "environment": dict(env)}
        socket.send_fds(door(), [json.dumps(text).encode()], [nothing, out_end, err_end, here, told_end])
        for passed in (nothing, here, out_end, err_end, told_end):
            os.close(passed)
        stdout, stderr, status = _read_all((out, err, found), time.monotonic() + bound_s)
    pid, _, code = status.partition(b"\n")
    if not code:
        if pid:
            os.kill(int(pid), signal.SIGKILL)
        raise subprocess.TimeoutExpired(["svload", *arguments], bound_s, stdout, stderr)
    return subprocess.CompletedProcess(["svload", *arguments], int(code), stdout.decode(), stderr.decode())


def _read_all(descriptors: Sequence[int], until: float) -> list[bytes]:
    """Return the output of each until all have ended, or the time is up."""
    found = dict.fromkeys(descriptors, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 1 << 16)
                found[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return list(found.values())


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Return a pipe's two ends; the caller closes the second."""
    read, write = os.pipe()
    try:
        yield read, write
    finally:
        os.close(read)
