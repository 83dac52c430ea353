"""The page's light colours for figures and the workbook's charts. A test compares them with style.css."""

from __future__ import annotations

PALETTE = ("#0072b2", "#c2520a", "#00795c", "#9c3f8c", "#8a6d00", "#5f6772")
"""Distinguishable with any kind of colour vision, and in grey; the page's `--c0` … `--c5`."""
SEGMENT_COLOURS = (
    "#9aa3ae", "#d1495b", "#e0b92f", "#d9762b", "#9c3f8c", "#c9ced6", "#0072b2", "#2a9d7f",
)  # fmt: skip
"""The parts of a request in the order of `report.digest.SEGMENTS`; the page's `.a0` … `.a7`."""
INK, DIM, LINE, REFUSED = "#1a1f26", "#57606b", "#d9dde3", "#b3261e"
"""Text, secondary text, hairlines, and what does not count; the page's `--fg`, `--dim`, `--line`, `--red`."""
