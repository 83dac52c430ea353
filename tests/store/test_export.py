"""`svload export`: every view as CSV and as Parquet, row for row what a query answers."""

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


def test_it_stands_in_derived_where_no_place_is_named(run: SyntheticRun) -> None:
    files = api.export_tables(str(run.path), "csv")
    assert {path.parent for path in files} == {run.derived / "csv"}


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
    metrics = {(trial, name): value for trial, name, value in query(run, "select trial, metric, value from metrics")[1]}  # fmt: skip
    assert metrics == {
        (trial.trial, name): estimate.value
        for trial in findings.trials
        for name, estimate in trial.metrics.items()
    }
    checks = query(run, "select trial, check_name, grade, measured, who from checks")[1]
    assert checks == [
        (trial.trial, check.check, check.grade, check.measured, check.who)
        for trial in findings.trials
        for check in trial.verdict.checks
    ]


def test_each_metric_has_its_own_grade_and_bound(run: SyntheticRun) -> None:
    """What a query filters by is what the findings say of that number, and nobody has to join checks for it."""
    doubted = {
        "background.response.p50": Belief(grade="WEAK", below=0.125, above=0.0, doubts=("hiccups", "steal")),
        "background.response.p99": Belief(grade="REFUSED", below=None, above=None, doubts=("steal",)),
        "background.throughput": Belief(grade="VALID", below=0.0, above=0.25, as_measured=2.5, left_out=0.5),
    }
    findings = api.read_findings(run)
    first, *others = findings.trials
    metrics = {name: evolve(one, belief=doubted.get(name)) for name, one in first.metrics.items()}
    metrics["background.response.p99.9"] = Estimate(value=None, n_eff=7.0, why="too few", need=3688)
    first = evolve(first, metrics=metrics)
    before = run.findings_path.read_bytes()
    run.findings_path.write_text(evolve(findings, trials=(first, *others)).to_json())
    try:
        rows = query(
            run,
            "select metric, grade, below, above, doubts, as_measured, left_out from metrics "
            f"where trial = '{first.trial}'",
        )[1]
        short = query(run, f"select why, need, value from metrics where trial = '{first.trial}'")[1]
    finally:
        run.findings_path.write_bytes(before)
    told = {name: tuple(cells) for name, *cells in rows}
    assert {name: told[name] for name in (*doubted, "probe.response.p50")} == {
        "background.response.p50": ("WEAK", 0.125, 0.0, "hiccups, steal", None, 0.0),
        "background.response.p99": ("REFUSED", None, None, "steal", None, 0.0),
        "background.throughput": ("VALID", 0.0, 0.25, "", 2.5, 0.5),
        "probe.response.p50": ("VALID", 0.0, 0.0, "", None, 0.0),
    }
    assert ("too few", 3688, None) in short


def test_a_quote_in_a_folder_s_name_is_a_quote(run: SyntheticRun, tmp_path: Path) -> None:
    (file,) = export_views(run, tmp_path / "it's", "csv", ["trials"])
    assert file.read_text(encoding="utf-8").startswith("trial,")


def test_a_place_that_cannot_be_written_is_said(run: SyntheticRun, tmp_path: Path) -> None:
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
