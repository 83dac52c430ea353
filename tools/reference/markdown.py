"""Markdown as the reference pages use it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

MADE = "<!-- Made by tools/make_reference.py from the code: edit the code, then `make docs`. -->"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`"


def page(title: str, *parts: str) -> str:
    return "\n".join([MADE, "", f"# {title}", "", *(part.rstrip("\n") + "\n" for part in parts)])


def sentence(text: str | None) -> str:
    """Return a docstring as one paragraph."""
    return " ".join(inspect.cleandoc(text or "").split())


def default(value: Any) -> str:
    """Return a default as users write it."""
    if value is None or value in ({}, [], ()):
        return "–"
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, bool):
        return code("true" if value else "false")
    if isinstance(value, dict):
        return code("{" + ", ".join(f"{key}: {one}" for key, one in value.items()) + "}")
    if isinstance(value, (list, tuple)):
        return code("[" + ", ".join(str(one) for one in value) + "]")
    if isinstance(value, int) and value >= 1_000_000_000 and value % 1_000_000_000 == 0:
        return code(f"{value // 1_000_000_000}s")
    return code(str(value) if value != "" else '""')
