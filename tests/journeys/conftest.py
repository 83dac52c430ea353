"""One world a test, and a server of one's own."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .world import World

LIMIT_S = 30.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty machine of its own; at the end nothing of it may be left."""
    made = World(tmp_path)
    made.runs.mkdir()
    return made


@contextmanager
def running_truth(file: Path, **config: Any) -> Iterator[dict[str, int]]:
    """A known-truth server outside any lab: its ready line (http_port, https_port, admin_port, pid)."""
    file.write_text(json.dumps({"role": "store", "http_port": 0, "admin_port": 0, **config}))
    command = [sys.executable, "-m", "svload.truth", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], LIMIT_S)[0], "no ready line"
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def serve_truth(tmp_path: Path) -> Iterator[Callable[..., dict[str, int]]]:
    """Start known-truth servers with the given configuration; they end with the test."""
    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(running_truth(tmp_path / "truth.json", **config))


@pytest.fixture
def truth(serve_truth: Callable[..., dict[str, int]]) -> dict[str, int]:
    """A store that answers at once."""
    return serve_truth()
