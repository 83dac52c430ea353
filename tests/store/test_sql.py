from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import SyntheticRun, TurnModel, make_run

from svload.model.errors import SvloadError
from svload.model.results import TrialSummary
from svload.store import query, read_trial
from svload.store.load_time import responses_ns
from svload.store.sql import VIEWS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    faults = {"TC0.r2": "unsealed", "TC1.r1": "errors"}
    return make_run(tmp_path_factory.mktemp("runs"), replicates=2, cases=3, faults=faults)


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


def test_an_empty_run_has_the_same_tables(tmp_path: Path) -> None:
    empty = make_run(tmp_path, cases=1, replicates=1, faults={"*": "unsealed"})
    for view in VIEWS:
        rows = query(empty, f"select * from {view}")[1]
        assert bool(rows) == (view == "cases")


OUTSIDE = [
    *("select * from read_csv('/etc/passwd')", "select * from '/etc/passwd'", "copy (select 1) to '{out}'"),
    *("set enable_external_access = true", "attach '{out}' as other"),
]


@pytest.mark.parametrize(
    "sql", [*OUTSIDE, "install httpfs", "select * from names", "select nothing from trials", "not sql"]
)
def test_nothing_else_is_reached_and_mistakes_are_reported(
    run: SyntheticRun, tmp_path: Path, sql: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SvloadError, match=r"\[usage\]"):
        query(run, sql.format(out=out))
    assert not out.exists()


def test_a_damaged_table_is_reported_as_such(tmp_path: Path) -> None:
    damaged = make_run(tmp_path, cases=1, replicates=1)
    damaged.trial("TC0.r1").table("monitors").write_bytes(b"PAR1")
    with pytest.raises(SvloadError) as caught:
        query(damaged, "select * from monitors")
    (problem,) = caught.value.problems
    assert problem.code == "run-damaged" and "monitors.parquet" in problem.sentence


def test_a_response_leaves_out_the_time_between_turns_in_which_it_waited_for_a_slot(tmp_path: Path) -> None:
    """The last request of a turn gets its slot 5 ms into the next one: views, rows and analysis agree
    about it."""
    run = make_run(tmp_path, turns=TurnModel(rounds=4), replicates=1, vus=2)
    name = run.sealed_trials()[0]
    trial = run.trial(name)
    record = TrialSummary.read(trial.summary).turns
    assert record is not None
    (_, end_ns), (begin_ns, _) = record.turns_ns[:2]
    table = pq.read_table(trial.table("samples"))
    columns = {one: table[one].to_numpy().copy() for one in table.column_names}
    within = (columns["due_ns"] < end_ns) & (columns["error"] == 0)
    late = int(np.flatnonzero(within)[-1])
    waited_ns, service_ns = end_ns - int(columns["due_ns"][late]) + 5_000_000, 2_000_000
    for stamp in ("ready_ns", "begun_ns", "written_ns"):
        columns[stamp][late] = begin_ns + 5_000_000
    for stamp in ("first_byte_ns", "done_ns"):
        columns[stamp][late] = begin_ns + 5_000_000 + service_ns
    pq.write_table(pa.table(columns, schema=table.schema), trial.table("samples"))
    rows = query(run, f"select response_ns from samples where trial = '{name}' and response_ns is not null")[
        1
    ]
    asked = f"select max(response_s) from probe where trial = '{name}' and vu = {columns['vu'][late]} "
    (longest,) = query(run, f"{asked} and due_s = {columns['due_ns'][late]} / 1e9")[1][0]
    data = read_trial(trial)
    took = responses_ns(data.samples)[np.asarray(data.samples["done_ns"]) >= 0]
    assert sorted(value for (value,) in rows) == sorted(took.tolist())
    # Nothing of a turn is due later than at its last nanosecond.
    assert longest == pytest.approx((waited_ns + service_ns) / 1e9, abs=2e-9)
    assert begin_ns - end_ns > 100 * service_ns, "the pause would show"
