"""A limit holds a service as one, however many processes it has: nginx with 2 and with 4 workers, under
one quota, under a machine's, and under limits that change while it runs; a kill -9 leaves none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from svload.host.machine import fabric

from .limited import HELD, WORKERS, Moment, measure, play, write_study
from .world import World

pytestmark = pytest.mark.real


@pytest.mark.timing
@pytest.mark.parametrize(
    ("lab", "whose"),
    [
        ({"site": {"cpus": 0.1}}, "site"),
        ({"vm": {"kit": "machine", "cpus": 0.1}, "site": {"within": "vm", "memory": "256 MiB"}}, "vm"),
    ],
)
def test_one_quota_for_all_workers(
    world: World, needs: Callable[..., None], lab: dict[str, Any], whose: str
) -> None:
    """When each process had a quota of its own, four workers used a core."""
    needs("root", "nginx")
    folder = world.root / "limited"
    folder.mkdir()
    study = {
        "name": "limited",
        "lab": {
            **lab,
            "site": {"kit": "nginx", "files": {"/a": "4 KiB"}, "workers": "${workers}", **lab["site"]},
        },
        "factors": {"workers": [2, 4]},
        "traffic": {"users": {"executor": "constant-vus", "vus": 16, "request": "GET http://site/a"}},
        "measure": {"duration": "2s", "replicates": 2},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    for trial in world.run(folder, "--trust")["trials"]:
        [check] = [one for one in trial["verdict"]["checks"] if one["check"] == "limits-acted"]
        assert check["grade"] == "VALID"
        told = re.search(
            rf"{whose} used ([\d.]+) % of its 0.1 cores and was held back for ([\d.]+) s", check["sentence"]
        )
        assert told is not None, check["sentence"]
        assert 80 < float(told[1]) < 110, "a quota's period may be left from before"
        assert float(told[2]) > 0.2


@pytest.mark.parametrize("phase_s", [0.4, pytest.param(3.0, marks=pytest.mark.timing)])
def test_limits_lowered_under_load_hold(world: World, needs: Callable[..., None], phase_s: float) -> None:
    """What the kernel holds, always; what it lets through, where the machine leaves the servers their cores."""
    can_hold(needs)
    strict = phase_s == 3.0
    seen = measure(world, write_study(world.root / "limited", phase_s), used=strict)
    assert {(one.workers, one.held.option) for one in seen} == {
        (workers, held.option) for workers in WORKERS for held in HELD
    }
    for one in seen:
        assert one.is_set_and_back, one
        assert not strict or one.holds(1.7), one
    assert world.silent() == []


@pytest.mark.parametrize("moment", [Moment("all", 1, 0.2), Moment("controller", 2, 0.1)])
def test_kill_9_leaves_nothing(world: World, needs: Callable[..., None], moment: Moment) -> None:
    can_hold(needs)
    done = play(world, write_study(world.root / "limited", 0.6, together=True), moment)
    assert done.after == []
    assert moment.victim != "all" or done.undone > 0, "nobody else could do it"


def can_hold(needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)
