"""report.xlsx: every formula carries svload's value, strings stay strings, and the
sheets are the study's own tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp, isclose, log
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from openpyxl.worksheet.formula import ArrayFormula

from svload.model.request_errors import ERRORS
from svload.report.sheets.book import Book, unique_headers
from svload.report.sheets.rows import VARIABLES
from svload.store import read_trial

pytestmark = pytest.mark.look

Cells = dict[str, Any]


@cache
def workbook(path: Path, values: bool) -> openpyxl.Workbook:
    """Loading takes a second: once a file is enough."""
    return openpyxl.load_workbook(path, data_only=values)


def sheet_rows(path: Path, name: str, head: int, values: bool = True) -> list[Cells]:
    """The rows of a table as header → cell value."""
    sheet = workbook(path, values)[name]
    rows = list(sheet.iter_rows(min_row=head, values_only=True))
    end = next((at for at, row in enumerate(rows) if at and row[0] is None), len(rows))
    return [dict(zip(map(str, rows[0]), row, strict=True)) for row in rows[1:end]]


@pytest.fixture(scope="module")
def plain(reported: Callable[..., Any]) -> Any:
    return reported("plain")


def test_the_summary_is_live_and_carries_the_findings(plain: Any) -> None:
    path = plain.files["report.xlsx"]
    values, formulas = sheet_rows(path, "Summary", 2), sheet_rows(path, "Summary", 2, values=False)
    for case, shown, live in zip(plain.findings.cases, values, formulas, strict=True):
        assert shown["case"] == case.case
        if case.excluded is not None:
            continue
        median, mean = case.metrics["probe.response.p50"], case.metrics["probe.response.mean"]
        low, high = median.within
        wanted = {
            "probe: response p50, s": median.value,
            "low 95 %, s": low,
            "high 95 %, s": high,
            "probe: response mean, s": mean.value,
        }
        for header, number in wanted.items():
            assert number is not None
            assert isclose(shown[header], number, rel_tol=1e-9), header
            formula = live[header].text if isinstance(live[header], ArrayFormula) else live[header]
            # An end that a disturbance widens is no formula over the trials.
            assert "95 %" in header or str(formula).startswith("=")
        assert shown["trials that count"] == len(case.trials)


def test_a_trial_s_numbers_come_from_its_own_rows(plain: Any) -> None:
    """The formula's own arithmetic (SMALL at two ranks of the range it names) gives the findings' value."""
    path = plain.files["report.xlsx"]
    book = workbook(path, False)
    trials = sheet_rows(path, "Trials", 2, values=False)
    shown = sheet_rows(path, "Trials", 2)
    rows = list(book["probe rows"].iter_rows(min_row=2, values_only=True))
    checked = 0
    for trial, live, value in zip(plain.findings.trials, trials, shown, strict=True):
        for stat, p in {"p50": 0.5, "p90": 0.9, "p95": 0.95}.items():
            estimate = trial.metrics[f"probe.response.{stat}"]
            if estimate.value is None:
                continue
            inside, rank = live[f"probe: response {stat}, s"].removeprefix("=SMALL(").split(",INT(", 1)
            assert f"*{p}+1/3" in rank
            first, last = (int(part.rsplit("$", 1)[1]) for part in inside.split("!")[1].split(":"))
            held = sorted(row[7] for row in rows[first - 2 : last - 1] if row[7] is not None)
            every = [*held, *[1e9] * (value["probe: due"] - len(held))]
            expected = np.quantile(every, p, method="median_unbiased")
            assert isclose(expected, estimate.value, rel_tol=1e-9)
            assert isclose(value[f"probe: response {stat}, s"], estimate.value, rel_tol=1e-9)
            assert value["probe: ok"] == len(held)
            checked += 1
    assert checked >= 2 * len(trials)


def test_bucket_tables_stand_for_groups_without_rows(plain: Any) -> None:
    path = plain.files["report.xlsx"]
    buckets = sheet_rows(path, "bucket tables", 1)
    for trial, shown in zip(plain.findings.trials, sheet_rows(path, "Trials", 2), strict=True):
        mine = [row for row in buckets if row["trial"] == trial.trial and row["group"] == "background"]
        assert mine[-1]["cumulated"] == sum(row["ok requests"] for row in mine) == shown["background: ok"]
        n, estimate = shown["background: due"], trial.metrics["background.response.p99"]
        place = min((n + 1 / 3) * 0.99 + 1 / 3, n)
        if estimate.value is not None:
            low, high = (
                mine[sum(row["cumulated"] < rank for row in mine)]["middle_s"]
                for rank in (int(place), min(int(place) + 1, mine[-1]["cumulated"]))
            )
            assert isclose(low + (place - int(place)) * (high - low), estimate.value, rel_tol=1e-9)


def test_probe_rows_hold_every_request_with_curl_s_eleven_variables(plain: Any) -> None:
    assert len(VARIABLES) == 11
    rows = sheet_rows(plain.files["report.xlsx"], "probe rows", 1)
    for trial in plain.findings.trials[:2]:
        data = read_trial(plain.run.trial(trial.trial))
        mine = [row for row in rows if row["trial"] == trial.trial]
        assert (
            len(mine) == len(data.samples["due_ns"]) == data.summary.groups[data.group_index("probe")].begun
        )
        assert [row["size_download"] for row in mine] == data.samples["body_bytes"].tolist()
        total = (data.samples["done_ns"] - data.samples["begun_ns"]) / 1e9
        assert np.allclose([row["time_total"] for row in mine], total, rtol=0, atol=0.51e-6)
        for row in mine[:20]:
            assert (
                row["time_namelookup"]
                <= row["time_connect"]
                <= row["time_pretransfer"]
                <= row["time_starttransfer"]
                <= row["time_total"]
            )


def test_a_failed_request_has_no_response_time_and_still_counts(reported: Callable[..., Any]) -> None:
    rows = sheet_rows(reported("mixed").files["report.xlsx"], "probe rows", 1)
    failed = [row for row in rows if row["case"] == "TC2" and row["error"] != "none"]
    assert failed
    assert {row["error"] for row in failed} <= set(ERRORS)
    assert all(row["response_s"] is None for row in failed)


def test_one_sheet_a_comparison_with_the_pairs_and_the_paper_s_formula(plain: Any) -> None:
    path = plain.files["report.xlsx"]
    for comparison in plain.run.lock().comparisons:
        claims = [claim for claim in plain.findings.claims if claim.name.startswith(comparison.name)]
        values = sheet_rows(path, comparison.name, 3)
        formulas = sheet_rows(path, comparison.name, 3, values=False)
        assert [(row["baseline case"], row["treatment case"]) for row in values] == [
            pair for claim in claims for pair in claim.pairs
        ]
        for row, live in zip(values, formulas, strict=True):
            assert isclose(row["ratio"], row["treated"] / row["baseline"], rel_tol=1e-9)
            assert live["ratio"].startswith("=")
            before, after = row["baseline"], row["treated"]
            assert isclose(
                row["(before − after) / max, as in the paper"],
                (before - after) / max(before, after),
                rel_tol=1e-9,
            )
        ratios = [row["ratio"] for row in values if row["treatment"] == claims[0].treatment]
        assert claims[0].ratio.value is not None
        assert isclose(exp(sum(map(log, ratios)) / len(ratios)), claims[0].ratio.value, rel_tol=1e-6)


@pytest.mark.parametrize("name", ["hostile", "mixed", "refused", "one", "overloaded", "unmeasured"])
def test_no_formula_without_value_and_no_string_became_one(reported: Callable[..., Any], name: str) -> None:
    found = reported(name)
    path = found.files["report.xlsx"]
    live, values = workbook(path, False), workbook(path, True)
    names = {case.case for case in found.findings.cases} | {
        level for case in found.findings.cases for level in case.levels.values()
    }
    for sheet in live.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                text = cell.value.text if isinstance(cell.value, ArrayFormula) else cell.value
                if cell.data_type == "f" or isinstance(cell.value, ArrayFormula):
                    assert text not in names
                    cached = values[sheet.title][cell.coordinate].value
                    assert isinstance(cached, (int, float)), (sheet.title, cell.coordinate, text)


def test_hostile_names_arrive_as_they_are(reported: Callable[..., Any]) -> None:
    found = reported("hostile")
    rows = sheet_rows(found.files["report.xlsx"], "Summary", 2)
    assert [row["case"] for row in rows] == [case.case for case in found.findings.cases]


def test_sheet_names_are_what_excel_allows(tmp_path: Path) -> None:
    book = Book(tmp_path / "names.xlsx")
    wanted = ["a/b:c*?[x]\\", "A b c x", "", "History", "'quoted'", "x" * 40, "x" * 41, "🦔" * 20, "Ω\u0007"]
    sheets = [book.sheet(name) for name in wanted]
    book.close()
    names = openpyxl.load_workbook(tmp_path / "names.xlsx").sheetnames
    assert names == [sheet.name for sheet in sheets]
    assert len({name.lower() for name in names}) == len(wanted)
    assert all(0 < len(name.encode("utf-16-le")) // 2 <= 31 for name in names)


def test_tables_are_named_after_their_sheets_frozen_and_drawn(plain: Any) -> None:
    book = workbook(plain.files["report.xlsx"], False)
    named = {name: sheet.title for sheet in book.worksheets for name in sheet.tables}
    wanted = {"svload_Summary": "Summary", "svload_Trials": "Trials", "svload_probe_rows": "probe rows"}
    assert wanted.items() <= named.items()
    for sheet in book.worksheets:
        assert bool(sheet.tables) is (sheet.freeze_panes is not None) is (sheet.title != "Guide"), sheet.title
        assert bool(sheet.tables) is bool(sheet.print_title_rows), sheet.title
    drawn = {sheet.title for sheet in book.worksheets if sheet._charts}
    assert drawn == {"Summary", "CPU and memory", *(one.name for one in plain.run.lock().comparisons)}


def test_the_long_tables_stand_beside_it_as_parquet(plain: Any) -> None:
    rows = sheet_rows(plain.files["report.xlsx"], "probe rows", 1)
    beside = pq.read_table(plain.files["probe.parquet"]).to_pylist()
    assert len(rows) == len(beside) > 0
    totals = [
        sorted(row["time_total"] for row in held if row["time_total"] is not None) for held in (rows, beside)
    ]
    assert np.allclose(*totals, rtol=0, atol=0.51e-6)  # curl's own microseconds
    assert {row["trial"] for row in rows} == {row["trial"] for row in beside}


def test_headings_of_a_table_are_unique_whatever_their_case() -> None:
    assert unique_headers(["a", "A", "a", "", "x" * 400]) == ["a", "A 2", "a 3", "–", "x" * 250]


def test_more_requests_than_a_workbook_holds_become_bucket_tables_and_it_says_so(
    plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from svload.report.data.gather import gather
    from svload.report.sheets import rows
    from svload.report.sheets.workbook import write_workbook

    monkeypatch.setattr(rows, "MOST_PROBE_ROWS", 1000)
    monkeypatch.setattr(rows, "MOST_RESPONSES", 700)
    monkeypatch.setattr(rows, "MOST_ROWS", 500)
    write_workbook(gather(plain.run, plain.findings), tmp_path / "small.xlsx")
    book = openpyxl.load_workbook(tmp_path / "small.xlsx", data_only=True)
    for kind, most in (("probe rows", 1000), ("response times", 700)):
        held = [sheet for sheet in book.worksheets if sheet.title.startswith(kind)]
        assert len(held) > 1
        assert sum(sheet.max_row - 1 for sheet in held) <= most
        assert all(sheet.max_row <= 500 for sheet in held)
    guide = " ".join(str(row[1]) for row in book["Guide"].iter_rows(max_col=2, values_only=True) if row[1])
    assert "it holds the response times that count" in guide
    assert "Bucket tables stand for" in guide
    trials = sheet_rows(tmp_path / "small.xlsx", "Trials", 2)
    for trial, shown in zip(plain.findings.trials, trials, strict=True):
        value = trial.metrics["probe.response.p50"].value
        assert value is not None
        assert isclose(shown["probe: response p50, s"], value, rel_tol=1e-9)
