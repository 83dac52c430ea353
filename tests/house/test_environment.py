"""Every environment variable that is read is one that the reference lists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from svload.model.environment import OWN, VARIABLES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"


def test_the_catalogue_is_what_the_code_reads() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    named = Counter(name for text in texts for name in re.findall(r'"(SVLOAD_[A-Z_]+)"', text))
    assert set(named) == {name for name in VARIABLES if name.startswith("SVLOAD_")} | set(OWN)
    assert [name for name, count in named.items() if count < 2] == [], "listed, but nowhere read"
