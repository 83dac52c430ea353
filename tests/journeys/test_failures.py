"""Servers that die under load: the death of a limited server is a finding if the study says so; otherwise the
lab has failed, and the trial is tried once more. Three failures in a row stop the run, which can be
resumed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import program

from .world import World, complete, lab_of, only_run, sealed

pytestmark = pytest.mark.truth

LIMITED = program(
    """
    if self.path == "/eat":
        kept.append(bytearray(48 << 20))
    if self.path == "/worker" and os.fork() == 0:
        kept.append(bytearray(128 << 20))
        os._exit(0)
    if self.path == "/leave":
        os._exit(7)
    self.answer()
    """,
    before="kept = []",
)


def limited(world: World, does: str, **limits: Any) -> str:
    users = {"executor": "constant-vus", "vus": 2, "think_time": "50ms", "request": "GET http://api/${does}"}
    study = {
        "name": "mortal",
        "lab": {"api": {"run": f"{sys.executable} server.py ${{port}}", "ready": "GET /", **limits}},
        "factors": {"does": ["lives", does]},
        "traffic": {"users": users},
        "measure": {"duration": "1s", "replicates": 2, "order": "as-listed"},
    }
    return world.study(study, server=LIMITED)


@pytest.mark.parametrize(("does", "cause"), [("eat", "oom_kill"), ("leave", "exit"), ("worker", "oom_kill")])
def test_a_death_is_found(world: World, needs: Callable[..., None], does: str, cause: str) -> None:
    needs("root")
    study = limited(world, does, memory="64 MiB", on_death="finding")
    found = world.run(study, "--trust")
    run = only_run(world)
    assert len(found["trials"]) == 4
    assert not list(run.glob("attempts/*")), "no failure of the lab"
    by_case = {case["levels"]["does"]: case["case"] for case in found["cases"]}
    for trial in found["trials"]:
        deaths = lab_of(run, trial["trial"])["deaths"]
        if trial["case"] == by_case["lives"]:
            assert deaths == []
            assert trial["metrics"]["users.success_rate"]["value"] == 1.0, "up again"
            continue
        assert trial["verdict"]["server"] == "OVERLOADED", trial["verdict"]["reasons"]
        [death] = deaths
        assert (death["service"], death["cause"]) == ("api", cause)
        assert death["offset_s"] >= 0
        assert death["limits"] == {"api.memory_bytes": 64 << 20}
    [sentence] = [one["sentence"] for one in found["findings"] if one["kind"] == "death"]
    assert sentence.startswith(f"In 2 of 2 trials of {by_case[does]} a limited server ended.")
    assert ("lack of memory" in sentence) == (cause == "oom_kill")


def test_otherwise_the_lab_has_failed(world: World, needs: Callable[..., None]) -> None:
    needs("root")
    study = limited(world, "worker", memory="64 MiB")
    ended = world.svload("run", study, "--trust", "--out", str(world.runs))
    assert ended.returncode == 3
    assert "lack of memory" in ended.stderr
    assert list(only_run(world).glob("attempts/*"))


MORTAL = program(
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


def mortal(world: World, deaths: int) -> str:
    """Write the study of a server that dies this often."""
    (world.root / "fate").write_text(str(deaths))
    return world.study(STUDY, server=MORTAL)


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


def test_three_failures_in_a_row_stop_the_run_and_resume_goes_on_with_its_own_lock(world: World) -> None:
    study = mortal(world, deaths=4)
    ended = world.svload("run", study, "--trust", "--out", str(world.runs))
    assert ended.returncode == 3
    assert [kind for kind, _ in order(only_run(world))] == ["trial-failed"] * 3
    assert f"svload resume {only_run(world)}" in ended.stderr
    assert world.left() == []
    world.study(STUDY | {"question": "edited since?"})
    (world.root / "fate").write_text("0")
    resumed = world.svload("resume", str(only_run(world)), "--out", str(world.runs))
    found = complete(only_run(world), resumed.stderr)
    assert "changed after this run started; the run continues with its own lock" in resumed.stderr
    assert len({name.split("/")[1] for name in sealed(only_run(world))}) == 4
    assert found["question"] == ""
