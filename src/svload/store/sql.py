"""SQL over a run: `svload query RUN "select …"`. Sealed trials only; only the run's tables are accessible."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from svload.model.columns import HISTOGRAM_METRICS
from svload.model.environment import free_memory_bytes
from svload.model.errors import SvloadError, fail
from svload.model.outputs import output
from svload.model.request_errors import ERRORS
from svload.model.results import Belief, Findings, TrialResult, TrialSummary
from svload.model.visible import FORMULA, is_decoded, plain_cell
from svload.store.interrupts import interruptibly
from svload.store.layout import RunDir
from svload.store.load_time import TIMED_SQL, WITHOUT_TURNS_SQL, Turns
from svload.store.parquet import TABLES, read_table, schema_of

VIEWS = {
    "cases": "one row per case: case_name, excluded, and a column for each factor",
    "trials": "one row per sealed trial: trial, case_name, replicate, block, position, whole_plot, "
    "started_wall, window, what was due, begun, ok, failed",
    "groups": "one row per trial and traffic group: every total of the group's summary",
    "intervals": "one row per trial, group, step and interval: what was due, begun, ok, failed, dropped "
    "and completed in it, and its bytes",
    "histograms": "one row per trial, group, step, interval, metric and bucket; metric_name is the "
    "metric's name",
    "samples": "one row per request, of the groups that keep rows; error_name says what failed; "
    "response_ns is the time from due to done, without the time between its side's turns; null: it never "
    "ended",
    "probe": "the same requests in curl's names and units: times in s from the request's begin, sizes in "
    "bytes; null where it did not happen",
    "asked": "one row per trial, group and feeder row: how often the feeder's row was requested",
    "monitors": "one row per reading: trial, offset_ns (the first just before the load, below zero), "
    "service, monitor, entity, metric, value",
    "verdicts": "one row per trial: instrument, server, reasons, remedy; empty before the analysis",
    "checks": "one row per trial and check: check_name, grade, value and limit in the check's own unit, "
    "sentence, remedy, measured (false: its grade means nothing), who (the program that caused it); empty "
    "before the analysis",
    "metrics": "one row per judged metric of a trial: value, low and high in base units, n, n_eff, weak; "
    "why it is null, as a code, with the reason in words and the effective requests that it would need; "
    "its own grade, how far below and above it the true value may lie (shares of it; null: unknown), the "
    "checks that doubt it (doubts, the worst first), as_measured with the share of requests that was "
    "left_out; empty before the analysis",
}
"""View → what one row is. All views have `trial` and `case_name`; those by group have `group_name`."""


ROWS_AT_ONCE = 4096
"""Rows fetched without a chance to interrupt: some milliseconds."""
_UNREAD = "reading the stream registered as"
"""What DuckDB's error contains if Arrow cannot read a table's file."""
MOST_ROWS = 100_000
"""The most rows of an answer; more need a file (`svload export`)."""


def query(run: RunDir, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return column names and rows of one SQL statement over the views (`VIEWS`).

    It may use half of the free memory, and can access no file, network or extension. Raise
    SvloadError: usage for a mistake in the statement (with DuckDB's message) and for an answer of more than
    `MOST_ROWS` rows, run-damaged.
    """
    hint = f"The tables are {', '.join(VIEWS)}; “describe trials” lists a table's columns."
    if not is_decoded(sql):
        raise fail("usage", reason="the statement is not UTF-8 text", hint=hint)
    with _views(run) as connection:
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        half_mib = max((free_memory_bytes() or 2 << 30) >> 21, 64)
        connection.execute(f"SET memory_limit = '{half_mib}MiB'")
        connection.execute("SET lock_configuration = true")
        try:
            found = interruptibly(connection, lambda stop: _answer(connection, sql, stop))
            if found is None:
                raise fail("usage", reason="the statement is empty", hint=hint)
            return found
        except duckdb.Error as why:
            text = str(why).partition("\nLINE ")[0].strip().rstrip(".")
            if _UNREAD in text:
                raise fail("run-damaged", path=run.path, reason=f"a table cannot be read ({text})") from why
            raise fail("usage", reason=text, hint=hint) from why


