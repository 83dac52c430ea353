"""Fixtures of the journeys: a separate world for each test, and a user's own server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .island import Island, made_island
from .world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Make an empty world, in which no process may be left when the test ends."""
    made = World(tmp_path)
    yield made
    assert made.silent() == []


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for all tests of a file, so that Swift is installed once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def truth(serve_truth: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Run a store outside any lab that answers at once."""
    return serve_truth()


@pytest.fixture
def island(needs: Callable[..., None]) -> Iterator[Island]:
    """Make two networks that are connected only to each other."""
    needs("root", "ip")
    with made_island() as made:
        yield made
