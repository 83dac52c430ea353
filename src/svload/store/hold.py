"""A lock that lets only one svload at a time continue a run. The kernel releases it however the process ends;
half-written files of a killed process are then removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from svload.model.errors import fail
from svload.store.layout import RunDir
from svload.store.leftovers import sweep


@contextlib.contextmanager
def hold_run(run: RunDir) -> Iterator[None]:
    """Hold `run` for one execution and its report. Raise SvloadError run-busy while another process holds it;
    OSError."""
    descriptor = os.open(
        run.events, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
    )
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise fail("run-busy", path=run.path) from None
        _sweep(run)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a fork that has not ended yet
    finally:
        os.close(descriptor)


def _sweep(run: RunDir) -> None:
    """Remove files that killed processes left half written. Never touch sealed trials, nor what a living
    process writes."""
    run.unlinked_latest.unlink(missing_ok=True)
    for name in run.unsealed_trials():
        sweep(run.trial(name).path)
    for folder in (
        run.path,
        run.plan,
        run.inputs,
        run.derived,
        *_folders(run.derived),
        *_folders(run.attempts),
    ):
        sweep(folder)


def _folders(parent: Path) -> list[Path]:
    return (
        [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
        if parent.is_dir()
        else []
    )