def _answer(
    connection: duckdb.DuckDBPyConnection, sql: str, stop: threading.Event
) -> tuple[list[str], list[tuple[Any, ...]]] | None:
    if len(connection.extract_statements(sql)) > 1:
        raise fail(
            "usage", reason="it is more than one statement", hint="Ask for each with a query of its own."
        )
    result = connection.execute(sql)
    if result is None:
        return None
    names = [column[0] for column in result.description or []]
    rows: list[tuple[Any, ...]] = []
    while not stop.is_set() and (some := result.fetchmany(ROWS_AT_ONCE)):
        rows += some
        if len(rows) > MOST_ROWS:
            hint = "Ask for less (limit, group by), or write the tables to files with svload export."
            raise fail("usage", reason=f"the answer has more than {MOST_ROWS:,} rows", hint=hint)
    return names, rows


def export_views(
    run: RunDir, folder: Path, kind: Literal["csv", "parquet"], views: Iterable[str] = VIEWS
) -> tuple[Path, ...]:
    """Write each view as `<folder>/<view>.<kind>` and return the files; CSV has a header line, empty cells
    for null, and no cell that a spreadsheet would take for a formula.

    Raise SvloadError run-damaged; OSError if the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with _views(run) as connection:
        for view in views:
            path = folder / f"{view}.{kind}"
            try:
                with output(path) as fresh:
                    target = str(fresh).replace("'", "''")
                    table = f"({_plain_cells(connection, view)})" if kind == "csv" else view
                    copy = f"copy {table} to '{target}' ({_COPY[kind]})"
                    interruptibly(connection, lambda stop, copy=copy: connection.execute(copy))  # type: ignore[misc]
            except duckdb.IOException as why:
                raise _refused(path, str(why)) from why
            except (duckdb.Error, pa.ArrowException) as why:
                raise fail(
                    "run-damaged", path=run.path, reason=f"the view {view} cannot be read ({why})"
                ) from why
            files.append(path)
    return tuple(files)


def _refused(path: Path, text: str) -> OSError:
    """Return the system's error that DuckDB's text, which may be JSON, names; without one that text."""
    named = [number for number in errno.errorcode if os.strerror(number) in text]
    if not named:
        return OSError(text)
    number = max(named, key=lambda one: len(os.strerror(one)))
    return OSError(number, os.strerror(number), str(path))


def _plain_cells(connection: duckdb.DuckDBPyConnection, view: str) -> str:
    """Return SQL for a view whose names and texts no spreadsheet takes for a formula (`plain_cell`)."""
    columns = connection.execute(f"select column_name, column_type from (describe {view})").fetchall()
    return f"select {', '.join(_plain_column(name, kind) for name, kind in columns)} from {view}"


def _plain_column(name: str, kind: str) -> str:
    column, shown = (f'"{one.replace(chr(34), chr(34) * 2)}"' for one in (name, plain_cell(name)))
    if kind != "VARCHAR":
        return f"{column} as {shown}"
    begins = ", ".join(f"chr({ord(sign)})" for sign in FORMULA)
    is_formula = f"left({column}, 1) in ({begins}) and try_cast({column} as double) is null"
    return f"case when {is_formula} then chr(39) || {column} else {column} end as {shown}"


_COPY = {
    "csv": "format csv, header true, use_tmp_file false",
    "parquet": "format parquet, compression zstd, use_tmp_file false",
}
"""Without a temporary file of DuckDB's own, which would be left behind if the disk is full."""


