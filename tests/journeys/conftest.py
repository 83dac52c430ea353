"""One world a test, and a server of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .island import Island, made_island
from .world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty machine of its own; at the end nothing of it may be left."""
    made = World(tmp_path)
    made.runs.mkdir()
    return made


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Swift is installed once for all tests of a file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def truth(serve_truth: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A store outside any lab that answers at once."""
    return serve_truth()


@pytest.fixture
def island(needs: Callable[..., None]) -> Iterator[Island]:
    """Two networks that know each other alone."""
    needs("root", "ip")
    with made_island() as made:
        yield made
