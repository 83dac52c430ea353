"""A user's machine for a journey: its state, cache and runs, the real command, and what it started."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from .loaded import run_loaded

SVLOAD = (sys.executable, "-m", "svload")
JUDGED = ("load", "run", "report", "verify", "capacity", "compare", "probe")
"""Commands whose exit code is a verdict."""
LONGER_THAN_ANY_WAIT = f"{2 * HANG_S:g}s"
"""The duration of a load that must end by itself for another reason."""


@dataclass
class Command:
    """A running svload: its process, and its lines so far on stderr and on stdout."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def follow(self, stream: IO[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))

    def wait_for(self, wanted: Callable[[list[str]], bool]) -> bool:
        """Return True once `wanted(lines)` holds, False if the command ended first."""
        try:
            wait_until(lambda: wanted(self.lines) or self.process.poll() is not None)
        except AssertionError as late:
            late.add_note(self.said[-2000:])
            raise
        return wanted(self.lines)

    def end(self) -> int:
        return self.process.wait(HANG_S)

    @property
    def said(self) -> str:
        """Return all of its stderr so far."""
        return "\n".join(self.lines)


@dataclass(frozen=True)
class World:
    """Folders and environment of one journey; every process that svload starts has its SVLOAD_STATE."""

    root: Path
    shared_cache: Path | None = None
    anew: bool = False
    """Each command is a new process from its begin, as when a user starts it."""

    def __post_init__(self) -> None:
        self.runs.mkdir(parents=True, exist_ok=True)

    @property
    def env(self) -> dict[str, str]:
        own = ("SVLOAD_LOCK", "SVLOAD_TEST_CACHE")
        keep = {
            key: value for key, value in os.environ.items() if not key.startswith("SVLOAD_") or key in own
        }
        cache = keep.pop("SVLOAD_TEST_CACHE", None) or str(self.shared_cache or self.root / "cache")
        places = {"SVLOAD_STATE": str(self.root / "state"), "SVLOAD_CACHE": cache}
        return keep | places | {"NO_COLOR": "1", "COLUMNS": "120"}

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def svload(
        self, *args: str, bound_s: float = HANG_S, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in a process that has svload loaded already unless `anew`. It prints no
        traceback."""
        if self.anew:
            ended = completed([*SVLOAD, *args], env=self.env, cwd=cwd or self.root, timeout=bound_s)
        else:
            ended = run_loaded(args, self.env, cwd or self.root, bound_s)
        assert "Traceback" not in ended.stderr, ended.stderr[-3000:]
        return ended

    def succeed(self, *args: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command that must end with 0."""
        ended = self.svload(*args, **how)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended

    def json(self, *args: str, **how: Any) -> Any:
        """Run a command with `--json`; return the document."""
        ended = self.svload(*args, "--json", **how)
        assert ended.stdout and (ended.returncode == 0 or args[0] in JUDGED), ended.stderr[-3000:]
        return json.loads(ended.stdout)

    def study(self, study: str | Mapping[str, Any], **files: str) -> str:
        """Write study.yaml in this world's folder, and Python files beside it; return its name."""
        for name, text in files.items():
            (self.root / f"{name}.py").write_text(text)
        (self.root / "study.yaml").write_text(study if isinstance(study, str) else json.dumps(study))
        return "study.yaml"

    def run(self, study: str | Path, *args: str) -> dict[str, Any]:
        """Run a study to its end; return the findings of the complete run."""
        ended = self.svload("run", str(study), *args, "--out", str(self.runs))
        assert list(self.runs.glob("*/study.lock.json")), ended.stderr[-3000:]
        return complete(only_run(self), ended.stderr)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a statement over the only run."""
        return list(self.json("query", str(only_run(self)), sql))

    @contextmanager
    def start(self, *args: str) -> Iterator[Command]:
        """Start a command and follow it; it is ended with the block, whatever happens."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*SVLOAD, *args], env=self.env, cwd=self.root, **pipes)
        command = Command(process)
        readers = [
            threading.Thread(target=command.follow, args=pair, daemon=True)
            for pair in ((process.stderr, command.lines), (process.stdout, command.printed))
        ]
        for reader in readers:
            reader.start()
        try:
            yield command
        finally:
            process.terminate()
            try:
                process.wait(HANG_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(HANG_S)
            for reader in readers:
                reader.join(HANG_S)

    def processes(self, containing: str = "") -> list[int]:
        """Return the machine pids of this world's processes whose command line contains the text."""
        mark = f"SVLOAD_STATE={self.root / 'state'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if containing in line and line:
                        found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def silent(self) -> list[int]:
        """Return the processes that are left of this world, after all have had the time to end."""
        with suppress(AssertionError):
            wait_until(lambda: not self.processes())
        return self.processes()

    def labs(self) -> list[Path]:
        folder = self.root / "state" / "labs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def left(self) -> list[Any]:
        """Return the processes and labs that are left of this world."""
        return [*self.silent(), *self.labs()]


def sealed(run: Path) -> dict[str, str]:
    """Return the digest of every file of every sealed trial of a run."""
    digests = {}
    for seal in sorted(run.glob("trials/*/seal.json")):
        for path in sorted(seal.parent.iterdir()):
            digests[str(path.relative_to(run))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def only_run(world: World) -> Path:
    """Return the only run of a world."""
    [run] = [path for path in world.runs.glob("[!.]*") if path.is_dir() and not path.is_symlink()]
    return run


def findings(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "derived" / "findings.json").read_text()))


def lab_of(run: Path, trial: str) -> dict[str, Any]:
    """Return what a sealed trial's lab recorded."""
    return dict(json.loads((run / "trials" / trial / "lab.json").read_text()))


def complete(run: Path, said: str) -> dict[str, Any]:
    """Return the findings of a run whose planned trials are all sealed. `said`: its command's stderr. The
    exit code of a judged load is not read, because it depends on how busy the machine was."""
    assert "Traceback" not in said, said[-3000:]
    assert (run / "derived" / "findings.json").exists(), said[-3000:]
    found = findings(run)
    assert found["complete"], said[-3000:]
    return found


def checks_of(trial: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a trial's checks by name."""
    return {check["check"]: check for check in trial["verdict"]["checks"]}


def assert_valid(trial: dict[str, Any], *names: str) -> None:
    """Check that these checks, which count and compare, found nothing wrong."""
    checks = checks_of(trial)
    for name in names:
        assert checks[name]["grade"] == "VALID", (trial["trial"], checks[name])
