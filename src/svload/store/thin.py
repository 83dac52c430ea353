"""A thin copy of a run, small enough to be committed or sent: histograms in few intervals, and no folder
names of this machine.

Every count is kept. Histograms of response times keep `SERIES` intervals of the kept window, the others one;
what lies before and after the window becomes one interval each. So every percentile of the kept window is
unchanged; its confidence interval within one trial is made from fewer intervals if a group has no rows, and a
warm-up cut elsewhere is not exact. The seals are unchanged; `thinned.json` lists the files that differ from
what was sealed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svload.model.columns import HISTOGRAM_METRICS
from svload.model.errors import SvloadError
from svload.model.outputs import write_output
from svload.model.seals import Seal, Thinned, ThinnedFile
from svload.store.layout import RunDir, TrialDir
from svload.store.pack import packed_files
from svload.store.parquet import Arrays, read_trial, sum_by_key, write_trial_table
from svload.store.seal import sha256_file, write_artefact
from svload.store.verify import verify_run

SERIES = 20
"""Intervals that histograms of response times keep."""
_OVER_TIME = tuple(HISTOGRAM_METRICS.index(name) for name in ("response", "failed_response"))
_HIDE_IN = ("study.lock.json", "trials", "attempts", "events.jsonl", "placement.json", "derived")
"""Plan and inputs contain no folder names."""
_TEXTS = (".json", ".jsonl")
WHAT = (
    f"Histograms are merged: response times to {SERIES} intervals of the kept window, all else to one. "
    "Names of the machine's folders are replaced by the variables that stand for them."
)


def thin_copy(
    run: RunDir, into: Path, windows: Mapping[str, tuple[int, int]], folders: Mapping[str, str]
) -> RunDir:
    """Write a thin copy of `run` below `into` and return it.

    windows: trial → [first, last) intervals of its kept window. folders: absolute path → its replacement; the
    longest match wins, and paths that are relative or the root are left out. Raise SvloadError run-damaged,
    since the copy's digests would hide damage; OSError.
    """
    if damage := verify_run(run):
        raise SvloadError(*damage)
    copy = RunDir(into / run.name)
    changed: dict[str, ThinnedFile] = {}
    for source in packed_files(run):
        if (
            source == run.findings_digest_path
        ):  # folders are hidden in the copy: its record holds another digest
            continue
        place = source.relative_to(run.path)
        target = copy.path / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if place.parts[0] in _HIDE_IN and source.suffix in _TEXTS and source.name != "seal.json":
            _hide(target, folders)
    for name in run.sealed_trials():
        if name in windows:
            _coarsen_file(copy.trial(name), windows[name])
        changed |= _changes(copy.trial(name))
    for path in (copy.lock_path, copy.events, copy.placement_path, copy.findings_path):
        place = path.relative_to(copy.path)
        if path.is_file():
            changed[place.as_posix()] = ThinnedFile(
                sealed=sha256_file(run.path / place), kept=sha256_file(path)
            )
    write_artefact(copy.thinned_path, Thinned(what=WHAT, files=changed))
    return copy


def _hide(path: Path, folders: Mapping[str, str]) -> None:
    text = before = path.read_text(encoding="utf-8")
    # A relative path may be a word of the format, such as “data”.
    for folder in sorted(
        (one for one in folders if one.startswith("/") and one != "/"), key=len, reverse=True
    ):
        text = folders[folder].join(re.split(rf"{re.escape(folder)}(?![\w-])", text))
    if text != before:
        write_output(path, text)


def _changes(trial: TrialDir) -> dict[str, ThinnedFile]:
    found = {}
    for name, sealed in Seal.read(trial.seal).files.items():
        digest = sha256_file(trial.path / name)
        if digest != sealed:
            found[f"trials/{trial.path.name}/{name}"] = ThinnedFile(sealed=sealed, kept=digest)
    return found


def _coarsen_file(trial: TrialDir, window: tuple[int, int]) -> None:
    histograms = dict(read_trial(trial).histograms)
    write_trial_table(trial.table("histograms"), "histograms", coarsen(histograms, window))


def coarsen(histograms: Arrays, window: tuple[int, int]) -> Arrays:
    """Return the same counts in fewer intervals: 0, those of the kept window, and its end.

    Response times keep up to `SERIES` intervals of the window, each named after its first one. All else is
    one interval, named after the window's last: later rules may cut more of the warm-up, and still find it.
    """
    first, last = window
    if not len(histograms["interval"]):
        return dict(histograms)
    interval = histograms["interval"].astype(np.int64)
    step = max(-(-(last - first) // SERIES), 1)
    series = first + (interval - first) // step * step
    inside = np.where(np.isin(histograms["metric"], _OVER_TIME), series, max(last - 1, first))
    merged: NDArray[np.int64] = np.select(
        [interval < first, interval < last], [np.zeros_like(interval), inside], last
    )
    return sum_by_key("histograms", [dict(histograms) | {"interval": merged.astype("<u4")}])
