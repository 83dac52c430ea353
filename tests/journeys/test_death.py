"""Death of a limited server within its trial: a finding if the study says so, else a lab failure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import program

from .world import World, only_run

pytestmark = pytest.mark.truth
SERVER = program(
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


def write_study(folder: Path, does: str, **limits: Any) -> str:
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    study = {
        "name": "mortal",
        "lab": {"api": {"run": f"{sys.executable} server.py ${{port}}", "ready": "GET /", **limits}},
        "factors": {"does": ["lives", does]},
        "traffic": {
            "users": {
                "executor": "constant-vus",
                "vus": 2,
                "think_time": "50ms",
                "request": "GET http://api/${does}",
            }
        },
        "measure": {"duration": "1s", "replicates": 2, "order": "as-listed"},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    return str(folder)


def labs_of(run: Path) -> dict[str, dict[str, Any]]:
    sealed = sorted(path.parent for path in run.glob("trials/*/seal.json"))
    return {trial.name: json.loads((trial / "lab.json").read_text()) for trial in sealed}


@pytest.mark.parametrize(("does", "cause"), [("eat", "oom_kill"), ("leave", "exit"), ("worker", "oom_kill")])
def test_a_death_is_found(world: World, needs: Callable[..., None], does: str, cause: str) -> None:
    needs("root")
    study = write_study(world.root / "mortal", does, memory="64 MiB", on_death="finding")
    found = world.run(study, "--trust")
    run = only_run(world)
    assert len(labs_of(run)) == 4
    assert not list(run.glob("attempts/*")), "no failure of the lab"
    by_case = {case["levels"]["does"]: case["case"] for case in found["cases"]}
    for name, lab in labs_of(run).items():
        if name.startswith(by_case["lives"]):
            assert lab["deaths"] == []
            continue
        [death] = lab["deaths"]
        assert (death["service"], death["cause"]) == ("api", cause)
        assert death["offset_s"] >= 0
        assert death["limits"] == {"api.memory_bytes": 64 << 20}
    results = {trial["trial"]: trial for trial in found["trials"]}
    for name, result in results.items():
        fell = name.startswith(by_case[does])
        assert not fell or result["verdict"]["server"] == "OVERLOADED", result["verdict"]["reasons"]
        assert fell or result["metrics"]["users.success_rate"]["value"] == 1.0, "up again"
    [sentence] = [one["sentence"] for one in found["findings"] if one["kind"] == "death"]
    assert sentence.startswith(f"In 2 of 2 trials of {by_case[does]} a limited server ended.")
    assert ("lack of memory" in sentence) == (cause == "oom_kill")


@pytest.mark.parametrize(
    ("does", "text"), [("leave", "exited unexpectedly (exit 7)"), ("worker", "lack of memory")]
)
def test_otherwise_the_lab_has_failed(world: World, needs: Callable[..., None], does: str, text: str) -> None:
    needs("root")
    study = write_study(world.root / "mortal", does, memory="64 MiB")
    ended = world.svload("run", study, "--trust", "--out", str(world.runs))
    assert ended.returncode == 3
    assert text in ended.stderr
    run = only_run(world)
    assert list(run.glob("attempts/*"))
