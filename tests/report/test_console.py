"""Text from outside is shown as text: terminals execute nothing of it, and mark-up is not interpreted."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text
from tests.report.conftest import Shown

from svload import api
from svload.api import Choices
from svload.model.visible import PlainStream, visible_json
from svload.report.terminal.console import PlainConsole
from svload.report.terminal.tables import show_plan, show_rows

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rfine\u202eevil\x7f"
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on(screen: io.StringIO, terminal: bool) -> PlainConsole:
    colours = "standard" if terminal else None
    return PlainConsole(file=screen, force_terminal=terminal, width=200, color_system=colours)


def test_texts_tables_and_their_heads_are_never_obeyed() -> None:
    screen = io.StringIO()
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    out = on(screen, terminal=False)
    out.print(table)
    out.print(HOSTILE, markup=False)
    out.print(Text(HOSTILE))
    assert not _OBEYED.search(screen.getvalue())
    assert screen.getvalue().count("[U+001B]") >= 5


def test_a_terminals_own_colours_and_controls_stay() -> None:
    screen = io.StringIO()
    out = on(screen, terminal=True)
    out.print(Text(HOSTILE, style="red"))
    assert screen.getvalue().startswith("\x1b[31m[U+001B]]0;owned")
    with Live(Text(HOSTILE), console=out, auto_refresh=False) as live:
        live.update(Text(HOSTILE), refresh=True)
    assert "\x1b[?25l" in screen.getvalue(), "the cursor is hidden while it draws"
    assert "\x1b]0" not in screen.getvalue()


def test_an_answer_of_query_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([HOSTILE], [[HOSTILE], [None], [1.5]])
    assert not _OBEYED.search(capsys.readouterr().out)


def test_lines_that_are_printed_are_text() -> None:
    below = io.BytesIO()
    stream = PlainStream(below, encoding="utf-8", write_through=True)
    print(f"it says {HOSTILE}\tand\nends", file=stream)
    stream.obeyed.write("\x1b[1m")
    found = below.getvalue().decode()
    assert found.endswith("\tand\nends\n\x1b[1m")
    assert not _OBEYED.search(found[:-4])


def test_json_keeps_its_meaning() -> None:
    text = visible_json(json.dumps({HOSTILE: [HOSTILE, "é", "\ud800"]}, ensure_ascii=False))
    assert not _OBEYED.search(text)
    assert json.loads(text) == {HOSTILE: [HOSTILE, "é", "\ud800"]}
    assert "é" in text


LIKE_MARKUP = ("[/b]", "[a-z]+", "[bold]", ":smile:", "[link=http://x]y", "\\[x]")


def test_a_query_shows_its_cells_and_a_plan_its_levels(shown: Shown, tmp_path: Path) -> None:
    found = shown(show_rows, ["[b]name", "n"], [[text, 1] for text in LIKE_MARKUP])
    assert all(text in found for text in (*LIKE_MARKUP, "[b]name"))
    levels = ", ".join(f"'{text}'" for text in LIKE_MARKUP)
    (tmp_path / "study.yaml").write_text(
        f"name: x\nquestion: 'is [/b] red?'\nlab: {{w: {{at: 'http://127.0.0.1:1'}}}}\nfactors: {{a: [{levels}]}}\n"
        "traffic: {g: {executor: constant-vus, vus: 1, request: GET http://w/}}\nmeasure: {duration: 1s}\n"
    )
    found = shown(show_plan, api.plan(str(tmp_path), Choices(out=tmp_path / "runs")))
    assert all(text in found for text in (*LIKE_MARKUP, "is [/b] red?"))
