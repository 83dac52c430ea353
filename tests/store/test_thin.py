"""A thin copy gives the same results for the kept window, is smaller, names no folder of its machine, and
states what was changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.store import foreign_files as files
from tests.support import SyntheticRun, make_run

from svload import api
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.report.data.digest import digest_trial
from svload.store import open_pack, read_trial, verify_run
from svload.store.seal import sha256_file
from svload.store.thin import SERIES, _hide, coarsen
from svload.tables.own import OwnTable, OwnTables


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return make_run(tmp_path_factory.mktemp("thin") / "runs", replicates=4, cases=2)


def test_the_findings_are_the_same_and_nothing_counts_as_damaged(run: SyntheticRun, tmp_path: Path) -> None:
    whole = api.pack(str(run.path), tmp_path / "whole.zip")
    thin = api.pack(str(run.path), tmp_path / "thin.zip", thin=True)
    opened = open_pack(thin, tmp_path / "cache")
    assert verify_run(opened) == []
    assert thin.stat().st_size < whole.stat().st_size
    result, meant = api.runs.analyse(opened), api.runs.analyse(run)
    assert result.claims == meant.claims
    for one, other in zip(result.cases, meant.cases, strict=True):
        assert one.instrument == other.instrument
        for key, estimate in other.metrics.items():
            found = one.metrics[key]
            assert (found.value, found.low, found.high) == (estimate.value, estimate.low, estimate.high), key
    for trial, sealed in zip(result.trials, meant.trials, strict=True):
        assert trial.verdict.instrument == sealed.verdict.instrument
        values = {key: estimate.value for key, estimate in trial.metrics.items()}
        assert values == {key: estimate.value for key, estimate in sealed.metrics.items()}


def test_a_thin_copy_may_remake_its_findings(run: SyntheticRun, tmp_path: Path) -> None:
    """They are no sealed fact: a later report recomputes them, which is no damage."""
    api.analyse(run)
    opened = open_pack(api.pack(str(run.path), tmp_path / "thin.zip", thin=True), tmp_path / "cache")
    assert api.verify(str(opened.path))["made_again"] == []
    api.analyse(opened)
    checked = api.verify(str(opened.path))
    assert (checked["damage"], checked["made_again"]) == ([], [])
    edited = opened.findings_path.read_text().replace('"instrument": "VALID"', '"instrument": "REFUSED"', 1)
    opened.findings_path.write_text(edited)
    (found,) = api.verify(str(opened.path))["made_again"]
    assert "did not match the sealed trials" in found


@pytest.mark.parametrize(
    "name", ["trials/TC0.r1/summary.json", "trials/TC0.r1/monitors.parquet", "plan/000.json"]
)
def test_a_damaged_run_has_no_thin_copy(name: str, tmp_path: Path) -> None:
    """Its digests would be those of the damaged files, and the copy would pass as whole."""
    damaged = make_run(tmp_path / "runs", replicates=1, cases=1)
    api.analyse(damaged)
    file = damaged.path / name
    file.write_bytes(b" " + file.read_bytes())
    with pytest.raises(SvloadError) as caught:
        api.pack(str(damaged.path), tmp_path / "thin.zip", thin=True)
    assert {problem.code for problem in caught.value.problems} == {"run-damaged"}


def test_no_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    copy = make_run(tmp_path / "runs", replicates=1, cases=1)
    journal = copy.trial("TC0.r1").events
    before = sha256_file(journal)
    event = Event("notice", {"text": f"see {tmp_path}/state/labs/x"})
    journal.write_text(journal.read_text() + event.to_json() + "\n")
    seal = copy.trial("TC0.r1").seal
    seal.write_text(seal.read_text().replace(before, sha256_file(journal)))
    opened = open_pack(api.pack(str(copy.path), tmp_path / "thin.zip", thin=True), tmp_path / "cache")
    text = opened.trial("TC0.r1").events.read_text()
    assert "see $SVLOAD_STATE/labs/x" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("home", ["/", "/data", "/srv/jo"])
def test_only_whole_folders_are_replaced(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An imported file's folder may be called like a key of the format, and a home be the root or begin another."""
    monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    load = [files.Asked(0, 100 * place, 50, "/srv/joe/x") for place in range(30)]
    run = files.imported(tmp_path / "runs", files.write_jtl(Path("data/a.jtl"), load))
    assert run.lock().study_dir == str(tmp_path / "data")
    lock = run.lock().model_copy(update={"study_dir": "data"})  # as older versions wrote it
    opened = open_pack(api.pack(str(run.path), tmp_path / "thin.zip", thin=True), tmp_path / "cache")
    assert verify_run(opened) == []
    imported = read_trial(opened.trial(opened.sealed_trials()[0])).summary.imported
    assert imported is not None and set(imported.labels.values()) == {"/srv/joe/x"}
    target = tmp_path / "lock.json"
    target.write_text(lock.to_json())
    _hide(target, {"data": ".", home: "~"})
    assert type(lock).read(target) == lock


