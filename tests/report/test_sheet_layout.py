"""How the workbook looks: headings with units, rows as tall as their text, pages that can be
read, charts that don't mislead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, LineChart
from tests.evolve import evolve

from svload.report.data.gather import gather
from svload.report.sheets import book as layout
from svload.report.sheets.drawn import wide
from svload.report.sheets.workbook import write_workbook

pytestmark = pytest.mark.look

Reporter = Callable[[str], Any]


@pytest.fixture(scope="module")
def book(reported: Reporter) -> openpyxl.Workbook:
    return openpyxl.load_workbook(reported("plain").files["report.xlsx"], data_only=True)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("probe.response.p99.9", "probe: response p99.9, s"),
        ("probe.throughput", "probe: throughput, 1/s"),
        ("probe.success_rate", "probe: success rate"),
        ("backend.cpu.mean", "backend: CPU mean, cores"),
        ("backend.memory.max", "backend: memory max, bytes"),
        ("whatever", "whatever"),
    ],
)
def test_a_heading_carries_its_unit(key: str, told: str) -> None:
    assert layout.heading(key) == told


def test_a_row_is_as_tall_as_its_longest_text() -> None:
    assert layout.lines("one two three", 7) == 2
    assert layout.lines("a\nb", 80) == 2
    assert layout.lines("", 5) == 1
    assert layout.height([("short", 10), ("word " * 24, 20)]) == 5 * layout.LINE_POINTS
    assert layout.height([("x " * 9000, 10)]) <= 409
    assert layout.header_height(["response time", "case"], [14, 9]) == 2 * layout.LINE_POINTS, (
        "beside its filter button"
    )


def test_a_table_too_wide_to_read_on_one_page_takes_more() -> None:
    assert layout.pages_wide([20] * 10) == 1
    assert layout.pages_wide([20] * 30) == 3


def test_an_axis_is_logarithmic_only_where_all_values_can_stand_on_it() -> None:
    assert wide([0.001, 1.0])
    assert not wide([0.5, 1.0])
    assert not wide([0.001, None, 1.0])
    assert not wide([0.0, 1.0])
    assert not wide([])


def test_every_sheet_prints_landscape_to_the_page_with_its_name(book: openpyxl.Workbook) -> None:
    for sheet in book.worksheets:
        assert sheet.page_setup.orientation == "landscape", sheet.title
        assert sheet.sheet_properties.pageSetUpPr.fitToPage, sheet.title
        assert sheet.oddFooter.center.text == sheet.title
        assert sheet.oddFooter.right.text == "&P / &N"
        if (sheet.page_setup.fitToWidth or 1) > 1:
            assert sheet.print_title_cols, (
                f"{sheet.title}: the second page does not say whose numbers these are"
            )


def _widths(sheet: Any) -> dict[int, float]:
    """Column → width in characters; openpyxl reads equal neighbours as one."""
    return {
        column: round(found.width - 0.71, 2)
        for found in sheet.column_dimensions.values()
        for column in range(found.min, found.max + 1)
    }


def test_no_heading_and_no_sentence_is_cut(book: openpyxl.Workbook) -> None:
    for sheet in book.worksheets:
        widths = _widths(sheet)
        for table in sheet.tables.values():
            for cell in sheet[table.ref][0]:
                width = widths[cell.column]
                longest = max(map(len, str(cell.value).split()))
                assert longest <= width, f"{sheet.title}: {cell.value!r} in {width}"
                points = sheet.row_dimensions[cell.row].height or layout.LINE_POINTS
                assert points >= layout.header_height([str(cell.value)], [width]), (sheet.title, cell.value)
    merged = {
        (sheet.title, part.min_row): sum(
            _widths(sheet)[column] for column in range(part.min_col, part.max_col + 1)
        )
        for sheet in book.worksheets
        for part in sheet.merged_cells.ranges
    }
    long = 0
    for sheet in book.worksheets:
        widths = _widths(sheet)
        for row in sheet.iter_rows():
            for cell in row:
                if isinstance(cell.value, str) and cell.alignment.wrap_text and cell.row > 3:
                    width = merged.get((sheet.title, cell.row)) or widths[cell.column]
                    points = sheet.row_dimensions[cell.row].height or layout.LINE_POINTS
                    lines = layout.lines(cell.value, width * 1.25)
                    assert points >= layout.LINE_POINTS * lines, (sheet.title, cell.coordinate, cell.value)
                    long += lines > 1
    assert long > 5


def test_a_case_tells_which_checks_its_trials_failed(reported: Reporter) -> None:
    found = reported("mixed")
    sheet = openpyxl.load_workbook(found.files["report.xlsx"], data_only=True)["Summary"]
    rows = list(sheet.iter_rows(min_row=2, values_only=True))
    column = rows[0].index("doubts: in how many trials")
    told = {row[0]: row[column] for row in rows[1 : len(found.findings.cases) + 1]}
    assert "✗ the factor did not take effect, in 4 of 4 trials." in told["TC1"]
    assert all(len(text or "") < 300 for text in told.values())


def _chart(path: Path, sheet: str) -> Any:
    return openpyxl.load_workbook(path)[sheet]._charts[0]


def test_medians_are_markers_with_their_intervals_and_a_ratio_stands_on_one(
    reported: Reporter, book: openpyxl.Workbook
) -> None:
    found = reported("plain")
    path = found.files["report.xlsx"]
    chart = _chart(path, "Summary")
    assert isinstance(chart, LineChart)
    assert len(chart.series) == 3
    medians = [case.metrics["probe.response.p50"].value for case in found.findings.cases]
    assert (chart.y_axis.scaling.logBase == 10) is wide(medians)
    for comparison in found.run.lock().comparisons:
        chart = _chart(path, comparison.name)
        assert isinstance(chart, BarChart)
        assert chart.x_axis.crossesAt == 1
        shown = " ".join(
            str(cell.value) for row in book[comparison.name].iter_rows() for cell in row if cell.value
        )
        assert "Columns start at 1, no difference" in shown


def test_cases_far_apart_share_an_axis_and_one_without_median_is_no_marker_at_nought(
    reported: Reporter, tmp_path: Path
) -> None:
    found = reported("plain")
    gathered = gather(found.run, found.findings)

    def scaled(factor: float | None) -> Path:
        first, *rest = found.findings.cases
        metrics = dict(first.metrics)
        old = metrics["probe.response.p50"]
        new = [
            None if factor is None or one is None else one * factor for one in (old.value, old.low, old.high)
        ]
        values = dict(zip(("value", "low", "high"), new, strict=True))
        metrics["probe.response.p50"] = old.model_copy(update=values)
        cases = (evolve(first, metrics=metrics), *rest)
        findings = evolve(found.findings, cases=cases)
        path = tmp_path / f"{factor}.xlsx"
        write_workbook(replace(gathered, findings=findings), path)
        return path

    far = _chart(scaled(1000.0), "Summary")
    assert isinstance(far, LineChart)
    assert far.y_axis.scaling.logBase == 10
    assert isinstance(_chart(scaled(None), "Summary"), BarChart)
