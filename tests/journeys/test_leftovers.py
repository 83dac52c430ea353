"""Every command that uses a lab reports what a killed svload left and could not be undone, and continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from svload.host.agent.journal import Journal

from .world import World

pytestmark = pytest.mark.truth
STUDY = """\
name: small
lab:
  api: {kit: truth, role: store}
traffic:
  users: {executor: constant-vus, vus: 1, request: GET http://api/info}
measure: {duration: 0.3s, replicates: 2}
"""


@pytest.fixture
def blocked(world: World) -> Path:
    """Make a killed svload's journal claim a file that is a folder, which cannot be undone."""
    folder = world.root / "state" / "labs" / "killed"
    folder.mkdir(parents=True)
    for made in (world.root / "state", folder.parent, folder):
        made.chmod(0o700)
    owner = {"format": 1, "owner": "gone", "controller_pid": 1, "started_wall": 1.0, "made_folder": True}
    (folder / "owner.json").write_text(json.dumps(owner))
    found = world.root / "blocked"
    found.mkdir()
    journal = Journal(folder)
    journal.announce("file", name=str(found))
    journal.close()
    return found


def says(stderr: str, blocked: Path) -> bool:
    return any("[not-undone]" in line and str(blocked) in line for line in stderr.splitlines())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("lab", "status", "--json"), 0),
        (("lab", "reset"), 2),
        (("lab", "down"), 0),
        (("lab", "install", "study.yaml"), 0),
        (("lab", "urls", "study.yaml"), 2),
        (("warm", "--for", "0.1s"), None),
        (("warm", "--end"), 0),
        (("doctor",), 0),
        (("run", "study.yaml", "--out", "runs", "--json"), None),
        (("init", "python3 -m http.server {port}", "own"), 0),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else "",
)
def test_it_is_reported(world: World, blocked: Path, words: tuple[str, ...], code: int | None) -> None:
    world.study(STUDY)
    ended = world.svload(*words)
    assert says(ended.stderr, blocked), ended.stderr
    assert code is None or ended.returncode == code, ended.stderr
    blocked.rmdir()
    assert not says(world.svload("lab", "status").stderr, blocked)
    assert world.labs() == []


def test_a_quiet_load_reports_it_too(world: World, blocked: Path, truth: dict[str, Any]) -> None:
    url = f"http://127.0.0.1:{truth['http_port']}/info"
    ended = world.svload("load", url, "-n", "10", "-c", "1", "--quiet", "--json")
    assert says(ended.stderr, blocked), ended.stderr
    assert json.loads(ended.stdout)["requests"] == 10


def test_bringing_up_a_lab_reports_it(world: World, blocked: Path) -> None:
    up = world.svload("lab", "up", world.study(STUDY), "--for", "60s")
    assert up.returncode == 0 and says(up.stderr, blocked), up.stderr
    reset = world.svload("lab", "reset")
    assert reset.returncode == 0 and says(reset.stderr, blocked), reset.stderr
    world.succeed("lab", "down")
