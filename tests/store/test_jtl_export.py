"""`svload export --format jtl`: JMeter's columns, which `svload import` reads back as the same requests."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.store import foreign_files as files
from tests.support import make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.request_errors import ERRORS
from svload.store import read_trial
from svload.store.foreign.jtl import HEADER

LOAD = files.closed_loop(users=4, lasts=5000, failing=0.05)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_what_was_imported_comes_out_as_it_was(tmp_path: Path) -> None:
    """Every column that svload keeps is equal; numbers of threads and messages are its own."""
    path = files.write_jtl(tmp_path / "a.jtl", LOAD)
    run = files.imported(tmp_path / "runs", path)
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    before, after = rows(path), rows(exported)
    assert list(after[0]) == list(HEADER)
    own = ("responseMessage", "threadName", "dataType", "failureMessage", "URL", "IdleTime")
    kept = [name for name in HEADER if name not in own]
    assert sorted(tuple(row[name] for name in kept) for row in after) == sorted(
        tuple(row[name] for name in kept) for row in before
    )
    ends = [int(row["timeStamp"]) + int(row["elapsed"]) for row in after]
    assert ends == sorted(ends)


def test_svload_s_own_rows_are_jmeters(tmp_path: Path) -> None:
    """Each finished request of a group that keeps rows is a row, from its begin to its end, to the
    millisecond."""
    run = make_run(tmp_path / "runs", cases=1, replicates=1, duration_s=0.4, faults={"*": "errors"})
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    trial = read_trial(run.trial(run.sealed_trials()[0]).path)
    finished = trial.samples["done_ns"] >= 0
    found = rows(exported)
    assert len(found) == int(finished.sum())
    connected = np.maximum(trial.samples["connect_ns"], trial.samples["appconnect_ns"])[finished] // 1_000_000
    assert sorted(int(row["Connect"]) for row in found) == sorted(connected.tolist())
    errors = [code for code in trial.samples["error"][finished].tolist() if code]
    assert sum(row["success"] == "false" for row in found) == len(errors) > 0
    begun_ms, done_ms = (trial.samples[name][finished] // 1_000_000 for name in ("begun_ns", "done_ns"))
    assert sorted(int(row["elapsed"]) for row in found) == sorted((done_ms - begun_ms).tolist())
    again = files.imported(tmp_path / "again", exported)
    (name,) = again.sealed_trials()
    kept = read_trial(again.trial(name).path).summary.groups[0].errors
    assert dict(kept.items()) == Counter(ERRORS[code] for code in errors)


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    load = [
        files.Asked(0, 100 * place, 50, label)
        for place, label in enumerate(["=cmd()", "+1+1", "@x", "a\u202eb", "home"])
    ]
    run = files.imported(tmp_path / "runs", files.write_jtl(tmp_path / "a.jtl", load, group="-2+3"))
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    texts = {row[name] for row in rows(exported) for name in ("label", "threadName")}
    assert not any(text[0] in "=+-@" for text in texts) and not any("\u202e" in text for text in texts)


def test_a_run_without_rows_says_so(tmp_path: Path) -> None:
    run = files.imported(tmp_path, files.write_history(tmp_path / "h.csv", LOAD), form="locust")
    with pytest.raises(SvloadError, match="one by one"):
        api.export_jtl(str(run.path), tmp_path / "out")
