"""Bodies larger than a generator's memory limit: sent, stored on the server's disk, read back by digest."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import Answering, serving

from .ring import peak_rss_bytes
from .world import World, complete, only_run

pytestmark = pytest.mark.truth
MIB = 1 << 20
BODY_BYTES = 160 * MIB
MOST_BYTES = 100 * MIB


class Disk(Answering):
    """Store a body in a file and return it."""

    kept: Path

    def do_PUT(self) -> None:
        left, digest = int(self.headers["Content-Length"]), hashlib.md5(usedforsecurity=False)
        with self.kept.open("wb") as file:
            while left:
                piece = self.rfile.read(min(left, MIB))
                left -= len(piece)
                digest.update(piece)
                file.write(piece)
        self.answer(b"", 201, ETag=digest.hexdigest())

    def do_GET(self) -> None:
        self.answer(b"", **{"Content-Length": str(self.kept.stat().st_size)})
        with self.kept.open("rb") as file:
            shutil.copyfileobj(file, self.wfile, MIB)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with serving(type("OneDisk", (Disk,), {"kept": tmp_path / "object"})) as found:
        yield found


TEXT = """\
name: both-ways
lab: {{disk: {{at: "http://127.0.0.1:{port}"}}}}
feeders: {{written: {{written: md5}}}}
requests:
  put: {{put: "http://disk/object", body: {{random: {size}}}, adds: written, check: ["header.ETag == ${{written.digest}}"]}}
  get: {{get: "http://disk${{written.path}}", check: ["size_bytes == ${{written.size_bytes}}", "md5 == ${{written.digest}}"]}}
scenarios: {{both: [put, get]}}
traffic: {{user: {{executor: per-vu-iterations, vus: 1, iterations: 1, record: rows, scenario: both}}}}
measure: {{duration: 120s, replicates: 1}}
"""


def test_a_large_body_goes_both_ways(world: World, port: int) -> None:
    study = world.study(TEXT.format(port=port, size=BODY_BYTES))
    with world.start("run", study, "--trust", "--out", str(world.runs)) as command:
        most = peak_rss_bytes(world, command)
        command.end()
    complete(only_run(world), command.said)
    put, get = world.query("select status, error_name, body_bytes from samples order by step")
    assert (put["status"], put["error_name"]) == (201, ""), "the server's digest is that of what was sent"
    assert (world.root / "object").stat().st_size == BODY_BYTES
    assert (get["status"], get["error_name"], get["body_bytes"]) == (200, "", BODY_BYTES)
    assert 0 < most <= MOST_BYTES, f"{most / MIB:.0f} MiB"
