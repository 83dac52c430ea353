"""`svload run` within a fabric: begun, watched, looked for afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fleet.fabric import Fabric, Host

from svload.store import RunDir


def load(machines: Fabric, *words: str) -> tuple[subprocess.CompletedProcess[str], RunDir | None]:
    done = machines.svload("run", *words, "--json")
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    path = found.get("run") or found.get("folder")
    return done, RunDir(machines.folder / str(path)) if path else None


def newest(machines: Fabric) -> RunDir:
    runs = sorted((machines.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return RunDir([path for path in runs if path.is_dir() and not path.is_symlink()][-1])


def left(machines: Fabric) -> list[str]:
    """Command lines of generators, agents and workers that still live anywhere."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                network = os.readlink(folder / "ns/net")
            except OSError:
                continue
            if any(word.startswith("svload.") for word in words) and network in networks(machines):
                found.append(" ".join(words))
    return found


def networks(machines: Fabric) -> set[str]:
    names = [machines.middle, *(machines.namespace(host) for host in machines.hosts)]
    return {f"net:[{os.stat(f'/run/netns/{name}').st_ino}]" for name in names}


def begin(machines: Fabric, *words: str) -> subprocess.Popen[str]:
    """A run that goes on while the test acts."""
    return subprocess.Popen(
        ["ip", "netns", "exec", machines.middle, sys.executable, "-m", "svload", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=machines.folder,
        env={**os.environ, **machines.own}, start_new_session=True,
    )  # fmt: skip


def process(machines: Fabric, host: Host | None, module: str) -> int:
    """The pid of a process that runs a module in a host's network, or in the middle."""
    name = machines.middle if host is None else machines.namespace(host)
    network = f"net:[{os.stat(f'/run/netns/{name}').st_ino}]"
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            titles = {word.partition(": ")[2] for word in words}  # sshd and its sessions say what they do
            if module in (*words, *titles) and os.readlink(folder / "ns/net") == network:
                return int(folder.name)
        except OSError:
            continue
    raise LookupError(f"no {module} at {name}")
