"""The gallery: recordings contain what the view showed, and pictures are small and sharp."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from rich.text import Text
from tests.studies.scripts import script

from svload.model.events import Event

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    return script(ROOT / "tools" / "record_terminal.py")


def told() -> list[Event]:
    """Record twenty trials of a second each."""
    found: list[tuple[str, dict[str, Any]]] = [("run-started", {"study": "a<b>", "trials": 20, "sealed": 0})]
    verdict = {"instrument": "VALID", "server": "STEADY", "headline": "p50 2 ms"}
    for trial in (f"TC{number}.r1" for number in range(20)):
        found += [("trial-started", {"trial": trial}), ("trial-sealed", {"trial": trial} | verdict)]
    return [Event(kind, data, monotonic_ns=at * 10**9) for at, (kind, data) in enumerate(found)]


def test_it_replays_the_output_and_ends_with_the_table(recorder: ModuleType) -> None:
    end = recorder.lines_of(Console(width=80), Text("the final table"))
    film, faster = recorder.film_of(told(), "svload demo", end)
    assert len(film.frames) > recorder.FRAMES / 2
    assert faster == pytest.approx(40 / recorder.PLAY_S)
    drawn = {number: ElementTree.fromstring(f"<g>{text}</g>") for text, number in film.lines.items()}
    last = ["".join(drawn[line].itertext()) for line in film.frames[-1]]
    assert last[-1] == "the final table"
    assert "[20/20]TC19.r1p502ms" in last[-2].replace(" ", "")
    assert all(len(frame) <= recorder.ROWS for frame in film.frames)
    assert len(film.lines) < sum(len(frame) for frame in film.frames) / 3


def test_the_svg_is_whole(recorder: ModuleType) -> None:
    film, _ = recorder.film_of(told(), "svload <demo>", [])
    check(recorder.svg(film, "svload <demo>"))


def test_the_committed_recording_is_whole_and_small() -> None:
    text = (ROOT / "docs" / "gallery" / "terminal.svg").read_text(encoding="utf-8")
    check(text)
    assert len(text.encode()) < 300 * 1024


def check(text: str) -> None:
    """Check that every line that is used is defined, nothing runs and nothing is fetched."""
    root = ElementTree.fromstring(text)
    defined = {node.attrib["id"] for node in root.iter() if "id" in node.attrib}
    used = {node.attrib["href"] for node in root.iter(f"{SVG}use")}
    assert used and {f"#{name}" for name in defined} >= used
    assert not {node.tag.rpartition("}")[2] for node in root.iter()} & {"script", "image", "foreignObject"}
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(re.findall(r"%\{transform", text)) > 10
    assert "prefers-reduced-motion" in text
