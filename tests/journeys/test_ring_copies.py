"""When a ring is whole again: told from what lies on its devices, here made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from .ring import lacking_copies


@pytest.fixture
def devices(tmp_path: Path) -> list[Path]:
    """Three copies of one object, as Swift lays them."""
    found = [tmp_path / f"o{number}" for number in (1, 2, 3)]
    for device in found:
        put(device, "aa", "1700000010.50000.data")
    return found


def put(device: Path, name: str, file: str) -> Path:
    folder = device / "objects/7/f3e" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(b"")
    return folder / file


BEFORE_S = 1_700_000_100.0


def test_a_ring_with_every_copy_is_whole(devices: list[Path]) -> None:
    assert lacking_copies(devices, BEFORE_S) == set()


def test_a_copy_that_is_missing_is_told(devices: list[Path]) -> None:
    for device in devices[:2]:
        put(device, "bb", "1700000020.00000.data")
    assert lacking_copies(devices, BEFORE_S) == {"bb"}
    put(devices[2], "bb", "1700000020.00000.data")
    assert lacking_copies(devices, BEFORE_S) == set()


def test_an_older_copy_is_none(devices: list[Path]) -> None:
    put(devices[0], "aa", "1700000030.00000.data")
    assert lacking_copies(devices, BEFORE_S) == {"aa"}


def test_a_delete_that_has_not_come_through_is_told(devices: list[Path]) -> None:
    put(devices[1], "aa", "1700000030.00000.ts")
    assert lacking_copies(devices, BEFORE_S) == {"aa"}


def test_what_was_put_later_does_not_count(devices: list[Path]) -> None:
    put(devices[0], "cc", "1700000100.00001.data")
    assert lacking_copies(devices, BEFORE_S) == set()


def test_a_device_that_is_not_there_lacks_all(devices: list[Path], tmp_path: Path) -> None:
    assert lacking_copies([*devices[:2], tmp_path / "o4"], BEFORE_S) == {"aa"}
