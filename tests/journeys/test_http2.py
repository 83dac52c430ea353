"""HTTP/2 from the command to what is recorded, against nghttpd."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers import free_port, running

from .world import World, only_run

pytestmark = pytest.mark.real


@pytest.fixture
def port(tmp_path: Path, needs: Callable[..., None]) -> Iterator[int]:
    """Run nghttpd, which speaks only HTTP/2; yield its port."""
    needs("nghttpd")
    (tmp_path / "file").write_bytes(b"x" * 1024)
    number = free_port()
    with running(["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", str(tmp_path), str(number)], number):
        yield number


def test_load_over_http2(world: World, port: int) -> None:
    url = f"http://127.0.0.1:{port}/file"
    args = ("--http2", "--streams", "4", "--vus", "16", "--iterations", "800", "--out", str(world.runs))
    found = world.json("load", url, *args)
    assert (found["ok"], found["failed"]) == (800, 0)
    (summary,) = only_run(world).glob("trials/*/summary.json")
    group = json.loads(summary.read_text())["groups"][0]
    assert (group["http2"]["connections"], group["http2"]["requests"]) == (4, 800)
    assert group["body_bytes"] == 800 * 1024
    refused = world.svload("load", url, "--streams", "4")
    assert refused.returncode == 2
    assert "HTTP/2" in refused.stderr
