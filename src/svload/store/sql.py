"""SQL over a run: `svload query RUN "select …"`. Sealed trials only; nothing outside the run's tables can be reached."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from svload.model.columns import ERRORS, HISTOGRAM_METRICS
from svload.model.errors import fail
from svload.model.results import Findings, TrialSummary
from svload.store.layout import RunDir
from svload.store.parquet import TABLES, schema_of

VIEWS = {
    "cases": "a case a row: case_name, excluded, and a column for each factor",
    "trials": "a sealed trial a row: trial, case_name, replicate, block, position, whole_plot, started_wall, window, what was due, begun, ok, failed",
    "groups": "a trial and traffic group a row: every total of the group's summary",
    "intervals": "a trial, group, step and interval a row (model.columns.INTERVALS)",
    "histograms": "a trial, group, step, interval, metric and bucket a row; metric_name says which",
    "samples": "a request a row, of the groups that keep rows; error_name says what failed",
    "asked": "a trial, group and feeder row: how often it was asked",
    "monitors": "a reading a row: trial, offset_ns (the first just before the load, below zero), service, monitor, entity, metric, value",
    "verdicts": "a trial a row: instrument, server, reasons, remedy; empty before the analysis",
}
"""View → what one row is. All tables carry `trial` and `case_name`; those by group carry `group_name`."""


def query(run: RunDir, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one SQL statement over the views (`VIEWS`).

    Runs in memory: no file, network or extension can be reached from it. Raises SvloadError: usage for a mistake in the statement
    (with DuckDB's own words), run-damaged.
    """
    connection = duckdb.connect(":memory:")
    try:
        _register(connection, run)
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            result = connection.execute(sql)
            names = [column[0] for column in result.description or []]
            return names, result.fetchall()
        except duckdb.Error as why:
            hint = f"The tables are {', '.join(VIEWS)}; “describe trials” lists a table's columns."
            raise fail("usage", reason=str(why).strip().rstrip("."), hint=hint) from why
    finally:
        connection.close()


def _register(connection: Any, run: RunDir) -> None:
    lock = run.lock()
    names = run.sealed_trials()
    summaries = {name: TrialSummary.read(run.trial(name).summary) for name in names}
    connection.register("cases", _cases(lock))
    connection.register("trials", _trials(run, summaries))
    connection.register("groups", _groups(summaries))
    connection.register("verdicts", _verdicts(run))
    connection.register(
        "_metric",
        pa.table(
            {"metric": pa.array(range(len(HISTOGRAM_METRICS)), pa.uint8()), "metric_name": HISTOGRAM_METRICS}
        ),
    )
    connection.register(
        "_error", pa.table({"error": pa.array(range(len(ERRORS)), pa.uint16()), "error_name": ERRORS})
    )
    for table in TABLES:
        connection.register(f"_{table}", _dataset(run, names, table))
    by_group = 'join groups using (trial, "group")'
    picked = "trial, groups.case_name, groups.group_name"
    for view, select in {
        "intervals": f'select {picked}, one.* exclude (trial, "group") from _intervals one {by_group}',
        "histograms": f'select {picked}, metric_name, one.* exclude (trial, "group") from _histograms one {by_group} left join _metric using (metric)',
        "samples": f'select {picked}, error_name, one.* exclude (trial, "group") from _samples one {by_group} left join _error using (error)',
        "asked": f'select {picked}, one.* exclude (trial, "group") from _rows one {by_group}',
        "monitors": "select trial, trials.case_name, one.* exclude (trial) from _monitors one join trials using (trial)",
    }.items():
        connection.execute(f"create view {view} as {select}")


def _dataset(run: RunDir, names: tuple[str, ...], table: str) -> ds.Dataset:
    """One table of all trials, read from Parquet when asked, with the trial's name as a column. No copy is made."""
    schema = schema_of(TABLES[table]).append(pa.field("trial", pa.string()))
    form = ds.ParquetFileFormat()
    files = pa.fs.LocalFileSystem()
    fragments = [
        form.make_fragment(
            str(run.trial(name).table(table)), files, partition_expression=ds.field("trial") == name
        )
        for name in names
    ]
    return ds.FileSystemDataset(fragments, schema, form, files)


def _cases(lock: Any) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "case_name": [case.name for case in lock.cases],
        "excluded": [case.excluded for case in lock.cases],
    }
    for factor in lock.factors:
        name = factor.name if factor.name not in columns else f"factor_{factor.name}"
        columns[name] = [case.levels.get(factor.name) for case in lock.cases]
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _trials(run: RunDir, summaries: dict[str, TrialSummary]) -> pa.Table:
    planned = {plan.trial: plan for plan in run.planned_trials()}

    def plan(name: str, field: str) -> Any:
        return getattr(planned[name], field) if name in planned else None

    def total(field: str) -> pa.Array:
        return pa.array(
            [sum(getattr(group, field) for group in summary.groups) for summary in summaries.values()],
            pa.int64(),
        )

    return pa.table(
        {
            "trial": pa.array(list(summaries), pa.string()),
            "case_name": pa.array([summary.case for summary in summaries.values()], pa.string()),
            **{
                field: pa.array([plan(name, field) for name in summaries], pa.int64())
                for field in ("replicate", "block", "position", "whole_plot")
            },
            "started_wall": pa.array([summary.started_wall for summary in summaries.values()], pa.float64()),
            "window_from_ns": pa.array([summary.window_ns[0] for summary in summaries.values()], pa.int64()),
            "window_to_ns": pa.array([summary.window_ns[1] for summary in summaries.values()], pa.int64()),
            "interval_ns": pa.array([summary.interval_ns for summary in summaries.values()], pa.int64()),
            **{field: total(field) for field in ("due", "begun", "ok", "failed", "dropped", "waiting")},
        }
    )


def _groups(summaries: dict[str, TrialSummary]) -> pa.Table:
    rows = []
    for name, summary in summaries.items():
        for index, group in enumerate(summary.groups):
            plain = group.model_dump()
            texts = {
                key: json.dumps(plain.pop(key)) for key in ("errors", "status", "checks_failed", "steps")
            }
            rows.append(
                {
                    "trial": name,
                    "case_name": summary.case,
                    "group": index,
                    "group_name": plain.pop("name"),
                    **plain,
                    **texts,
                }
            )
    if not rows:
        fields = [
            ("trial", pa.string()),
            ("case_name", pa.string()),
            ("group", pa.uint16()),
            ("group_name", pa.string()),
        ]
        return pa.schema(fields).empty_table()
    return pa.Table.from_pylist(rows)


def _verdicts(run: RunDir) -> pa.Table:
    found = Findings.read(run.findings_path).trials if run.findings_path.is_file() else ()
    texts: dict[str, Callable[[Any], str]] = {
        "trial": lambda one: str(one.trial),
        "case_name": lambda one: str(one.case),
        "instrument": lambda one: str(one.verdict.instrument),
        "server": lambda one: str(one.verdict.server),
        "reasons": lambda one: "\n".join(one.verdict.reasons),
        "remedy": lambda one: str(one.verdict.remedy),
    }
    return pa.table(
        {name: pa.array([text(one) for one in found], pa.string()) for name, text in texts.items()}
    )
