from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import SyntheticRun, make_run

from svload.model.errors import SvloadError
from svload.store import query, read_trial
from svload.store.sql import VIEWS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return make_run(
        tmp_path_factory.mktemp("runs"),
        replicates=2,
        cases=3,
        faults={"TC0.r2": "unsealed", "TC1.r1": "errors"},
    )


def test_every_view_is_there_and_carries_its_trial(run: SyntheticRun) -> None:
    for view in VIEWS:
        columns, _ = query(run, f"select * from {view} limit 1")
        assert "case_name" in columns
        assert view == "cases" or "trial" in columns


def test_numbers_are_those_of_the_files(run: SyntheticRun) -> None:
    trial = read_trial(run.trial("TC1.r1"))
    assert query(run, "select count(*), max(done_ns), sum(body_bytes) from samples where trial = 'TC1.r1'")[
        1
    ] == [(len(trial.samples["done_ns"]), trial.samples["done_ns"].max(), trial.samples["body_bytes"].sum())]
    totals = query(
        run, "select group_name, sum(due)::bigint from intervals where trial = 'TC1.r1' group by 1 order by 1"
    )[1]
    assert totals == [(group.name, group.due) for group in trial.summary.groups]
    counts = query(
        run,
        "select sum(count)::bigint from histograms where metric_name = 'failed_response' and trial = 'TC1.r1'",
    )[1]
    assert counts == [(sum(group.failed for group in trial.summary.groups),)]


def test_factors_can_be_joined(run: SyntheticRun) -> None:
    columns, rows = query(
        run, "select server, count(*) n from trials join cases using (case_name) group by 1 order by 1"
    )
    assert columns == ["server", "n"]
    assert rows == [("backend", 1), ("cache-hit", 2), ("cache-miss", 2)]


def test_failures_have_names(run: SyntheticRun) -> None:
    names = {name for (name,) in query(run, "select distinct error_name from samples where error > 0")[1]}
    assert names <= {"connect_refused", "status", "timeout_first_byte"}
    assert names


def test_an_empty_run_has_the_same_tables(tmp_path: Path) -> None:
    empty = make_run(tmp_path, cases=1, replicates=1, faults={"*": "unsealed"})
    for view in VIEWS:
        rows = query(empty, f"select * from {view}")[1]
        assert bool(rows) == (view == "cases")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "copy (select 1) to '{out}'",
        "set enable_external_access = true",
        "attach '{out}' as other",
        "install httpfs",
        "select * from names",
        "select nothing from trials",
        "not sql",
    ],
)
def test_nothing_else_is_reached_and_mistakes_are_said(run: SyntheticRun, tmp_path: Path, sql: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(SvloadError) as why:
        query(run, sql.format(out=out))
    assert why.value.problems[0].code == "usage"
    assert not out.exists()