@contextmanager
def _views(run: RunDir) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection to a database in memory that has `VIEWS`."""
    connection = duckdb.connect(":memory:")
    try:
        connection.execute("SET enable_progress_bar = false")  # which comes after two seconds, on stdout
        _register(connection, run)
        yield connection
    finally:
        connection.close()


def _register(connection: Any, run: RunDir) -> None:
    lock = run.lock()
    names = run.sealed_trials()
    summaries = {name: TrialSummary.read(run.trial(name).summary) for name in names}
    connection.register("cases", _cases(lock))
    connection.register("trials", _trials(run, summaries))
    connection.register("groups", _groups(summaries))
    findings = Findings.read(run.findings_path) if run.findings_path.is_file() else None
    judged = findings.trials if findings else ()
    connection.register("verdicts", _verdicts(judged))
    connection.register("checks", pa.Table.from_pylist(list(_checks(judged)), _CHECKS))
    connection.register("metrics", pa.Table.from_pylist(list(_metrics(judged)), _METRICS))
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
    connection.register("_turns", _turns(summaries))
    turned = any(summary.turns is not None for summary in summaries.values())
    if turned:
        waiting = [
            name for name in names if summaries[name].turns and _waited(run.trial(name).table("samples"))
        ]
        prompt = [name for name in names if name not in waiting]
        connection.register("_waiting", _dataset(run, waiting, "samples"))
        connection.register("_prompt", _dataset(run, prompt, "samples"))
    connection.execute(f"create view _timed as {TIMED_SQL if turned else _TIMED}")
    by_group = 'join groups using (trial, "group")'
    picked = "trial, groups.case_name, groups.group_name"
    for view, select in {
        "intervals": f'select {picked}, one.* exclude (trial, "group") from _intervals one {by_group}',
        "histograms": f'select {picked}, metric_name, one.* exclude (trial, "group") from _histograms one '
        f"{by_group} left join _metric using (metric)",
        "samples": f'select {picked}, error_name, response_ns, one.* exclude (trial, "group", response_ns) '
        f"from _timed one {by_group} left join _error using (error)",
        "probe": f"select {picked}, {_PROBE} from _timed one {by_group} left join _error using (error)",
        "asked": f'select {picked}, one.* exclude (trial, "group") from _rows one {by_group}',
        "monitors": "select trial, trials.case_name, one.* exclude (trial) from _monitors one join trials "
        "using (trial)",
    }.items():
        connection.execute(f"create view {view} as {select}")


def _waited(samples: Path) -> bool:
    """Return whether a request waited for a slot. A table that cannot be read counts: the view reports it."""
    try:
        read = read_table(samples, ("due_ns", "ready_ns"))
    except SvloadError:
        return True
    return bool(np.any((read["ready_ns"] >= 0) & (read["ready_ns"] != read["due_ns"])))


def _dataset(run: RunDir, names: Sequence[str], table: str) -> ds.Dataset:
    """Return one table of all trials, read from Parquet on demand, with the trial's name; without copying."""
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
        name = factor.name
        while name.lower() in map(str.lower, columns):  # names of columns are alike in any case
            name = f"factor_{name}"
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


