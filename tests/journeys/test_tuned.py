"""A study over parameter sets: the kernel's settings in the lab's own network, a server's parameters in
the server, live where that is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .world import World, complete, only_run

BASE: dict[str, Any] = {
    "name": "tuned",
    "lab": {"store": {"kit": "truth", "role": "store"}},
    "traffic": {"users": {"executor": "constant-vus", "vus": 2, "request": "GET http://store/"}},
    "measure": {"duration": "0.2s", "replicates": 2},
}


def run_study(world: World, study: dict[str, Any], *words: str) -> tuple[list[dict[str, Any]], str]:
    """Run a study; return each trial's lab with its case's levels, in the order they ran, and the output."""
    folder = world.root / "tuned"
    folder.mkdir()
    (folder / "study.yaml").write_text(json.dumps(study))
    ended = world.svload("run", str(folder), *words, "--out", str(world.runs))
    run = only_run(world)
    complete(run, ended.stderr)
    levels = {
        case["name"]: case["levels"] for case in json.loads((run / "study.lock.json").read_text())["cases"]
    }
    labs = []
    for trial in json.loads((run / "plan" / "000.json").read_text())["trials"]:
        lab = json.loads((run / "trials" / trial["trial"] / "lab.json").read_text())
        labs.append(lab | {"levels": levels[trial["case"]], "restart": trial["restart"]})
    return labs, ended.stderr


def found(settings: list[dict[str, Any]]) -> dict[str, str]:
    return {one["name"]: one["found"] for one in settings}


@pytest.mark.truth
def test_kernel_settings_stay_in_the_labs_network(world: World, needs: Callable[..., None]) -> None:
    needs("root")
    before = Path("/proc/sys/net/core/somaxconn").read_text()
    study = {
        **BASE,
        "lab": {"store": {"kit": "truth", "role": "store", "backlog": 600}},
        "sysctl": {"net.core.netdev_max_backlog": 1234},
        "sets": {
            "short": {"sysctl": {"net.core.somaxconn": 50}},
            "long": {"sysctl": {"net.core.somaxconn": 500}},
        },
        "tuning": "${tuning}",
        "factors": {"tuning": ["short", "long"]},
    }
    labs, result = run_study(world, study)
    assert len(labs) == 4
    for lab in labs:
        asked = {"short": "50", "long": "500"}[lab["levels"]["tuning"]]
        kernel = {one["name"]: one for one in lab["settings"]}
        assert (kernel["net.core.somaxconn"]["found"], kernel["net.core.somaxconn"]["layer"]) == (
            asked,
            "network",
        )
        assert kernel["net.core.netdev_max_backlog"]["found"] != "1234"
        assert found(lab["services"][0]["settings"])["backlog"] == asked, (
            "it acts: the accept queue is as long"
        )
    assert "net.core.netdev_max_backlog: asked 1234, in force" in result
    assert "--host-settings" in result
    assert Path("/proc/sys/net/core/somaxconn").read_text() == before
