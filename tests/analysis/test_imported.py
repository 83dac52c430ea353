"""Imported runs are judged as far as their files hold facts; the rest is not measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.store import foreign_files as files

from svload import api
from svload.analysis.checks import all_checks
from svload.api.imports import ImportedRun
from svload.model.results import CheckResult, TrialResult

USERS = 10
LOAD = files.closed_loop(users=USERS, lasts=30_000)


def imported(tmp_path: Path, *words: str, **how: object) -> ImportedRun:
    return api.import_files(list(words), out=tmp_path / "runs", write_report=False, **how)


def check(result: TrialResult, name: str) -> CheckResult:
    return next(one for one in result.verdict.checks if one.check == name)


@pytest.fixture(scope="module")
def jtl(tmp_path_factory: pytest.TempPathFactory) -> ImportedRun:
    folder = tmp_path_factory.mktemp("imported")
    return imported(folder, str(files.write_jtl(folder / "load.jtl", LOAD)))


def test_its_numbers_are_those_of_the_file(jtl: ImportedRun) -> None:
    (result,) = jtl.findings.trials
    told = jtl.imported[result.trial]
    window = api.query(str(jtl.run.path), "select window_from_ns, window_to_ns from trials")[1][0]
    low, high = (edge + result.cut_ns * (place == 0) for place, edge in enumerate(window))
    spent = sorted(one.spent for one in LOAD if low <= one.begun * 1_000_000 < high)
    p50 = result.metrics["Users.response.p50"].value
    assert p50 * 1000 == pytest.approx(spent[len(spent) // 2], abs=2)
    mean = result.metrics["Users.response.mean"].value
    assert mean * 1000 == pytest.approx(sum(spent) / len(spent), rel=0.02)
    rate = result.metrics["Users.throughput"].value
    assert rate is not None and rate == pytest.approx(USERS / 0.150, rel=0.02)
    assert told.tool == "JMeter" and told.requests == len(LOAD)


def test_what_the_file_does_not_hold_is_not_measured(jtl: ImportedRun) -> None:
    (result,) = jtl.findings.trials
    own = [one.name for one in all_checks() if one.of == "own"]
    assert len(own) > 15
    for name in own:
        assert not check(result, name).measured
        assert check(result, name).sentence.startswith("Not measured: load.jtl was written by JMeter")
    assert {one.name for one in all_checks() if one.of != "own"} == {
        "warm-up",
        "steadiness",
        "imported-instrument",
        "imported-little",
    }
    for name in ("generator_lag.p99", "slot_wait.p50", "server_time.p50"):
        estimate = result.metrics[f"Users.{name}"]
        assert estimate.value is None and estimate.why == "not measured"


def test_it_is_weak_at_best(jtl: ImportedRun) -> None:
    (result,) = jtl.findings.trials
    assert result.verdict.instrument == "WEAK" and result.metrics["Users.response.p50"].grade == "WEAK"
    assert result.metrics["Users.success_rate"].grade == "VALID"
    assert result.verdict.server in ("STEADY", "UNKNOWN")


def test_littles_law_is_told_with_its_rest(jtl: ImportedRun) -> None:
    (result,) = jtl.findings.trials
    found = check(result, "imported-little")
    assert found.grade == "VALID" and found.measured
    assert f"of {USERS} users at work" in found.sentence and re.search(
        r"the rest is 0\.05\d* s of other time a request", found.sentence
    )


def test_more_at_work_than_there_are_is_refused(tmp_path: Path) -> None:
    """Two runs in one file: twice as many requests under way as users."""
    one = files.write_jtl(tmp_path / "a.jtl", files.closed_loop(users=4, lasts=10_000, think=0, ramp=0))
    lines = one.read_text().splitlines()
    one.write_text("\n".join([lines[0], *(line for row in lines[1:] for line in (row, row))]) + "\n")
    (result,) = imported(tmp_path, str(one)).findings.trials
    found = check(result, "imported-little")
    assert found.grade == "REFUSED" and "more users at work than there were" in found.sentence
    assert result.verdict.instrument == "REFUSED"


def test_late_completions_are_told_with_their_sign(tmp_path: Path) -> None:
    """Ten users, answers of 8 to 12 s, 30 s: what was begun in the window fills more than the window."""
    load = files.closed_loop(users=USERS, lasts=30_000, spent=(8_000, 12_000), think=0, ramp=0)
    (result,) = imported(tmp_path, str(files.write_jtl(tmp_path / "a.jtl", load))).findings.trials
    found = check(result, "imported-little")
    assert found.grade == "VALID" and "late completions counted" in found.sentence


def test_a_locust_history_has_means_and_no_percentile(tmp_path: Path) -> None:
    load = files.closed_loop(users=USERS, lasts=120_000, failing=0.02)
    path = files.write_history(tmp_path / "x_stats_history.csv", load)
    result = imported(tmp_path, str(path)).findings.trials[0]
    mean = result.metrics["load.response.mean"]
    assert mean.value * 1000 == pytest.approx(100, rel=0.02)
    assert result.metrics["load.response.p95"].value is None
    assert result.metrics["load.response.p95"].why == "not measured"
    rate = result.metrics["load.throughput"].value
    assert rate is not None and rate == pytest.approx(USERS / 0.150, rel=0.03)
    success = result.metrics["load.success_rate"].value
    assert success == pytest.approx(0.98, abs=0.01)
    assert check(result, "imported-little").grade == "VALID"


def test_replicates_of_levels_are_compared(tmp_path: Path) -> None:
    """Four blocks, the later level twice as slow: the ratio of the files, and since
    nobody drew their order, no claim."""
    words = []
    for block in range(4):
        for level, spent in (("old", (80, 120)), ("new", (160, 240))):
            load = files.closed_loop(users=4, lasts=20_000, spent=spent, ramp=10, seed=block)
            path = files.write_jtl(tmp_path / f"{level}{block}.jtl", load)
            _shift(path, (2 * block + (level == "new")) * 60_000)
            words.append(f"{level}={path}")
    result = imported(tmp_path, *words, factor="build")
    assert result.interleaved
    (claim,) = [one for one in result.findings.claims if "median" in one.name]
    assert claim.ratio.value == pytest.approx(2.0, rel=0.05)
    assert 1.8 < claim.single[0] <= 2.0 <= claim.single[1] < 2.2
    assert claim.outcome == "open" and "drift is inside this difference" in claim.why_open
    assert [trial.trial for trial in result.findings.trials][:2] == ["old.r1", "old.r2"]


def test_levels_one_after_the_other_are_not_interleaved(tmp_path: Path) -> None:
    words = []
    for place, level in enumerate(("old", "old", "new", "new")):
        path = files.write_jtl(tmp_path / f"{place}.jtl", files.closed_loop(users=2, lasts=3000))
        _shift(path, place * 60_000)
        words.append(f"{level}={path}")
    assert not imported(tmp_path, *words).interleaved


def test_a_sweep_of_users_is_one(tmp_path: Path) -> None:
    words = [
        f"{users}={files.write_jtl(tmp_path / f'{users}.jtl', files.closed_loop(users=users, lasts=5000, ramp=10))}"
        for users in (2, 4, 8)
    ]
    result = imported(tmp_path, *words, factor="users")
    lock = result.run.lock()
    assert [level.value for level in lock.factors[0].levels] == [2, 4, 8]
    (curve,) = result.findings.curves
    assert curve.kind == "users"
    executors = [config.groups[0].executor for config in api.runs.case_configs(lock).values()]
    assert [executor.most_vus for executor in executors] == [2, 4, 8]


def test_every_command_reads_an_imported_run(jtl: ImportedRun, tmp_path: Path) -> None:
    path = str(jtl.run.path)
    _, written = api.report(jtl.run)
    assert {"report.html", "report.xlsx", "junit.xml", "findings.json"} <= set(written)
    assert api.verify(path)["damage"] == []
    assert api.query(path, "select count(*) from samples")[1] == [(len(LOAD),)]
    assert api.pack(path, tmp_path / "a.svload.zip").is_file()
    assert "imported" in api.openmetrics(path)
    assert api.compare(path, path, page=tmp_path / "c.html")[1].is_file()
    json.loads(api.why(path, jtl.findings.trials[0].trial).model_dump_json())


def _shift(path: Path, by_ms: int) -> None:
    """The same load, so much later."""
    head, *rows = path.read_text().splitlines()
    moved = []
    for row in rows:
        stamp, _, rest = row.partition(",")
        moved.append(f"{int(stamp) + by_ms},{rest}")
    path.write_text("\n".join([head, *moved]) + "\n")
