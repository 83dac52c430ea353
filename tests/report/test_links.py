"""The page in a browser: links lead to what they name, and axe finds no serious fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.report.conftest import Reporter

pytestmark = pytest.mark.look
IN_VIEW = (
    "node => { const box = node.getBoundingClientRect(); return box.height > 0 && box.top >= 0 && "
    "box.top < innerHeight; }"
)


@pytest.mark.parametrize("place", ["TC1", "TC2.time", "TC2.tail.probe", "TC1.resources.cache", "TC1.outliers", "TC1.r2", "matrix", "cpu-chart"])  # fmt: skip
def test_arriving_by_a_link_shows_what_it_names(opened: Callable[..., Any], place: str) -> None:
    page = opened("plain", anchor=f"#{place}")
    assert page.locator(f'[id="{place}"]').evaluate(IN_VIEW)
    assert page.locator("#alone-bar").is_visible()
    assert page.locator("#answer").is_hidden()
    if place != "TC1.r2":  # the page scrolls to a row of a table; everything else is at the top
        assert page.evaluate("scrollY") == 0
    assert page.seen == []


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


GRAVE = ("serious", "critical")
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


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

    page.evaluate(OPEN_ALL)
    found = Axe().run(page, options=OF_COLOUR if theme == "dark" else VIOLATIONS).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in GRAVE
    ]


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
