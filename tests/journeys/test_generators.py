"""Ten generators of one group: the results of each are kept separately, and their sums equal the group's."""

from __future__ import annotations

import json

import pytest

from svload.model.results import TrialSummary

from .world import World, only_run

ASKED = {"get": "http://store${object.path}"}


def study(record: str) -> dict[str, object]:
    users = {"executor": "constant-vus", "vus": 40, "generators": 10, "think_time": "5ms", "record": record}
    probe = {"executor": "constant-vus", "vus": 1, "think_time": "20ms", "request": ASKED}
    return {
        "name": "ten",
        "lab": {"store": {"kit": "truth", "role": "store"}},
        "data": {"objects": {"in": "store", "count": 20, "size": "1 KiB"}},
        "feeders": {"object": {"from": "objects", "take": "walk"}},
        "traffic": {"users": {**users, "request": ASKED}, "probe": probe},
        "measure": {"duration": "0.5s", "replicates": 1},
    }


@pytest.mark.truth
@pytest.mark.parametrize("record", ["rows", "histogram"])
def test_each_generator_is_kept_apart_and_all_are_the_group(world: World, record: str) -> None:
    folder = world.root / "ten"
    folder.mkdir()
    (folder / "study.yaml").write_text(json.dumps(study(record)))
    found = world.run(folder)
    run = only_run(world)
    for trial in sorted((run / "trials").iterdir()):
        summary = TrialSummary.read(trial / "summary.json")
        users = next(group for group in summary.groups if group.name == "users")
        assert [(part.group, part.generator) for part in summary.parts] == [("users", k) for k in range(10)]
        for name in ("due", "begun", "ok", "failed", "connections_opened", "bytes_received"):
            assert sum(getattr(part, name) for part in summary.parts) == getattr(users, name), name
        assert {
            key: sum(part.status.get(key, 0) for part in summary.parts) for key in users.status
        } == users.status
        assert {part.share for part in summary.parts} <= {one.share for one in summary.generators}
        assert all(part.connections_opened == 4 for part in summary.parts), "four of the forty users each"
        assert all(0 < part.response_p50_ns <= part.response_p99_ns for part in summary.parts)
        assert sum(part.responses for part in summary.parts) <= users.ok
    [case] = found["cases"]
    assert [one["generator"] for one in case["generators"]] == list(range(10))
    page = (run / "derived" / "report.html").read_text()
    assert "By generator" in page
