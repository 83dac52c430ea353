"""`replace_refused: n`: a block's refused trial is made again, at most n times, by the final
verdict; nothing leaves the record."""

from __future__ import annotations

import json

import pytest

from .world import World, only_run

pytestmark = pytest.mark.truth
STUDY = {
    "name": "again",
    "lab": {"web": {"kit": "truth", "role": "store", "service_time": "2 ms", "workers": 4}},
    # The second level says what cannot be true: its factor never acts, and each of its trials is refused.
    "factors": {"say": {"right": {"path": "/a"}, "wrong": {"path": "/b", "expect": "web.requests == 0"}}},
    "requests": {"get": {"get": "http://web${say.path}"}},
    "traffic": {"users": {"executor": "constant-vus", "vus": 4, "think_time": "10ms", "request": "get"}},
    "measure": {"duration": "0.2s", "replicates": 2, "replace_refused": 2},
}


def test_a_refused_trial_is_made_again_as_often_as_the_study_says(world: World) -> None:
    path = world.root / "study.yaml"
    path.write_text(json.dumps(STUDY))
    found = world.run(path)
    refused = [
        trial["trial"]
        for trial in found["trials"]
        for check in trial["verdict"]["checks"]
        if (check["check"], check["grade"]) == ("manipulation", "REFUSED")
    ]
    # Two blocks, each with its own trial and two more.
    assert len(refused) == 6 and len({name.split(".")[0] for name in refused}) == 1
    plans = sorted((only_run(world) / "plan").glob("*.json"))
    later = [json.loads(plan.read_text()) for plan in plans[1:]]
    assert len(later) >= 2
    for batch in later:
        assert batch["because"].startswith("replace_refused: 2; refused: ")
        assert all(batch["decided_from"].values())
