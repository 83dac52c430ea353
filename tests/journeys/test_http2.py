"""HTTP/2 from study to report: a command and a study against nghttpd, and what both record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import free_port, running

from svload import api

from .world import World, only_run

pytestmark = pytest.mark.real
STUDY = """\
name: streams
lab:
  web: {{at: "http://127.0.0.1:{port}"}}
factors:
  shape:
    one: {{streams: 1}}
    many: {{streams: 4}}
requests:
  first: {{get: http://web/file, take: {{server: {{header: server}}}}, check: [body contains xxx]}}
  then: {{get: http://web/file, headers: {{X-Server: "${{server}}"}}}}
scenarios:
  both: [first, then]
traffic:
  load: {{executor: constant-vus, vus: 8, http2: true, streams: "${{shape.streams}}", scenario: both}}
measure: {{duration: 0.5s, replicates: 1}}
"""


@pytest.fixture
def port(tmp_path: Path, needs: Callable[..., None]) -> Iterator[int]:
    """Run nghttpd, which speaks only HTTP/2; yield its port."""
    needs("nghttpd")
    (tmp_path / "file").write_bytes(b"x" * 1024)
    number = free_port()
    with running(["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", str(tmp_path), str(number)], number):
        yield number


def summaries(run: Path) -> dict[str, dict[str, Any]]:
    """Return the load group's totals by case."""
    found = [json.loads(path.read_text()) for path in sorted(run.glob("trials/*/summary.json"))]
    return {one["case"]: one["groups"][0] for one in found}


def test_load_over_http2(world: World, port: int) -> None:
    url = f"http://127.0.0.1:{port}/file"
    args = ("--http2", "--streams", "4", "--vus", "16", "--iterations", "800", "--out", str(world.runs))
    found = world.json("load", url, *args)
    assert (found["ok"], found["failed"]) == (800, 0)
    (group,) = summaries(only_run(world)).values()
    assert (group["http2"]["connections"], group["http2"]["requests"]) == (4, 800)
    assert group["body_bytes"] == 800 * 1024
    refused = world.svload("load", url, "--streams", "4")
    assert refused.returncode == 2
    assert "HTTP/2" in refused.stderr


def test_one_request_over_http2(port: int) -> None:
    ask = api.QuickLoad(f"http://127.0.0.1:{port}/file", http2=True)
    (row,) = api.probe(ask, 1, api.LoadFiles(), ())
    assert (row["error"], row["http_code"], row["size_download"]) == ("", 200, 1024)


def test_a_study_compares_streams(world: World, port: int) -> None:
    world.run(world.study(STUDY.format(port=port)))
    groups = summaries(only_run(world)).values()
    assert sorted(group["http2"]["connections"] for group in groups) == [2, 8]
    for group in groups:
        assert group["failed"] == 0
        assert [step["name"] for step in group["steps"]] == ["first", "then"]
        assert group["status"] == {"200": group["ok"]}
