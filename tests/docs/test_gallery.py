"""The gallery: in the committed recording every line that is used is defined, nothing runs, nothing is fetched."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

RECORDING = Path(__file__).resolve().parents[2] / "docs" / "gallery" / "terminal.svg"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_recording_is_whole_and_small() -> None:
    text = RECORDING.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    defined = {node.attrib["id"] for node in root.iter() if "id" in node.attrib}
    used = {node.attrib["href"] for node in root.iter(f"{SVG}use")}
    assert used and {f"#{name}" for name in defined} >= used
    assert not {node.tag.rpartition("}")[2] for node in root.iter()} & {"script", "image", "foreignObject"}
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(re.findall(r"%\{transform", text)) > 10
    assert "prefers-reduced-motion" in text
    assert len(text.encode()) < 300 * 1024
