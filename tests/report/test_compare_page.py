"""The page of two runs: every case and metric with both values, what differs between the runs, and never a claim."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.report.test_page import Page

from svload import api
from svload.report.page.detail import LARGEST_BYTES

Reporter = Callable[[str], Any]
Compare = Callable[[str, str], Any]


def _words(file: Path) -> str:
    return Page(file.read_text(encoding="utf-8")).words


def test_it_stands_alone_and_its_links_lead_somewhere(compared: Compare) -> None:
    text = compared("plain", "slower").file.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.hrefs
    assert [href for href in page.hrefs if href[1:] not in page.ids] == []
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert page.tags["caption"] == page.tags["table"]
    assert len(text.encode()) < LARGEST_BYTES


def test_a_planted_difference_is_told_without_an_interval_and_without_a_claim(compared: Compare) -> None:
    """The second run's median is 1.5 times the first's in every case."""
    found = compared("plain", "slower")
    words = _words(found.file)
    assert re.search(
        r"The median response of probe in the second run: TC\d (4|5)\d(\.\d)? % longer", words
    ), words[:2000]
    assert "interval excludes" not in words and "95 %" not in words[: words.index("Case by case") + 200]
    assert "were not interleaved" in words
    assert "no ratio has an interval, and nothing here is a claim" in words
    assert "synthetic-1 (second) against synthetic-1 (first)" in words, (
        "as claims have it: against the baseline"
    )
    assert words.count("This run (profile synthetic): ") == 1, "both made the same load: told once"


def test_a_run_against_itself_differs_in_nothing(compared: Compare) -> None:
    words = _words(compared("plain", "plain").file)
    assert re.search(r"The median response of probe in the second run: TC\d 0 %", words), words[:1500]
    assert "no difference" not in words.lower()
    assert "below 0 %" not in words
    assert "Nothing that was recorded differs." in words


def test_what_differs_between_the_runs_stands_on_it(compared: Compare, reported: Reporter) -> None:
    text = compared("plain", "slower").file.read_text(encoding="utf-8")
    first, second = (reported(name).run.lock() for name in ("plain", "slower"))
    assert f">seed</th><td>{first.seed}</td><td>{second.seed}</td>" in text
    assert "The same in both" in text


def test_runs_of_one_name_are_told_apart_wherever_they_are_named(compared: Compare) -> None:
    found = compared("plain", "slower").file
    words = _words(found)
    for place in ("first", "second"):
        assert words.count(f"{place}: synthetic-1") == 2, "in the table of what differs and at the curves"
    assert "Only in the second run, or there with other levels" in _words(compared("plain", "hostile").file)


def test_every_row_has_both_values_and_its_ratio(compared: Compare) -> None:
    found = compared("plain", "slower")
    text = unescape(found.file.read_text(encoding="utf-8"))
    table = text[text.index('id="table"') : text.index('id="curves"')]
    assert table.count("data-f=") == len(found.rows)
    known = [row for row in found.rows if row["ratio"] is not None]
    assert known
    for row in known:
        assert f"{row['ratio']:.3g}" in table
    assert "% longer</td>" in table, "in a word or two: the interval stands beside the ratio"
    assert "95 % interval" not in table[table.index("<tbody>") :]


def test_runs_without_a_common_case_say_that_nothing_can_be_compared(compared: Compare) -> None:
    words = _words(compared("plain", "hostile").file)
    assert "Nothing can be compared , because the two runs have no case in common" in words.replace(
        "compared,", "compared ,"
    )
    assert "Only in" in words


def test_refused_cases_enter_with_their_reason_and_no_ratio(compared: Compare) -> None:
    words = _words(compared("plain", "refused").file)
    assert "REFUSED: it enters no comparison" in words


def test_by_default_it_lies_beside_the_second_run_s_report(reported: Reporter) -> None:
    first, second = reported("plain").run, reported("slower").run
    _, page = api.compare(str(first.path), str(second.path))
    assert page == second.derived.resolve() / "compare.html"
    assert page.is_file()


@pytest.mark.look
@pytest.mark.parametrize(("width", "theme"), [(1200, "light"), (400, "dark")])
def test_it_opens_filters_and_sorts(
    visited: Callable[..., Any], compared: Compare, width: int, theme: str
) -> None:
    found = compared("plain", "slower")
    page = visited(found.file, width, theme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    rows = page.locator("#table tbody tr:visible")
    assert 0 < rows.count() < len(found.rows)  # the main metric is chosen first
    page.select_option("#by-grade", index=0)
    assert rows.count() == len(found.rows)
    page.fill("#search", "no such case")
    assert rows.count() == 0
    assert page.text_content("#shown") == f"0 of {len(found.rows)} rows"
    page.fill("#search", "")
    page.locator("#table button.sort", has_text="ratio").click()
    ratios = [
        float(v)
        for v in page.locator("#table tbody td:nth-child(6)").evaluate_all(
            "cells => cells.map(c => c.dataset.v)"
        )
        if v
    ]
    assert ratios == sorted(ratios)
    assert page.seen == []
