"""When a ring is whole again: told from what lies on its devices, here made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from .ring import lacking_copies

BEFORE_S = 1_700_000_100.0


@pytest.mark.parametrize(
    ("put", "lacking"),
    [
        ({}, set()),
        ({1: "bb/1700000020.00000.data", 2: "bb/1700000020.00000.data"}, {"bb"}),
        (dict.fromkeys((1, 2, 3), "bb/1700000020.00000.data"), set()),
        ({1: "aa/1700000030.00000.data"}, {"aa"}),
        ({2: "aa/1700000030.00000.ts"}, {"aa"}),
        ({1: "cc/1700000100.00001.data"}, set()),
        ({4: "aa/1700000010.50000.data"}, set()),
    ],
    ids=["whole", "a copy missing", "all there", "older copies", "a delete", "put later", "elsewhere"],
)
def test_a_ring_is_whole_with_every_copy(tmp_path: Path, put: dict[int, str], lacking: set[str]) -> None:
    """Three copies of one object, as Swift lays them, and what else is put on devices 1 to 4."""
    for number, place in [*((number, "aa/1700000010.50000.data") for number in (1, 2, 3)), *put.items()]:
        file = tmp_path / f"o{number}" / "objects/7/f3e" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    devices = [tmp_path / f"o{number}" for number in (1, 2, 3)]
    assert lacking_copies(devices, BEFORE_S) == lacking
    assert lacking_copies([*devices, tmp_path / "none"], BEFORE_S) >= {"aa"}
