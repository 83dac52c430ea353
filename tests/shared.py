"""Finished real runs that tests share: each is made once, and kept on disk under a digest of all code that
acts in a run.

`shared_run` returns a copy of the run's folder as the command sealed it, without `derived/`: the test makes
what analysis and report derive from it, so changes of those do not repeat the run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.bounds import HANG_S

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "src"
KEPT = ROOT / "build" / "shared-runs"
ACT_IN_NO_RUN = {"analysis", "report", "cli"}
"""Packages of svload that only read a finished run, or the command line."""
UNUSED_S = 86_400.0
"""Runs unused for this long are removed: their code has gone."""


def shared_run(into: Path, study: str | Path, *words: str, code: Path = CODE, kept: Path = KEPT) -> Path:
    """Return a copy of the run that `svload run STUDY WORDS…` makes; `study` is a folder or file, or a
    study's text.

    The copy is in `into`, under the run's name. The first caller makes the run; others wait for it.
    """
    folder = kept / _key(study, words, code)
    kept.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_suffix(".lock")):
        if not folder.exists():
            _make(folder, study, words, code)
            _forget_unused(kept)
        os.utime(folder)
        (run,) = (path for path in folder.iterdir() if path.is_dir())
        return Path(shutil.copytree(run, into / run.name, symlinks=True))


def _key(study: str | Path, words: tuple[str, ...], code: Path) -> str:
    read = hashlib.sha256(_content(code).encode())
    for word in words:
        read.update(word.encode() + b"\0")
    if isinstance(study, str):
        read.update(study.encode())
    else:
        _read(read, study if study.is_dir() else study.parent, {"runs", "example"})
    return read.hexdigest()[:24]


@cache
def _content(code: Path) -> str:
    """Return the digest of the engine and of all packages that act in a run."""
    read = hashlib.sha256()
    _read(read, code / "svload", ACT_IN_NO_RUN)
    return read.hexdigest()


def _read(into: hashlib._Hash, folder: Path, without: set[str]) -> None:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] not in without and "__pycache__" not in name.parts:
            into.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())


def _make(folder: Path, study: str | Path, words: tuple[str, ...], code: Path) -> None:
    """Run the study; keep nothing of a run that is not complete."""
    work = folder.with_suffix(f".{os.getpid()}")
    work.mkdir()
    try:
        if isinstance(study, str):
            (work / "study.yaml").write_text(study)
        places = {f"SVLOAD_{name}": str(work / name.lower()) for name in ("STATE", "CACHE", "LOCK")}
        asked = str(work / "study.yaml") if isinstance(study, str) else str(study)
        done = subprocess.run(
            [sys.executable, "-m", "svload", "run", asked, *words, "--out", str(work / "runs")],
            cwd=work, env=os.environ | places | {"PYTHONPATH": str(code)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        runs = [path for path in (work / "runs").glob("[!.]*") if path.is_dir() and not path.is_symlink()]
        whole = subprocess.run(
            [sys.executable, "-m", "svload", "verify", *map(str, runs)],
            cwd=work, env=os.environ | places | {"PYTHONPATH": str(code)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        assert len(runs) == 1 and whole.returncode == 0 and "Traceback" not in done.stderr, (
            f"no whole run was made (exit {done.returncode}): {done.stderr[-2000:]}{whole.stderr[-500:]}"
        )
        shutil.rmtree(runs[0] / "derived", ignore_errors=True)
        for path in (work / "runs").iterdir():
            if path != runs[0]:
                path.unlink()
        (work / "runs").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _forget_unused(kept: Path) -> None:
    for folder in kept.iterdir():
        if folder.is_dir() and folder.stat().st_mtime < time.time() - UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
