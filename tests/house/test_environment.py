"""Every environment variable that is read is one that the reference lists."""

from __future__ import annotations

import re
from pathlib import Path

from svload.model.environment import OWN, VARIABLES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"
CATALOGUE = SOURCE / "model" / "environment.py"


def named_in_code() -> set[str]:
    """Every SVLOAD_… that stands in quotes in a module beside the catalogue."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path != CATALOGUE]
    return {name for text in texts for name in re.findall(r'"(SVLOAD_[A-Z]+)"', text)}


def test_the_catalogue_is_what_the_code_reads() -> None:
    assert named_in_code() == {name for name in VARIABLES if name.startswith("SVLOAD_")} | set(OWN)
