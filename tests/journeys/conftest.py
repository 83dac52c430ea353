"""One world a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty machine of its own; at the end nothing of it may be left."""
    made = World(tmp_path)
    made.runs.mkdir()
    return made
