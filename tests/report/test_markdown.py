"""summary.md: what a CI job's page shows. It says what the exit code says, and no name breaks its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from markdown_it import MarkdownIt
from syrupy.assertion import SnapshotAssertion

from svload.report.files.markdown import plain, summary_markdown
from svload.report.told.answer import headline

Reporter = Callable[[str], Any]
STEP_BYTES_MAX = 1 << 20  # what GitHub takes of a step


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_it_is_written_beside_the_report_and_small(reported: Reporter, name: str) -> None:
    found = reported(name)
    text = found.files["summary.md"].read_text(encoding="utf-8")
    assert text == summary_markdown(found.findings)
    assert 0 < len(text.encode()) < STEP_BYTES_MAX / 10
    assert plain(headline(found.findings)) in text


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "unmeasured"])
def test_a_summary(reported: Reporter, snapshot: SnapshotAssertion, name: str) -> None:
    """The first sign says what the exit code says; every case that ran has its row."""
    assert summary_markdown(reported(name).findings) == snapshot


def test_names_show_their_own_characters_and_nothing_else(reported: Reporter) -> None:
    text = summary_markdown(reported("hostile").findings)
    page = rendered(text)
    assert "<img" not in page
    assert "<b>" not in page
    assert "\u202e" not in text
    assert page.count("<details>") == page.count("</details>") <= 1


@pytest.mark.parametrize(
    "text",
    ["a|b", "*a*", "_a_ b_c", "[x](http://x)", "`code`", "<script>", "![x](y)", "~~a~~", "1. a", "- a", "> a", "# a", "&amp;", "\\*", "2.1 ms [2.0, 2.3]"],
)  # fmt: skip
def test_plain_text_survives_the_renderer(text: str) -> None:
    from html import unescape

    page = rendered(f"| a | b |\n| --- | --- |\n| {plain(text)} | x |\n\n{plain(text)}\n")
    cell = unescape(page.split("<td>")[1].split("</td>")[0])
    paragraph = unescape(page.split("<p>")[1].split("</p>")[0])
    assert cell == paragraph == text
