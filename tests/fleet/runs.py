"""Start `svload run` within a fabric, watch it, and find what is left afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.fleet.fabric import Fabric, Host

from svload.store import RunDir


def load(machines: Fabric, *words: str) -> RunDir:
    """Return the run that a command made."""
    done = machines.svload("run", *words, "--json")
    assert "Traceback" not in done.stderr, done.stderr
    return newest(machines)


def newest(machines: Fabric) -> RunDir:
    runs = sorted((machines.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return RunDir([path for path in runs if path.is_dir() and not path.is_symlink()][-1])


def left(machines: Fabric) -> list[str]:
    """Return the command lines of generators, agents and workers that still run anywhere."""
    names = [machines.middle, *(machines.namespace(host) for host in machines.hosts)]
    found = [words for name in names for words in processes(name).values()]
    return [" ".join(words) for words in found if any(word.startswith("svload.") for word in words)]


def processes(namespace: str) -> dict[int, list[str]]:
    """Return pid → command line of the processes in a network."""
    network, found = f"net:[{os.stat(f'/run/netns/{namespace}').st_ino}]", {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(folder / "ns/net") == network:
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
                found[int(folder.name)] = words.split("\0")
    return found


def begin(machines: Fabric, *words: str) -> subprocess.Popen[str]:
    """Start a run that continues while the test acts."""
    return subprocess.Popen(
        ["ip", "netns", "exec", machines.middle, sys.executable, "-m", "svload", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=machines.folder,
        env={**os.environ, **machines.own}, start_new_session=True,
    )  # fmt: skip


def process(machines: Fabric, host: Host | None, module: str) -> int:
    """Return the pid of a process that runs a module in a host's network, or in the middle."""
    name = machines.middle if host is None else machines.namespace(host)
    for pid, words in processes(name).items():
        # sshd and its sessions show their state in their command lines
        if module in words or module in {word.partition(": ")[2] for word in words}:
            return pid
    raise LookupError(f"no {module} at {name}")
