"""axe-core on every state of the page, in both themes: no serious or critical fault, everything opened."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.look
Reporter = Callable[[str], Any]
GRAVE = ("serious", "critical")
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


VIOLATIONS = {"resultTypes": ["violations"], "selectors": False}
"""What passes is not described: that takes axe longer than looking for what does not."""
OF_COLOUR = VIOLATIONS | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that another theme can break: all others see the same elements in both."""


def test_the_themes_differ_in_colours_alone(reported: Reporter) -> None:
    """What is said by light-dark() is a colour; the theme decides nothing else."""
    page = reported("one").page
    assert "light-dark(" in page
    assert "prefers-color-scheme" not in page.replace('matchMedia("(prefers-color-scheme: dark)")', "")
    rules = re.findall(r"[^{}\n]*\[data-theme[^{]*\{([^}]*)\}", page)
    assert rules and {rule.partition(":")[0] for rule in rules} == {"color-scheme"}


def faults(page: Any, theme: str = "light") -> list[str]:
    """Grave faults, each with the rule and the first elements that break it; in dark, those of the rules on colour."""
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
def test_the_page_of_two_runs_has_no_grave_fault(
    visited: Callable[..., Any], compared: Callable[[str, str], Any], theme: str
) -> None:
    page = visited(compared("plain", "slower").file, 1200, theme)
    assert faults(page, theme) == []


@pytest.mark.parametrize(("theme", "faint"), [("light", "#ddd"), ("dark", "#333")])
def test_a_grave_fault_would_be_found(opened: Callable[..., Any], theme: str, faint: str) -> None:
    page = opened("one", 1200, theme)
    page.evaluate(
        "document.querySelector('#search').closest('label').replaceWith(document.createElement('input'))"
    )
    page.evaluate(f"document.querySelector('.over').style.color = '{faint}'")
    told = " ".join(faults(page, theme))
    assert ("label" in told) == (theme == "light")
    assert "color-contrast" in told


def test_it_works_by_keyboard(opened: Callable[..., Any], reported: Reporter) -> None:
    """Tab reaches the skip link first, Enter on a cell goes to its case, and the theme's button takes the space bar."""
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
