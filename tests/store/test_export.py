"""`svload export`: every view as CSV and as Parquet has the rows that a query returns."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.evolve import evolve
from tests.support import SyntheticRun, make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.results import Belief, Estimate
from svload.model.visible import plain_cell
from svload.store import export_views, query, read_trial
from svload.store.sql import VIEWS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    made = make_run(
        tmp_path_factory.mktemp("runs"), replicates=2, cases=2, duration_s=0.4, faults={"TC1.r1": "errors"}
    )
    api.analyse(made)
    return made


def test_every_view_is_exported(run: SyntheticRun, tmp_path: Path) -> None:
    parquet = api.export_tables(str(run.path), "parquet", tmp_path)
    texts = api.export_tables(str(run.path), "csv", tmp_path)
    assert [path.name for path in parquet] == [f"{view}.parquet" for view in VIEWS]
    for view, columnar, text in zip(VIEWS, parquet, texts, strict=True):
        names, rows = query(run, f"select * from {view}")
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


def _bounds(one: Estimate) -> tuple[float | None, float | None, str]:
    belief = one.belief or Belief(grade="VALID", below=0.0, above=0.0)
    return belief.below, belief.above, ", ".join(belief.doubts)


def test_judged_metrics_and_checks_are_those_of_the_findings(run: SyntheticRun) -> None:
    findings = api.read_findings(run)
    columns = "trial, metric, value, grade, below, above, doubts, why, need"
    wanted = [
        (trial.trial, name, one.value, one.grade, *_bounds(one), one.why, one.need)
        for trial in findings.trials
        for name, one in trial.metrics.items()
    ]
    found = query(run, f"select {columns} from metrics")[1]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    checks = query(run, "select trial, check_name, grade, measured, who from checks")[1]
    assert checks == [
        (trial.trial, check.check, check.grade, check.measured, check.who)
        for trial in findings.trials
        for check in trial.verdict.checks
    ]


def test_a_quote_in_a_folder_s_name_is_a_quote(run: SyntheticRun, tmp_path: Path) -> None:
    (file,) = export_views(run, tmp_path / "it's", "csv", ["trials"])
    assert file.read_text(encoding="utf-8").startswith("trial,")


def test_a_place_that_cannot_be_written_is_reported(run: SyntheticRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SvloadError, match=r"file cannot be written.*\[usage\]"):
        api.export_tables(str(run.path), "csv", tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-2+3", "'-2+3"), ("@x", "'@x"), ("\tx", "'\tx"), ("\rx", "'\rx"),
        ("-5", "-5"), ("+1.5e3", "+1.5e3"), ("a=b", "a=b"), ("", ""), ("'=1", "'=1"),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path: Path, text: str, shown: str) -> None:
    made = make_run(tmp_path, replicates=1, cases=2, duration_s=0.2)
    lock = made.lock()
    cases = tuple(evolve(case, levels=dict.fromkeys(case.levels, text)) for case in lock.cases)
    factors = tuple(evolve(one, name=f"={one.name}") for one in lock.factors)
    cases = tuple(
        evolve(case, levels={f"={name}": level for name, level in case.levels.items()}) for case in cases
    )
    made.lock_path.write_text(evolve(lock, cases=cases, factors=factors).to_json())
    [path] = export_views(made, tmp_path / "csv", "csv", ["cases"])
    with path.open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert [name[:2] for name in names[2:]] == ["'="] * len(factors)
    assert factors
    assert {row[2] for row in rows} == {shown}
    assert plain_cell(text) == shown


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
