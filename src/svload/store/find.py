"""Ways to find runs: by the name that a user gives, the unfinished ones, the last of a study."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from svload.model.errors import SvloadError, fail
from svload.model.study import Lock
from svload.store.journal import read_events
from svload.store.layout import LATEST, RunDir, run_numbers, run_stem
from svload.store.pack import open_pack


def find_run(text: str, out_dir: Path) -> RunDir:
    """Return the run that a user names: `latest`, a name under `out_dir`, a folder's path, or a pack. Raise
    SvloadError: run-not-found, run-linked, run-damaged."""
    places = _places(text, out_dir)
    path = next(filter(_holds_run, places), None)
    if path is None:
        raise fail("run-not-found", path=places[0])
    if path.is_file():
        return open_pack(path)
    run = RunDir(path.resolve())
    if strange := _no_plain_file(run.path):
        raise _strange(strange)
    return run


def names_run(text: str, out_dir: Path) -> bool:
    """Return whether `find_run` would open something by that name: a file, or a folder with a lock."""
    return any(map(_holds_run, _places(text, out_dir)))


def _places(text: str, out_dir: Path) -> list[Path]:
    return [out_dir / text] if text == LATEST else [Path(text), out_dir / text]


def _holds_run(path: Path) -> bool:
    return path.is_file() or (path / "study.lock.json").is_file()


def _no_plain_file(folder: Path) -> Path | None:
    """Return a file in a run that is neither folder nor plain file: a link, through which writes and moves
    would reach somebody else's files, or a pipe without a writer. A run never makes one."""
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            found = Path(at) / name
            if found.is_symlink() or not (found.is_file() or found.is_dir()):
                return found
    return None


def _strange(path: Path) -> SvloadError:
    if path.is_symlink():
        return fail("run-linked", path=path, target=os.readlink(path))
    return fail("run-damaged", path=path, reason="it is not a regular file")


def unfinished_runs(out_dir: Path, adds_batches: Callable[[Lock], bool] = lambda lock: False) -> list[RunDir]:
    """Return the runs under `out_dir` that have no plan or planned trials without a seal, newest first.

    With them those that ended between two batches: `adds_batches` says of which studies batches may follow
    the planned ones, and no journal says that all of them were made.
    """
    locks = sorted(out_dir.glob("*/study.lock.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    runs = [RunDir(path.parent.resolve()) for path in locks if not path.parent.is_symlink()]
    return [
        run
        for run in runs
        if not _no_plain_file(run.path) and (not run.is_complete() or _is_between(run, adds_batches))
    ]


def _is_between(run: RunDir, adds_batches: Callable[[Lock], bool]) -> bool:
    try:
        if not adds_batches(Lock.read(run.lock_path)):
            return False
        events = read_events(run.events).events
    except (SvloadError, OSError, ValueError):
        return False
    last = next((one for one in reversed(events) if one.kind in ("run-ended", "trial-sealed")), None)
    return last is None or last.kind != "run-ended" or not last.data.get("complete")


def last_run(out_dir: Path, study: str, profile: str | None = None) -> RunDir | None:
    """Return the newest run of this study and profile under `out_dir` whose planned trials are all sealed;
    None if there is none."""
    stem = run_stem(study, profile)
    numbers = sorted(run_numbers(out_dir, stem), reverse=True) if out_dir.is_dir() else []
    for run in (RunDir(out_dir / f"{stem}-{number}") for number in numbers):
        try:
            lock = run.lock()
            complete = run.is_complete()
        except SvloadError:
            continue
        if complete and (lock.name, lock.profile) == (study, profile):
            return run
    return None
