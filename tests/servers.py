"""Programs that listen, started for a test: on a free port, waited for with a bound, ended with the test."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import environ
from pathlib import Path

from tests.bounds import HANG_S

from svload.host import cache_dir


def free_port() -> int:
    """A TCP port of loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], object], bound_s: float = HANG_S) -> None:
    """Return once it holds; fail the test after the bound."""
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline, f"did not hold within {bound_s} s: {condition}"
        time.sleep(0.01)


@contextmanager
def running(command: Sequence[str], port: int, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A server that stays in the foreground, from when it listens on `port` until the block
    ends; what it says goes to `log`."""
    program = shutil.which(command[0], path=environ.get("PATH", "") + ":/usr/sbin") or command[0]
    with open(log or "/dev/null", "wb") as said:
        process = subprocess.Popen([program, *command[1:]], stdout=said, stderr=said)
    with process:
        try:
            wait_until(lambda: accepts(port) or process.poll() is not None)
            assert process.poll() is None, (
                f"{command[0]} ended at once: {log.read_text()[-500:] if log else ''}"
            )
            yield process
        finally:
            process.terminate()
            process.wait(HANG_S)


def python_with(requirements: Path) -> Path:
    """The interpreter of an environment that holds what the file lists by hash, kept between runs."""
    folder = cache_dir() / f"test-python-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not (folder / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=HANG_S)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", str(requirements)], check=True, timeout=HANG_S)
        (folder / "made").touch()
    return folder / "bin/python"
