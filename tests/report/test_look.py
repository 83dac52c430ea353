"""The page in a browser, from a file: keyboard, links, filters, themes, axe; its size; the workbook."""

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
    medians = page.locator(f"{rows} td:nth-child(4)").evaluate_all("cells => cells.map(c => c.dataset.v)")
    values = [float(value) for value in medians if value]
    assert values == sorted(values) and page.seen == []


def test_the_reader_picks_what_colours_the_matrix(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    cells = ".matrix td[data-c] .v"
    before = page.locator(cells).all_text_contents()
    page.select_option("#shade", label="probe: throughput")
    after = page.locator(cells).all_text_contents()
    assert before != after and all(text.endswith("/s") for text in after)
    assert page.text_content("#shade-note") == ""


def saved(page: Any, button: str) -> tuple[str, list[list[str]]]:
    """Return the name and the rows of the file that a button saves."""
    with page.expect_download() as started:
        page.locator(button).click()
    text = Path(started.value.path()).read_text(encoding="utf-8-sig")
    return started.value.suggested_filename, list(csv.reader(text.splitlines()))


def test_a_filtered_table_can_be_saved(opened: Callable[..., Any], reported: Reporter) -> None:
    page = opened("hostile")
    _, rows = saved(page, "#overview button.csv")
    assert len(rows) == 1 + len(reported("hostile").findings.cases)
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+"))]
    page.fill("#search", "no such case")
    assert len(saved(page, "#overview button.csv")[1]) == 1


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
    trials = {trial.trial for trial in reported("plain").findings.trials if trial.case == "TC1"}
    for place in ("TC1.time", "TC1.order", "anatomy-chart"):
        name, (head, *rows) = saved(page, f'[id="{place}"] > button.csv')
        assert name == f"{place}.csv" and len(rows) > 1
        assert place != "TC1.order" or {row[head.index("trial")] for row in rows} == trials
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
    page.locator('[id="TC1.order"] circle').first.hover()
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
    kept = {
        "breakInside": (".says", ".trials", "#usage"),
        "breakAfter": ("h2", "caption", "thead", "summary"),
    }
    for name, places in (kept | {"breakBefore": (".checks tbody tr",)}).items():
        assert [at for at in places if page.evaluate(read, [at, name]) != "avoid"] == [], name
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


IN_VIEW = (
    "node => { const box = node.getBoundingClientRect(); return box.height > 0 && box.top >= 0 && "
    "box.top < innerHeight; }"
)


@pytest.mark.parametrize("place", ["TC1", "TC2.time", "TC2.tail.probe", "TC1.resources.cache", "TC1.outliers", "TC1.r2", "matrix", "cpu-chart"])  # fmt: skip
def test_arriving_by_a_link_shows_what_it_names(opened: Callable[..., Any], place: str) -> None:
    page = opened("plain", anchor=f"#{place}")
    assert page.locator(f'[id="{place}"]').evaluate(IN_VIEW)
    assert page.locator("#alone-bar").is_visible() and page.locator("#answer").is_hidden()
    if place != "TC1.r2":  # the page scrolls to a row of a table; everything else is at the top
        assert page.evaluate("scrollY") == 0
    assert page.seen == []


def test_the_rest_comes_back_by_the_button_and_by_any_link_to_it(opened: Callable[..., Any]) -> None:
    page = opened("plain", anchor="#TC1")
    page.click("#whole")
    assert page.locator("#answer").is_visible() and page.locator("#alone-bar").is_hidden()
    assert page.locator('[id="TC1"]').evaluate(IN_VIEW)
    again = opened("plain", anchor="#TC1")
    again.locator("article.case:visible .up").click()
    assert again.locator("#matrix").is_visible() and again.locator("#answer").is_visible()


def test_inside_the_page_a_link_hides_nothing_and_a_filter_gives_way(opened: Callable[..., Any]) -> None:
    page = opened("plain")
    page.fill("#search", "no such case")
    page.locator(".matrix td a").first.click()
    assert page.locator("#answer").is_visible()
    assert page.locator("article.case:visible").count() > 1
    assert page.locator(".matrix td a").first.evaluate(
        "node => { const box = document.getElementById(node.hash.slice(1)).getBoundingClientRect(); return "
        "box.top >= 0 && box.top < innerHeight; }"
    )


VIOLATIONS = {"resultTypes": ["violations"], "selectors": False}
"""Rules that pass are not described, which takes axe longer than finding faults."""
OF_COLOUR = VIOLATIONS | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that another theme can break: all others see the same elements in both."""


def test_the_themes_differ_in_colours_alone(reported: Reporter) -> None:
    """light-dark() gives only colours; the theme decides nothing else."""
    page = reported("one").page
    assert "light-dark(" in page
    assert "prefers-color-scheme" not in page.replace('matchMedia("(prefers-color-scheme: dark)")', "")
    rules = re.findall(r"[^{}\n]*\[data-theme[^{]*\{([^}]*)\}", page)
    assert rules and {rule.partition(":")[0] for rule in rules} == {"color-scheme"}


def faults(page: Any, theme: str = "light") -> list[str]:
    """Return serious faults with the rule and the first elements; in dark, only of the rules on colour."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = Axe().run(page, options=OF_COLOUR if theme == "dark" else VIOLATIONS).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in grave]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_the_report_has_no_grave_fault(opened: Callable[..., Any], name: str, theme: str) -> None:
    page = opened(name, 1200, theme)
    assert faults(page, theme) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_runs_page(visited: Callable[..., Any], compared: Callable[[str, str], Any], theme: str) -> None:
    page = visited(compared("plain", "slower").file, 1200, theme)
    assert faults(page, theme) == []


@pytest.mark.parametrize(("theme", "faint"), [("light", "#ddd"), ("dark", "#333")])
def test_a_grave_fault_would_be_found(opened: Callable[..., Any], theme: str, faint: str) -> None:
    page = opened("one", 1200, theme)
    bare = "replaceWith(document.createElement('input'))"
    page.evaluate(f"document.querySelector('#search').closest('label').{bare}")
    page.evaluate(f"document.querySelector('.over').style.color = '{faint}'")
    found = " ".join(faults(page, theme))
    assert ("label" in found) == (theme == "light")
    assert "color-contrast" in found


def test_it_works_by_keyboard(opened: Callable[..., Any], reported: Reporter) -> None:
    """Tab reaches the skip link first, Enter on a cell opens its case, Space presses the theme's button."""
    page = opened("plain")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#answer"
    page.locator(".matrix td a").first.focus()
    page.keyboard.press("Enter")
    case = page.evaluate("location.hash").removeprefix("#")
    assert case in {one.case for one in reported("plain").findings.cases}
    assert page.locator(f'[id="{case}"]').evaluate("node => node.getBoundingClientRect().top < innerHeight")
    page.locator("#theme").focus()
    page.keyboard.press("Space")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
