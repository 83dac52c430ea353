"""report.xlsx: formulas contain svload's value, strings stay strings, pages are readable."""

from __future__ import annotations

from functools import cache
from math import exp, isclose, log
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from openpyxl.chart import BarChart, LineChart
from tests.evolve import evolve
from tests.report.conftest import Reporter, table_of

from svload.model.request_errors import ERRORS
from svload.report.data.gather import gather
from svload.report.sheets import book as layout
from svload.report.sheets import data
from svload.report.sheets.book import Book, unique_headers, wide
from svload.report.sheets.data import VARIABLES
from svload.report.sheets.workbook import write_workbook
from svload.store import read_trial

pytestmark = pytest.mark.look


@cache
def workbook(path: Path, values: bool) -> openpyxl.Workbook:
    """Return the workbook: loading takes a second, so only once per file."""
    return openpyxl.load_workbook(path, data_only=values)


def sheet_rows(path: Path, name: str, head: int, values: bool = True) -> list[dict[str, Any]]:
    return table_of(workbook(path, values)[name], head)


@pytest.fixture(scope="module")
def plain(reported: Reporter) -> Any:
    return reported("plain")


def test_the_summary_is_live_and_carries_the_findings(plain: Any) -> None:
    path = plain.files["report.xlsx"]
    values, formulas = sheet_rows(path, "Summary", 2), sheet_rows(path, "Summary", 2, values=False)
    for case, shown, live in zip(plain.findings.cases, values, formulas, strict=True):
        assert shown["case"] == case.case
        if case.excluded is not None:
            continue
        median, mean = case.metrics["probe.response.p50"], case.metrics["probe.response.mean"]
        wanted = {"probe: response p50, s": median.value, "probe: response mean, s": mean.value}
        wanted |= zip(("low 95 %, s", "high 95 %, s"), median.within, strict=True)
        for header, number in wanted.items():
            assert isclose(shown[header], number, rel_tol=1e-9), header
            assert ("95 %" in header) is not str(live[header]).startswith("=")
        assert shown["trials that count"] == len(case.trials)


def test_a_throughput_over_less_than_the_kept_window_is_no_formula(plain: Any, tmp_path: Path) -> None:
    """As of a group whose work was done before the others' time was over."""
    first, *others = plain.findings.trials
    found = first.metrics["probe.throughput"]
    soon = evolve(first, metrics={**first.metrics, "probe.throughput": evolve(found, value=10 * found.value)})
    path = tmp_path / "report.xlsx"
    write_workbook(gather(plain.run, evolve(plain.findings, trials=(soon, *others))), path)
    cells = [row["probe: throughput, 1/s"] for row in sheet_rows(path, "Trials", 2, values=False)]
    assert isclose(cells[0], 10 * found.value) and all(str(cell).startswith("=") for cell in cells[1:])


def test_probe_rows_hold_every_request_with_curl_s_eleven_variables(plain: Any) -> None:
    assert len(VARIABLES) == 11
    rows = sheet_rows(plain.files["report.xlsx"], "probe rows", 1)
    for trial in plain.findings.trials[:2]:
        data = read_trial(plain.run.trial(trial.trial))
        mine = [row for row in rows if row["trial"] == trial.trial]
        probe = data.summary.groups[data.group_index("probe")]
        assert len(mine) == len(data.samples["due_ns"]) == probe.begun
        assert [row["size_download"] for row in mine] == data.samples["body_bytes"].tolist()
        total = (data.samples["done_ns"] - data.samples["begun_ns"]) / 1e9
        assert np.allclose([row["time_total"] for row in mine], total, rtol=0, atol=0.51e-6)
    beside = pq.read_table(plain.files["probe.parquet"]).to_pylist()
    assert len(rows) == len(beside) > 0
    assert {row["trial"] for row in rows} == {row["trial"] for row in beside}
    totals = [
        sorted(row["time_total"] for row in held if row["time_total"] is not None) for held in (rows, beside)
    ]
    assert np.allclose(*totals, rtol=0, atol=0.51e-6)  # curl's own microseconds


def test_a_failed_request_has_no_response_time_and_still_counts(reported: Reporter) -> None:
    rows = sheet_rows(reported("mixed").files["report.xlsx"], "probe rows", 1)
    failed = [row for row in rows if row["case"] == "TC2" and row["error"] != "none"]
    assert {row["response_s"] for row in failed} == {None}
    assert {row["error"] for row in failed} <= set(ERRORS)


def test_one_sheet_a_comparison_with_the_pairs_and_the_paper_s_formula(plain: Any) -> None:
    path = plain.files["report.xlsx"]
    for comparison in plain.run.lock().comparisons:
        claims = [claim for claim in plain.findings.claims if claim.name.startswith(comparison.name)]
        values = sheet_rows(path, comparison.name, 3)
        formulas = sheet_rows(path, comparison.name, 3, values=False)
        shown = [(row["baseline case"], row["treatment case"]) for row in values]
        assert shown == [pair for claim in claims for pair in claim.pairs]
        for row, live in zip(values, formulas, strict=True):
            before, after = row["baseline"], row["treated"]
            assert live["ratio"].startswith("=") and isclose(row["ratio"], after / before, rel_tol=1e-9)
            lost = (before - after) / max(before, after)
            assert isclose(row["(before − after) / max, as in the paper"], lost, rel_tol=1e-9)
        ratios = [row["ratio"] for row in values if row["treatment"] == claims[0].treatment]
        assert isclose(exp(sum(map(log, ratios)) / len(ratios)), claims[0].ratio.value, rel_tol=1e-6)


