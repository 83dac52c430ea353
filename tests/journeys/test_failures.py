"""Servers that die under load: one new attempt at the end of the block, all attempts kept; three failures
in a row stop the run, which can be resumed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.servers import program

from .world import World, complete, only_run, sealed

pytestmark = pytest.mark.truth
SERVER = program(
    """
    left = int(fate.read_text())
    if self.path != "/health" and left:
        fate.write_text(str(left - 1))
        os._exit(7)
    self.answer()
    """,
    before="from pathlib import Path\nfate = Path('fate')  # it dies as long as the file says how often",
)
STUDY = {
    "name": "mortal",
    "lab": {"api": {"run": f"{sys.executable} server.py ${{port}}", "ready": "GET /health"}},
    "factors": {"users": [1, 2]},
    "traffic": {"crowd": {"executor": "constant-vus", "vus": "${users}", "think_time": "10ms", "request": "GET http://api/"}},
    "measure": {"duration": "0.2s", "replicates": 2},
}  # fmt: skip


def mortal(world: World, deaths: int) -> Path:
    """Write the study of a server that dies this often."""
    folder = world.root / "mortal"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "fate").write_text(str(deaths))
    (folder / "study.yaml").write_text(json.dumps(STUDY))
    return folder


def order(run: Path) -> list[tuple[str, str]]:
    """Return (kind, trial) of the trials' events in the run's journal."""
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [(one["kind"], one["data"]["trial"]) for one in events if one["kind"] in ("trial-sealed", "trial-failed")]  # fmt: skip


@pytest.mark.smoke
def test_a_trial_whose_server_died_is_tried_once_more_at_the_end_of_its_block(world: World) -> None:
    study = mortal(world, deaths=1)
    found = world.run(study, "--trust")
    result = order(only_run(world))
    (_, failed), (_, next_one), (_, again) = result[:3]
    assert [kind for kind, _ in result] == ["trial-failed", *["trial-sealed"] * 4]
    assert failed == again != next_one, "the block's other trial comes first"
    (attempt,) = found["attempts"]
    assert attempt["attempt"] == f"{failed}.a1"
    assert "(exit 7)" in attempt["text"]
    assert world.silent() == []


def test_three_failures_in_a_row_stop_the_run_and_resume_goes_on_with_its_own_lock(world: World) -> None:
    study = mortal(world, deaths=4)
    ended = world.svload("run", str(study), "--trust", "--out", str(world.runs))
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    assert [kind for kind, _ in order(only_run(world))] == ["trial-failed"] * 3
    assert f"svload resume {only_run(world)}" in ended.stderr
    assert world.left() == []
    (study / "study.yaml").write_text(json.dumps(STUDY | {"question": "edited since?"}))
    (study / "fate").write_text("0")
    resumed = world.svload("resume", str(only_run(world)), "--out", str(world.runs))
    found = complete(only_run(world), resumed.stderr)
    assert "changed after this run started; the run continues with its own lock" in resumed.stderr
    assert len({name.split("/")[1] for name in sealed(only_run(world))}) == 4
    assert found["question"] == ""