def test_counts_stay_and_windows_do_not_mix(run: SyntheticRun) -> None:
    """A pack made by older rules lost the service times of all cells whose warm-up is cut later by newer
    rules: what is merged to one interval is still there under a later cut."""
    whole = {name: np.asarray(cells) for name, cells in read_trial(run.trial("TC1.r1")).histograms.items()}
    first, last = 40, 160
    thin = coarsen(whole, (first, last))
    for low, high in ((0, first), (first, last), (last, 1 << 30)):
        for metric in range(len(HISTOGRAM_METRICS)):
            assert _by_bucket(thin, metric, low, high) == _by_bucket(whole, metric, low, high)
    inside = (thin["interval"] >= first) & (thin["interval"] < last)
    over_time = thin["metric"] == HISTOGRAM_METRICS.index("response")
    assert len(np.unique(thin["interval"][inside & over_time])) == SERIES
    assert len(np.unique(thin["interval"][inside & (thin["metric"] == 2)])) == 1
    lag = HISTOGRAM_METRICS.index("generator_lag")
    assert _by_bucket(thin, lag, 80, last) == _by_bucket(whole, lag, first, last) != {}


def _by_bucket(table: dict[str, np.ndarray], metric: int, low: int, high: int) -> dict[int, int]:
    rows = (table["metric"] == metric) & (table["interval"] >= low) & (table["interval"] < high)
    counts = np.bincount(table["bucket"][rows].astype(np.int64), weights=table["count"][rows])
    return {int(bucket): int(count) for bucket, count in enumerate(counts) if count}


@pytest.mark.parametrize("intervals", [0, 7, 83])
def test_a_cut_in_a_merged_interval_fails_nothing(run: SyntheticRun, intervals: int, tmp_path: Path) -> None:
    """Requests due in the part of it that is kept have no times of their own."""
    opened = open_pack(api.pack(str(run.path), tmp_path / "thin.zip", thin=True), tmp_path / "cache")
    trial = read_trial(opened.trial("TC1.r1"))
    digest = digest_trial(trial, intervals * trial.summary.interval_ns)
    for found in digest.groups.values():
        assert found.summary.failed == found.summary.dropped == 0
        assert found.response.total == found.response.at_or_below[-1] > 0
        assert np.isfinite(found.series["p50"].values).all()


@pytest.mark.parametrize("thin", [False, True])
def test_a_studys_own_tables_come_along(thin: bool, tmp_path: Path) -> None:
    made = make_run(tmp_path / "runs", replicates=1, cases=1)
    api.put_tables(made, [OwnTable(title="Table I", head=("case",), rows=(("TC0",),))], "tables.py")
    opened = open_pack(api.pack(str(made.path), tmp_path / "one.zip", thin=thin), tmp_path / "cache")
    assert OwnTables.read(opened.tables_path) == OwnTables.read(made.tables_path)
    assert verify_run(opened) == []
