"""The page in a browser, from a file: keyboard, filters, themes; the workbook recalculated."""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Callable
from math import isclose
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.bounds import HANG_S
from tests.report.conftest import Reporter

pytestmark = pytest.mark.look


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
@pytest.mark.parametrize(("width", "theme"), [(1200, "light"), (800, "dark"), (400, "light")])
def test_it_opens_cleanly(opened: Callable[..., Any], name: str, width: int, theme: str) -> None:
    page = opened(name, width, theme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and page.seen == []


def test_filters_search_and_sorting_work(opened: Callable[..., Any], reported: Reporter) -> None:
    page = opened("plain")
    rows = "#table tbody tr"
    before = page.locator(rows).count()
    page.select_option('select[data-i="0"]', index=1)
    level = page.locator('select[data-i="0"] option').nth(1).text_content()
    shown = page.locator(f"{rows}:visible")
    assert 0 < shown.count() < before
    names = {case.case for case in reported("plain").findings.cases if level in case.levels.values()}
    assert {one.strip() for one in page.locator(f"{rows}:visible th a").all_text_contents()} == names
    assert page.locator("article.case:visible").count() == len(names)
    page.select_option('select[data-i="0"]', index=0)
    page.fill("#search", "no such case")
    assert shown.count() == 0
    assert page.text_content("#shown") == f"0 of {before} cases"
    page.fill("#search", "")
    page.locator("#table button.sort", has_text="p50").click()
    values = [
        float(v)
        for v in page.locator(f"{rows} td:nth-child(4)").evaluate_all("cells => cells.map(c => c.dataset.v)")
        if v
    ]
    assert values == sorted(values)
    assert page.seen == []


def test_the_reader_picks_what_colours_the_matrix(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    cells = ".matrix td[data-c] .v"
    before = page.locator(cells).all_text_contents()
    page.select_option("#shade", label="probe: throughput")
    after = page.locator(cells).all_text_contents()
    assert before != after
    assert all(text.endswith("/s") for text in after)
    assert page.text_content("#shade-note") == ""


def test_a_filtered_table_can_be_saved(opened: Callable[..., Any], reported: Reporter) -> None:
    page = opened("hostile")
    with page.expect_download() as started:
        page.locator("#overview button.csv").click()
    rows = list(csv.reader(Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    cases = reported("hostile").findings.cases
    assert len(rows) == 1 + len(cases)
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+"))]
    page.fill("#search", "no such case")
    with page.expect_download() as started:
        page.locator("#overview button.csv").click()
    assert len(Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines()) == 1


def test_it_can_be_read_without_script(
    needs: Callable[..., None], request: pytest.FixtureRequest, reported: Reporter
) -> None:
    needs("chromium")
    context = request.getfixturevalue("browser").new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{reported('mixed').files['report.html']}")
    assert page.locator(".matrix td[data-c]").first.is_visible()
    assert not page.locator("#filters").is_visible()
    assert "Colour: " in page.inner_text("#matrix")
    context.close()


@pytest.mark.parametrize("width", [900, 400])
def test_what_introduces_a_table_is_read_without_scrolling_it(opened: Callable[..., Any], width: int) -> None:
    page = opened("plain", width)
    for at in (".groups caption", ".groups .about div"):
        box = page.locator(at).first.bounding_box()
        assert box["x"] + box["width"] <= width, at


@pytest.mark.parametrize("name", ["mixed", "overloaded"])
def test_recalculation(needs: Callable[..., None], reported: Reporter, tmp_path: Path, name: str) -> None:
    needs("ssconvert")
    path, again = reported(name).files["report.xlsx"], tmp_path / "again.xlsx"
    words = ["ssconvert", "--recalc", str(path), str(again)]
    subprocess.run(words, capture_output=True, timeout=HANG_S, check=True)
    live = openpyxl.load_workbook(path)
    stored, anew = (openpyxl.load_workbook(one, data_only=True) for one in (path, again))
    compared = 0
    for sheet in live.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    was, now = (book[sheet.title][cell.coordinate].value for book in (stored, anew))
                    assert isinstance(now, (int, float)), (sheet.title, cell.coordinate, cell.value, now)
                    assert isclose(was, now, rel_tol=1e-6, abs_tol=1e-12), (sheet.title, cell.coordinate)
                    compared += 1
    assert compared > 50


def test_the_numbers_of_a_chart_can_be_saved(opened: Callable[..., Any], reported: Reporter) -> None:
    page = opened("plain")
    for place in ("TC1.time", "TC1.order", "anatomy-chart"):
        button = page.locator(f'[id="{place}"] > button.csv')
        button.scroll_into_view_if_needed()
        with page.expect_download() as started:
            button.click()
        rows = list(csv.DictReader(Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines()))
        assert started.value.suggested_filename == f"{place}.csv"
        assert len(rows) > 1
    trials = {trial.trial for trial in reported("plain").findings.trials if trial.case == "TC1"}
    with page.expect_download() as started:
        page.locator('[id="TC1.order"] > button.csv').click()
    rows = list(csv.DictReader(Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    assert {row["trial"] for row in rows} == trials
    assert page.seen == []


def test_a_chart_answers_to_the_pointer(opened: Callable[..., Any], reported: Reporter) -> None:
    page = opened("plain", 1200, "light", anchor="#TC1.time")
    trials = [trial.trial for trial in reported("plain").findings.trials if trial.case == "TC1"]
    path = page.locator('[id="TC1.time"] path.rep[data-n$=" p50"]').first
    whose = path.get_attribute("data-n")
    assert whose.split()[0] in trials
    x, y = path.evaluate(
        """path => {
            const at = path.getPointAtLength(0), m = path.getScreenCTM();
            return [at.x * m.a + m.e, at.y * m.d + m.f];
        }"""
    )
    page.mouse.move(x, y)
    assert re.fullmatch(rf"{re.escape(whose)}: [\d.]+ [mµ]s at [\d.]+ m?s", page.text_content("#tip"))
    assert page.locator("svg .ring").count() == 1
    page.mouse.move(2, 2)
    assert not page.locator("#tip").is_visible()
    page = opened("plain", 1200, "light", anchor="#TC1.order")
    dot = page.locator('[id="TC1.order"] circle').first
    dot.hover()
    assert page.text_content("#tip").split(":")[0] in trials
    assert page.seen == []


def test_printed_all_but_the_panels_is_open_and_no_heading_is_left_behind(opened: Callable[..., Any]) -> None:
    page = opened("plain", theme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open], .panels)").count() == 0
    assert page.locator("details.panels[open]").count() == 0
    assert page.locator("button:visible:not(.sort)").count() == 0
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    read = "([at, name]) => getComputedStyle(document.querySelector(at))[name]"
    for at in (".says", ".trials", "#usage"):
        assert page.evaluate(read, [at, "breakInside"]) == "avoid", at
    for at in ("h2", "caption", "thead", "summary"):
        assert page.evaluate(read, [at, "breakAfter"]) == "avoid", at
    assert page.evaluate(read, [".checks tbody tr", "breakBefore"]) == "avoid"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
