"""What stands in a study is printed as it is: nothing of it is a terminal's mark-up."""

from __future__ import annotations

from pathlib import Path

from tests.report.conftest import Shown

from svload import api
from svload.api import Choices
from svload.report.terminal.tables import show_plan, show_rows

LIKE_MARKUP = ("[/b]", "[a-z]+", "[bold]", ":smile:", "[link=http://x]y", "\\[x]")


def test_a_query_shows_its_cells(shown: Shown) -> None:
    said = shown(show_rows, ["[b]name", "n"], [[text, 1] for text in LIKE_MARKUP])
    assert all(text in said for text in (*LIKE_MARKUP, "[b]name"))


def test_a_plan_shows_its_levels(shown: Shown, tmp_path: Path) -> None:
    levels = ", ".join(f"'{text}'" for text in LIKE_MARKUP)
    (tmp_path / "study.yaml").write_text(
        f"name: x\nquestion: 'is [/b] red?'\nlab: {{w: {{at: 'http://127.0.0.1:1'}}}}\nfactors: {{a: [{levels}]}}\n"
        "traffic: {g: {executor: constant-vus, vus: 1, request: GET http://w/}}\nmeasure: {duration: 1s}\n"
    )
    said = shown(show_plan, api.plan(str(tmp_path), Choices(out=tmp_path / "runs")))
    assert all(text in said for text in (*LIKE_MARKUP, "is [/b] red?"))
