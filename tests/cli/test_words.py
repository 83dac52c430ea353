"""Arguments are parsed as typer parses them, and simple ones without loading typer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from svload.cli.app import app
from svload.cli.plain import App


def answer(app: typer.Typer, words: list[str]) -> Any:
    """Return the arguments that the command got, or typer's message."""
    got: list[Any] = []

    @app.command()
    def command(
        text: str = typer.Argument("none"),
        count: int = typer.Option(None, "--count", min=1, max=9),
        rate: float = typer.Option(None, "--rate"),
        each: list[str] = typer.Option(None, "--each"),
        file: Path = typer.Option(None, "--file"),
        flag: bool = typer.Option(False, "--flag"),
    ) -> None:
        got.append((text, count, rate, each, file, flag))

    try:
        app(words, standalone_mode=False)
    except Exception as why:
        return why.format_message() if hasattr(why, "format_message") else repr(why)
    return got[0]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "word --count 7 --rate 2.5 --each a --each b --file /nowhere/x --flag",
        "word --count 0",
        "word --count 10",
        "word --count x",
        "--rate 1e3",
        "--rate 12",
        "--rate -0.5",
        "--rate nan",
        "--rate many",
        "--file /",
        "--file -",
        "two words",
        "--no-such",
    ],
)
def test_both_understand_the_same(words: str) -> None:
    assert repr(answer(App(), words.split())) == repr(answer(typer.Typer(), words.split()))


@pytest.mark.parametrize(
    ("words", "readings"),
    [
        ("--count 1_0", "“1.0” or “10”"),
        ("--count 1,000", "“1.000” or “1000”"),
        ("--rate 0,5", "“0.5”"),
        ("--rate 1_000.5", "“1000.5”"),
    ],
)
def test_a_marked_number_is_refused_with_its_readings(words: str, readings: str) -> None:
    """typer takes 1_000 for 1000."""
    assert f"write {readings}" in answer(App(), words.split())


def test_what_is_plain_needs_no_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer._adapters", None)
    words = ["word", "--count", "7", "--rate", "2.5", "--each", "a", "--file", "/nowhere/x", "--flag"]
    assert answer(App(), words) == ("word", 7, 2.5, ["a"], Path("/nowhere/x"), True)


def test_an_argument_with_a_default_can_be_left_out() -> None:
    """Arguments are filled from the left, so none that is required may follow one with a default."""
    commands: list[Any] = [typer.main.get_command(app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        required = [one.required for one in command.params if one.param_type_name == "argument"]
        assert required == sorted(required, reverse=True), command.name
