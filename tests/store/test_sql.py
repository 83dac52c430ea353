"""Queries over a run, which Ctrl-C ends, and `svload export`: every view has the rows of a query."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve
from tests.servers import wait_until
from tests.support import SyntheticRun, TurnModel, make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.results import Belief, TrialSummary
from svload.model.visible import plain_cell
from svload.store import export_views, query, read_trial
from svload.store.load_time import responses_ns
from svload.store.sql import VIEWS, _cases


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    faults = {"TC0.r2": "unsealed", "TC1.r1": "errors"}
    made = make_run(tmp_path_factory.mktemp("runs"), replicates=2, cases=2, duration_s=0.4, faults=faults)
    api.analyse(made)
    return made


def test_numbers_are_those_of_the_files(run: SyntheticRun) -> None:
    trial = read_trial(run.trial("TC1.r1"))

    def found(columns: str, view: str, more: str = "") -> list[Any]:
        return query(run, f"select {columns} from {view} where trial = 'TC1.r1' {more}")[1]

    done, received = trial.samples["done_ns"], trial.samples["body_bytes"]
    numbers = found("count(*), max(done_ns), sum(body_bytes)", "samples")
    assert numbers == [(len(done), done.max(), received.sum())]
    totals = found("group_name, sum(due)::bigint", "intervals", "group by 1 order by 1")
    assert totals == [(group.name, group.due) for group in trial.summary.groups]
    counts = found("sum(count)::bigint", "histograms", "and metric_name = 'failed_response'")
    assert counts == [(sum(group.failed for group in trial.summary.groups),)]


def test_factors_keep_a_column_each_whatever_their_case() -> None:
    """DuckDB finds names in any case, and would answer with the first."""
    levels = {"Excluded": "a", "cache": "b", "Cache": "c"}
    case = SimpleNamespace(name="TC0", excluded=None, levels=levels)
    lock = SimpleNamespace(cases=[case], factors=[SimpleNamespace(name=name) for name in levels])
    with duckdb.connect() as connection:
        connection.register("cases", _cases(lock))
        found = connection.execute("select factor_Excluded, cache, factor_Cache from cases").fetchall()
    assert found == [("a", "b", "c")]


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
def test_nothing_else_is_reached(run: SyntheticRun, tmp_path: Path, sql: str) -> None:
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
    times = f"select response_ns from samples where trial = '{name}' and response_ns is not null"
    asked = f"select max(response_s) from probe where trial = '{name}' and vu = {columns['vu'][late]} "
    (longest,) = query(run, f"{asked} and due_s = {columns['due_ns'][late]} / 1e9")[1][0]
    data = read_trial(trial)
    took = responses_ns(data.samples)[np.asarray(data.samples["done_ns"]) >= 0]
    assert sorted(value for (value,) in query(run, times)[1]) == sorted(took.tolist())
    # Nothing of a turn is due later than at its last nanosecond.
    assert longest == pytest.approx((waited_ns + service_ns) / 1e9, abs=2e-9)
    assert begin_ns - end_ns > 100 * service_ns, "the pause would show"


def test_every_view_carries_its_trial_and_is_exported(run: SyntheticRun, tmp_path: Path) -> None:
    parquet = api.export_tables(str(run.path), "parquet", tmp_path)
    texts = api.export_tables(str(run.path), "csv", tmp_path)
    assert [path.name for path in parquet] == [f"{view}.parquet" for view in VIEWS]
    for view, columnar, text in zip(VIEWS, parquet, texts, strict=True):
        names, rows = query(run, f"select * from {view}")
        assert "case_name" in names
        assert view == "cases" or "trial" in names
        table = pq.read_table(columnar)
        with text.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        assert table.column_names == lines[0] == names
        assert table.num_rows == len(lines) - 1 == len(rows)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_probe_speaks_curl_s_units_and_keeps_what_did_not_happen_null(run: SyntheticRun) -> None:
    data = read_trial(run.trial("TC1.r1"))
    mine = data.samples["group"] == data.group_index("probe")
    total = (data.samples["done_ns"] - data.samples["begun_ns"])[mine & (data.samples["done_ns"] >= 0)] / 1e9
    ((shown, most, failed),) = query(
        run,
        "select count(time_total), max(time_total), count(*) filter (error_name <> '') from probe where "
        "trial = 'TC1.r1' and group_name = 'probe'",
    )[1]
    assert shown == len(total)
    assert most == pytest.approx(total.max())
    assert failed == (data.samples["error"][mine] > 0).sum() > 0
    assert query(run, "select count(*) from probe where time_connect < time_namelookup")[1] == [(0,)]


def test_judged_metrics_and_checks_are_those_of_the_findings(run: SyntheticRun) -> None:
    findings = api.read_findings(run)
    columns = "trial, metric, value, grade, below, above, doubts, why, need"
    wanted = []
    for trial in findings.trials:
        for name, one in trial.metrics.items():
            belief = one.belief or Belief(grade="VALID", below=0.0, above=0.0)
            bounds = (belief.below, belief.above, ", ".join(belief.doubts))
            wanted.append((trial.trial, name, one.value, one.grade, *bounds, one.why, one.need))
    found = query(run, f"select {columns} from metrics")[1]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    checks = query(run, "select trial, check_name, grade, measured, who from checks")[1]
    assert checks == [
        (trial.trial, check.check, check.grade, check.measured, check.who)
        for trial in findings.trials
        for check in trial.verdict.checks
    ]


def test_a_folder_may_have_a_quote_in_its_name_and_must_be_one(run: SyntheticRun, tmp_path: Path) -> None:
    (file,) = export_views(run, tmp_path / "it's", "csv", ["trials"])
    assert file.read_text(encoding="utf-8").startswith("trial,")
    with pytest.raises(SvloadError, match=r"trials\.csv cannot be written.*\[usage\]"):
        api.export_tables(str(run.path), "csv", file)


SHOWN = {
    "=1+1": "'=1+1", "+cmd": "'+cmd", "-2+3": "'-2+3", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx",
    "-5": "-5", "+1.5e3": "+1.5e3", "a=b": "a=b", "": "", "'=1": "'=1",
}  # fmt: skip


def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    made = make_run(tmp_path, replicates=1, cases=len(SHOWN), duration_s=0.2)
    lock = made.lock()
    factors = tuple(evolve(one, name=f"={one.name}") for one in lock.factors)
    names = [one.name for one in factors]
    cases = [
        evolve(case, levels=dict.fromkeys(names, text))
        for case, text in zip(lock.valid_cases, SHOWN, strict=True)
    ]
    made.lock_path.write_text(evolve(lock, cases=tuple(cases), factors=factors).to_json())
    [path] = export_views(made, tmp_path / "csv", "csv", ["cases"])
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert [name[:2] for name in head[2:]] == ["'="] * len(factors)
    assert factors
    assert [row[2] for row in rows] == list(SHOWN.values()) == [plain_cell(text) for text in SHOWN]


@pytest.mark.parametrize(
    "sql", ["select * from range(30000000)", "select a.trial from metrics a, metrics b, metrics c"]
)
def test_an_answer_of_too_many_rows_is_refused(sql: str, run: SyntheticRun) -> None:
    with pytest.raises(SvloadError, match="more than 100,000 rows") as raised:
        query(run, sql)
    assert "svload export" in str(raised.value)
    assert len(query(run, f"select * from ({sql}) limit 5000")[1]) == 5000


def test_a_query_has_half_of_the_free_memory(run: SyntheticRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.store.sql.free_memory_bytes", lambda: 128 << 20)
    wide = "select list(repeat('x', 1000) || range) from range(10000000)"
    with pytest.raises(SvloadError, match=r"[Mm]emory"):
        query(run, wide)


BUSY_S = 2.5
ENDLESS = {
    "join": "select count(*) from range(10000000) a, range(10000000) b where a.range * b.range = 7",
    "recursion": "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
    "sort": "select md5(x::varchar) from range(1000000000) t(x) order by 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS)
def test_it_ends_at_once(run: SyntheticRun, sql: str, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "svload", "query", str(run.path), sql]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: cpu_s(process.pid) > BUSY_S or process.poll() is not None)
            process.send_signal(number)
            before_s, ended_s = cpu_s(process.pid), of_children_s()
            assert process.wait(HANG_S) == 130
            # The CPU time of the process itself, because other processes may use the cores.
            assert of_children_s() - ended_s - before_s < 1.0
            assert process.stderr.read() == "svload: interrupted\n"
        finally:
            process.kill()


def of_children_s() -> float:
    """Return the CPU of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> float:
    """Return the CPU of a process: well more than its start once it is at the statement."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
