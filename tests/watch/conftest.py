"""Fixtures for tests of monitors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def places() -> Iterator[ExitStack]:
    """Hold a test's sockets and processes, and close them at its end."""
    with ExitStack() as stack:
        yield stack
