"""Permanent links: who arrives by one sees what it names, alone and at the top; inside the page a
link goes there and hides nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.report.chromium import ARGUMENTS

pytestmark = pytest.mark.look
Reporter = Callable[[str], Any]
IN_VIEW = (
    "node => { const box = node.getBoundingClientRect(); return box.height > 0 && box.top >= 0 && "
    "box.top < innerHeight; }"
)


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_every_link_of_the_page_leads_to_something(opened: Callable[..., Any], name: str) -> None:
    page = opened(name)
    dead = page.evaluate(
        "Array.from(document.querySelectorAll('a[href]')).map(a => a.getAttribute('href'))"
        ".filter(href => !href.startsWith('#') || !document.getElementById(decodeURIComponent(href.slice(1))))"
    )
    assert dead == []
    assert page.locator("a[href]").count() > 20


@pytest.mark.parametrize("place", ["TC1", "TC2.time", "TC2.tail.probe", "TC1.resources.cache", "TC1.outliers", "TC1.r2", "matrix", "cpu-chart"])  # fmt: skip
def test_arriving_by_a_link_shows_what_it_names(opened: Callable[..., Any], place: str) -> None:
    page = opened("plain", anchor=f"#{place}")
    assert page.locator(f'[id="{place}"]').evaluate(IN_VIEW)
    assert page.locator("#alone-bar").is_visible()
    assert page.locator("#answer").is_hidden()
    if place != "TC1.r2":  # a row of a table is gone to; all else stands at the top
        assert page.evaluate("scrollY") == 0
    assert page.seen == []


def test_of_a_chart_its_case_s_name_and_levels_stay(opened: Callable[..., Any]) -> None:
    page = opened("plain", anchor="#TC2.time")
    assert page.locator("article.case:visible").count() == 1
    assert "TC2" in page.locator("article.case:visible h3").inner_text()
    assert page.locator("article.case:visible .levels").is_visible()
    assert page.locator("article.case:visible figure:visible").count() == 1


def test_the_rest_comes_back_by_the_button_and_by_any_link_to_it(opened: Callable[..., Any]) -> None:
    page = opened("plain", anchor="#TC1")
    page.click("#whole")
    assert page.locator("#answer").is_visible()
    assert page.locator("#alone-bar").is_hidden()
    assert page.locator('[id="TC1"]').evaluate(IN_VIEW)
    again = opened("plain", anchor="#TC1")
    again.locator("article.case:visible .up").click()
    assert again.locator("#matrix").is_visible()
    assert again.locator("#answer").is_visible()


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


def test_a_link_that_names_nothing_does_nothing(opened: Callable[..., Any]) -> None:
    for anchor in ("#no-such", "#%E0%A4%A"):
        page = opened("one", anchor=anchor)
        assert page.locator("#answer").is_visible()
        assert page.seen == []


@pytest.mark.parametrize("anchor", ["#TC1", "#TC2.time", ""])
def test_a_screenshot_taken_by_a_link_is_not_blank(
    needs: Callable[..., None], reported: Reporter, tmp_path: Path, anchor: str
) -> None:
    """Chromium's own `--screenshot` takes the top of a page, whatever it is scrolled to: what
    a link names must stand there."""
    needs("chromium")
    file = tmp_path / "shot.png"
    address = f"file://{reported('plain').files['report.html']}{anchor}"
    told = subprocess.run(
        ["chromium", "--headless", *ARGUMENTS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900", f"--screenshot={file}", address],
        capture_output=True, timeout=HANG_S, check=True, text=True,
    )  # fmt: skip
    assert re.search(r"bytes written", told.stderr + told.stdout)
    assert file.stat().st_size > 30_000  # an empty page of that size is below 7 kB
