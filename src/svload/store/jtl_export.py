"""Export of a run's requests with JMeter's columns, as read by JMeter's listeners and `svload import`. Groups
that keep no rows cannot be exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from svload.model.errors import fail
from svload.model.outputs import output
from svload.model.request_errors import ERRORS, MEANINGS
from svload.model.results import TrialSummary
from svload.model.visible import plain_cell, visible
from svload.store.foreign.jtl import HEADER, MS, OWN_ERROR
from svload.store.layout import RunDir
from svload.store.parquet import TrialData, read_trial

_PIECE = 200_000


def export_jtl(run: RunDir, folder: Path) -> tuple[Path, ...]:
    """Write `<folder>/<trial>.jtl` for each sealed trial that keeps rows. Raise SvloadError usage if none
    does; OSError if the disk is full."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name).path, clock="real")
        if not len(trial.samples["due_ns"]):
            continue
        path = folder / f"{run.trial(name).path.name}.jtl"
        with output(path) as fresh:
            _write(fresh, trial)
        files.append(path)
    if not files:
        hint = "Give the group record: rows, or export its tables with --format csv."
        raise fail("usage", reason="no trial of this run keeps its requests one by one", hint=hint)
    return tuple(files)


def _write(path: Path, trial: TrialData) -> None:
    samples, summary = trial.samples, trial.summary
    order = np.lexsort((samples["begun_ns"], samples["done_ns"]))
    order = order[samples["done_ns"][order] >= 0]
    schema = pa.schema([(name, pa.string() if name in _TEXTS else pa.int64()) for name in HEADER])
    text = _Names(trial)
    with pacsv.CSVWriter(path, schema, write_options=pacsv.WriteOptions(quoting_style="needed")) as writer:
        for first in range(0, len(order), _PIECE):
            rows = {name: samples[name][order[first : first + _PIECE]] for name in _COLUMNS}
            writer.write_table(pa.table(text.of(rows, summary), schema=schema))


_TEXTS = (
    "label",
    "responseCode",
    "responseMessage",
    "threadName",
    "dataType",
    "success",
    "failureMessage",
    "URL",
)
_COLUMNS = (
    "group",
    "step",
    "vu",
    "begun_ns",
    "first_byte_ns",
    "done_ns",
    "status",
    "error",
    "request_bytes",
    "header_bytes",
    "body_bytes",
    "connect_ns",
    "appconnect_ns",
)


class _Names:
    """JMeter's names for the rows of a trial."""

    def __init__(self, trial: TrialData) -> None:
        summary = trial.summary
        imported = summary.imported
        groups: Mapping[str, str] = imported.groups if imported else {}
        labels: Mapping[str, str] = imported.labels if imported else {}
        self._groups = [_cell(groups.get(group.name, group.name)) for group in summary.groups]
        self._labels = {
            (place, number): _cell(labels.get(step.name, step.name))
            for place, group in enumerate(summary.groups)
            for number, step in enumerate(group.steps)
        }
        self._users = _users(trial)
        self._threads = [
            (imported.users.get(group.name, 0) if imported else 0)
            or len(np.unique(trial.samples["vu"][trial.samples["group"] == place]))
            for place, group in enumerate(summary.groups)
        ]
        self._threads_everywhere = sum(self._threads)

    def of(self, rows: Mapping[str, NDArray[Any]], summary: TrialSummary) -> dict[str, pa.Array]:
        """Return the columns of some rows."""
        begun, done = rows["begun_ns"] // MS, rows["done_ns"] // MS
        epoch_ms = round(summary.started_wall * 1000)
        error, status, group = rows["error"], rows["status"], rows["group"]
        ok = error == 0
        names = [
            ERRORS[code] if code < len(ERRORS) else "other" for code in range(int(error.max(initial=0)) + 1)
        ]
        codes = np.where(
            status > 0,
            status.astype(str),
            np.array([f"{OWN_ERROR}{name or 'other'}" for name in names])[error],
        )
        messages = np.array(["OK", *(name or "other" for name in names[1:])])[error]
        meanings = np.array(["", *(MEANINGS.get(name, "") for name in names[1:])])[error]
        users = self._users
        if users is None:
            everybody = np.full(len(begun), self._threads_everywhere)
            of_group = np.array(self._threads)[group]
        else:
            at, count = users
            everybody = count[np.maximum(np.searchsorted(at, rows["done_ns"], side="right") - 1, 0)]
            of_group = everybody if len(self._groups) == 1 else np.array(self._threads)[group]
        first_byte = np.where(rows["first_byte_ns"] >= 0, (rows["first_byte_ns"] - rows["begun_ns"]) // MS, 0)
        labels = [
            self._labels.get((int(g), int(s)), self._groups[int(g)])
            for g, s in zip(group, rows["step"], strict=True)
        ]
        threads = [f"{self._groups[int(g)]} 1-{int(vu) + 1}" for g, vu in zip(group, rows["vu"], strict=True)]
        texts = {
            "label": labels, "responseCode": codes, "responseMessage": messages, "threadName": threads,
            "dataType": np.where(status > 0, "text", ""), "success": np.where(ok, "true", "false"), "failureMessage": meanings,
            "URL": np.full(len(begun), "null"),
        }  # fmt: skip
        numbers = {
            "timeStamp": epoch_ms + begun, "elapsed": done - begun, "bytes": rows["header_bytes"].astype(np.int64) + rows["body_bytes"].astype(np.int64),
            "sentBytes": rows["request_bytes"], "grpThreads": of_group, "allThreads": everybody, "Latency": first_byte,
            "IdleTime": np.zeros(len(begun), dtype=np.int64), "Connect": np.maximum(rows["connect_ns"], rows["appconnect_ns"]) // MS,
        }  # fmt: skip
        return {
            name: pa.array(texts[name], pa.string())
            if name in texts
            else pa.array(np.asarray(numbers[name]).astype(np.int64))
            for name in HEADER
        }


def _cell(text: str) -> str:
    """Return a name in a form that is safe in JMeter, a spreadsheet and a terminal."""
    return plain_cell(visible(text))


def _users(trial: TrialData) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return (moments, number of users from then on) of an imported trial; None if it is not known."""
    monitors = trial.monitors
    mine = (monitors["monitor"] == "imported") & (monitors["metric"] == "users")
    if not mine.any():
        return None
    return monitors["offset_ns"][mine], monitors["value"][mine].astype(np.int64)
