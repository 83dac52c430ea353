"""What the tests of monitors share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def places() -> Iterator[ExitStack]:
    """Holds a test's sockets and processes, and closes them at its end."""
    with ExitStack() as stack:
        yield stack
