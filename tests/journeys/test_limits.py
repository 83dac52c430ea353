"""A limit holds a service as one, however many processes it has: nginx with 2 and with 4 workers, under
one quota and under a machine's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from .world import World, findings, only_run

pytestmark = pytest.mark.real


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
    ended = world.svload("run", str(folder), "--trust", "--out", str(world.runs))
    assert ended.returncode in (0, 1, 4), ended.stderr[-2000:]
    for trial in findings(only_run(world))["trials"]:
        [check] = [one for one in trial["verdict"]["checks"] if one["check"] == "limits-acted"]
        assert check["grade"] == "VALID"
        told = re.search(
            rf"{whose} used ([\d.]+) % of its 0.1 cores and was held back for ([\d.]+) s", check["sentence"]
        )
        assert told is not None, check["sentence"]
        assert 80 < float(told[1]) < 110, "a quota's period may be left from before"
        assert float(told[2]) > 0.2