def _turns(summaries: dict[str, TrialSummary]) -> pa.Table:
    """Return the turns of each trial that has some, in real time."""
    rows = []
    for name, summary in summaries.items():
        if summary.turns is not None:
            turns = Turns.of_record(summary.turns)
            lengths = turns.end_ns - turns.begin_ns
            before = np.cumsum(lengths) - lengths
            rows += [
                {"of_trial": name, "begin_ns": begin, "length_ns": length, "before_ns": already}
                for begin, length, already in zip(
                    turns.begin_ns.tolist(), lengths.tolist(), before.tolist(), strict=True
                )
            ]
    fields = [
        ("of_trial", pa.string()),
        *((name, pa.int64()) for name in ("begin_ns", "length_ns", "before_ns")),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def _groups(summaries: dict[str, TrialSummary]) -> pa.Table:
    rows = []
    for name, summary in summaries.items():
        for index, group in enumerate(summary.groups):
            plain = group.model_dump()
            texts = {
                key: json.dumps(plain.pop(key))
                for key in ("errors", "status", "checks_failed", "steps", "http2", "first_failure")
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


def _verdicts(judged: Sequence[TrialResult]) -> pa.Table:
    texts: dict[str, Callable[[TrialResult], str]] = {
        "trial": lambda one: one.trial,
        "case_name": lambda one: one.case,
        "instrument": lambda one: one.verdict.instrument,
        "server": lambda one: one.verdict.server,
        "reasons": lambda one: "\n".join(one.verdict.reasons),
        "remedy": lambda one: one.verdict.remedy,
    }
    return pa.table(
        {name: pa.array([text(one) for one in judged], pa.string()) for name, text in texts.items()}
    )


_TRIAL = [("trial", pa.string()), ("case_name", pa.string())]
_CHECKS = pa.schema(
    [
        *_TRIAL,
        *((name, pa.string()) for name in ("check_name", "grade")),
        *((name, pa.float64()) for name in ("value", "limit")),
        *((name, pa.string()) for name in ("sentence", "remedy")),
        ("measured", pa.bool_()),
        ("who", pa.string()),
    ]
)
_METRICS = pa.schema(
    [
        *_TRIAL,
        ("metric", pa.string()),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("n_eff", pa.float64()),
        ("weak", pa.bool_()),
        ("reason", pa.string()),
        ("why", pa.string()),
        ("need", pa.int64()),
        ("grade", pa.string()),
        *((name, pa.float64()) for name in ("below", "above")),
        ("doubts", pa.string()),
        *((name, pa.float64()) for name in ("as_measured", "left_out")),
    ]
)


def _checks(judged: Sequence[TrialResult]) -> Iterator[dict[str, Any]]:
    for one in judged:
        for check in one.verdict.checks:
            plain = check.model_dump()
            yield {"trial": one.trial, "case_name": one.case, "check_name": plain.pop("check"), **plain}


def _metrics(judged: Sequence[TrialResult]) -> Iterator[dict[str, Any]]:
    for one in judged:
        for name, estimate in one.metrics.items():
            belief = estimate.belief or Belief(grade="VALID")
            yield {
                "trial": one.trial,
                "case_name": one.case,
                "metric": name,
                **estimate.model_dump(exclude={"belief"}),
                **belief.model_dump(),
                "doubts": ", ".join(belief.doubts),
            }


def _seconds(name: str, since: str = "") -> str:
    """Return SQL for a stamp in seconds (since another), null if either did not happen."""
    if not since:
        return f"case when {name} >= 0 then {name} / 1e9 end"
    return f"case when {name} >= 0 and {since} >= 0 then ({name} - {since}) / 1e9 end"


_TIMED = f"select *, {WITHOUT_TURNS_SQL} as response_ns from _samples one"
_PROBE = ", ".join(
    f"{sql} as {name}"
    for name, sql in {
        "vu": "vu",
        "seq": "seq",
        "due_s": "due_ns / 1e9",
        "response_s": "response_ns / 1e9",
        "time_namelookup": _seconds("lookup_ns"),
        "time_connect": _seconds("connect_ns"),
        "time_appconnect": _seconds("appconnect_ns"),
        "time_pretransfer": _seconds("pretransfer_ns"),
        "time_redirect": _seconds("redirect_ns"),
        "time_starttransfer": _seconds("first_byte_ns", "begun_ns"),
        "time_total": _seconds("done_ns", "begun_ns"),
        "size_request": "request_bytes",
        "size_header": "header_bytes",
        "size_download": "one.body_bytes",
        "speed_download": "case when done_ns > begun_ns then one.body_bytes / ((done_ns - begun_ns) / 1e9) end",
        "http_code": "one.status",
        "error_name": "error_name",
        "reused": "reused = 1",
        "tls": "case tls when 0 then 'none' when 1 then 'full' else 'resumed' end",
    }.items()
)
"""Columns of the view `probe`: curl's variables as in docs/method.md §6, with the response time."""