@pytest.mark.parametrize("name", ["hostile", "mixed", "refused", "one", "overloaded", "unmeasured"])
def test_no_formula_without_value_and_no_string_became_one(reported: Reporter, name: str) -> None:
    found = reported(name)
    path = found.files["report.xlsx"]
    live, values = workbook(path, False), workbook(path, True)
    names = {name for case in found.findings.cases for name in (case.case, *case.levels.values())}
    for sheet in live.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    assert cell.value not in names
                    cached = values[sheet.title][cell.coordinate].value
                    assert isinstance(cached, (int, float)), (sheet.title, cell.coordinate, cell.value)


def test_a_single_failure_is_not_rounded_away(plain: Any) -> None:
    """From 99.95 % on, and below 0.05 %, a share has more than the usual one decimal."""
    sheet = workbook(plain.files["report.xlsx"], False)["Trials"]
    heads = [cell.value for cell in sheet[2]]
    share = sheet.cell(3, heads.index("probe: success rate") + 1)
    assert share.number_format == "[<0.0005]0.0####%;[<0.9995]0.0%;0.0####%"


def test_sheet_names_are_what_excel_allows(tmp_path: Path) -> None:
    book = Book(tmp_path / "names.xlsx")
    wanted = ["a/b:c*?[x]\\", "A b c x", "", "History", "'quoted'", "x" * 40, "x" * 41, "🦔" * 20, "Ω\u0007"]
    sheets = [book.sheet(name) for name in wanted]
    book.close()
    names = openpyxl.load_workbook(tmp_path / "names.xlsx").sheetnames
    assert names == [sheet.name for sheet in sheets]
    assert len({name.lower() for name in names}) == len(wanted)
    assert all(0 < len(name.encode("utf-16-le")) // 2 <= 31 for name in names)


def test_a_footer_keeps_its_fields_whatever_the_run_is_called(tmp_path: Path) -> None:
    book = Book(tmp_path / "footer.xlsx", "a" * 79 + "&b")
    book.sheet("sheet").page()
    book.close()
    footer = openpyxl.load_workbook(tmp_path / "footer.xlsx")["sheet"].oddFooter
    assert (footer.left.text, footer.center.text) == ("a" * 79 + "&&", "sheet")


def test_a_killed_writer_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    book = Book(tmp_path / "some.xlsx")
    book.sheet("one")
    book.close()
    assert openpyxl.load_workbook(tmp_path / "some.xlsx").sheetnames == ["one"]


def test_tables_are_named_after_their_sheets_frozen_and_drawn(plain: Any) -> None:
    book = workbook(plain.files["report.xlsx"], False)
    named = {name: sheet.title for sheet in book.worksheets for name in sheet.tables}
    wanted = {"svload_Summary": "Summary", "svload_Trials": "Trials", "svload_probe_rows": "probe rows"}
    assert wanted.items() <= named.items()
    for sheet in book.worksheets:
        assert bool(sheet.tables) is (sheet.freeze_panes is not None) is (sheet.title != "Guide"), sheet.title
        assert bool(sheet.tables) is bool(sheet.print_title_rows), sheet.title
    drawn = {sheet.title for sheet in book.worksheets if sheet._charts}
    assert drawn == {"Summary", *(one.name for one in plain.run.lock().comparisons)}


def test_headings_of_a_table_are_unique_whatever_their_case() -> None:
    assert unique_headers(["a", "A", "a", "", "x" * 400]) == ["a", "A 2", "a 3", "–", "x" * 250]


def test_too_many_requests_are_left_out(plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_PROBE_ROWS", 1000)
    write_workbook(gather(plain.run, plain.findings), tmp_path / "small.xlsx")
    book = openpyxl.load_workbook(tmp_path / "small.xlsx", data_only=True)
    assert 500 < book["probe rows"].max_row - 1 <= 1000
    guide = " ".join(str(row[1]) for row in book["Guide"].iter_rows(max_col=2, values_only=True) if row[1])
    assert "probe.parquet has those of" in guide


def test_an_axis_is_logarithmic_only_where_all_values_can_stand_on_it() -> None:
    assert wide([0.001, 1.0])
    assert not any(map(wide, ([0.5, 1.0], [0.001, None, 1.0], [0.0, 1.0], [])))


def _widths(sheet: Any) -> dict[int, float]:
    """Return column → width in characters; openpyxl reads equal neighbours as one."""
    each = sheet.column_dimensions.values()
    return {place: round(one.width - 0.71, 2) for one in each for place in range(one.min, one.max + 1)}


def test_no_heading_is_cut(plain: Any) -> None:
    for sheet in workbook(plain.files["report.xlsx"], True).worksheets:
        widths = _widths(sheet)
        for table in sheet.tables.values():
            for cell in sheet[table.ref][0]:
                width = widths[cell.column]
                longest = max(map(len, str(cell.value).split()))
                assert longest <= width, f"{sheet.title}: {cell.value!r} in {width}"
                points = sheet.row_dimensions[cell.row].height or layout.LINE_POINTS
                assert points >= layout.header_height([str(cell.value)], [width]), (sheet.title, cell.value)


def test_medians_have_markers_with_intervals(plain: Any) -> None:
    values, book = (workbook(plain.files["report.xlsx"], one) for one in (True, False))
    chart = book["Summary"]._charts[0]
    assert isinstance(chart, LineChart) and len(chart.series) == 3
    medians = [case.metrics["probe.response.p50"].value for case in plain.findings.cases]
    assert (chart.y_axis.scaling.logBase == 10) is wide(medians)
    for comparison in plain.run.lock().comparisons:
        chart = book[comparison.name]._charts[0]
        assert isinstance(chart, BarChart) and chart.x_axis.crossesAt == 1
        shown = [str(cell.value) for row in values[comparison.name].iter_rows() for cell in row]
        assert "Columns start at 1, no difference" in " ".join(shown)
