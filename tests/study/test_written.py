"""Written objects as rows, popular rows, and tokens that are renewed: from the study file to the share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from svload.drive.packing import packed
from svload.drive.share.cut import build_shares
from svload.drive.share.requests import Taken
from svload.drive.share.timeline import timeline
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import TakenPart, WrittenSet
from svload.run.fits import overfull, written_bytes
from svload.study import load_study, resolve

TOKEN = {"X-Auth-Token": "${token}"}
STUDY: dict[str, Any] = {
    "name": "written",
    "lab": {"store": {"at": "http://127.0.0.1:8080"}},
    "feeders": {"object": {"written": "md5"}},
    "setup": [{"request": "token", "renew": "5s"}],
    "requests": {
        "token": {"get": "http://store/auth", "take": {"token": {"header": "X-Auth-Token"}}},
        "put": {"put": "http://store/c/${request.id}", "headers": TOKEN, "body": {"random": "10 kB"}, "adds": "object"},
        "get": {"get": "http://store${object.path}", "headers": TOKEN, "check": ["size_bytes == ${object.size_bytes}", "md5 == ${object.digest}"]},
        "delete": {"delete": "http://store${object.path}", "headers": TOKEN, "removes": "object"},
    },
    "traffic": {"users": {"executor": "constant-vus", "vus": 4, "think_time": "0.1s", "mix": {"put": 3, "get": 6, "delete": 1}}},
    "measure": {"duration": "10s", "replicates": 2},
}  # fmt: skip


def read(folder: Path, **changes: Any) -> CaseConfig:
    (folder / "study.yaml").write_text(json.dumps(STUDY | changes))
    lock = load_study(folder)
    return resolve(lock, lock.valid_cases[0])


def told(folder: Path, **changes: Any) -> str:
    with pytest.raises(SvloadError) as caught:
        read(folder, **changes)
    return str(caught.value)


def request(name: str, **changes: Any) -> dict[str, Any]:
    requests: dict[str, Any] = STUDY["requests"]
    return requests | {name: requests[name] | changes}


def test_what_a_request_uploads_is_what_others_ask_for(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.sets == (WrittenSet(name="object", digest="md5"),)
    assert config.feeders == ()
    put, get, delete, renewal = (step.request for step in config.groups[0].steps)
    assert (put.adds, put.draws, put.removes) == ("object", None, False)
    assert (get.adds, get.draws, get.removes) == (None, "object", False)
    assert (delete.draws, delete.removes) == ("object", True)
    assert TakenPart(taken="object.path") in get.parts
    assert renewal.takes == ("token",)


def test_the_share_says_so(tmp_path: Path) -> None:
    config = read(tmp_path)
    endpoint = Endpoint(scheme="http", address="127.0.0.1", port=8080)
    [share] = build_shares(
        config, 7, timeline(config, 10**10), {"http://store": endpoint}, ["127.0.0.0/8"], taken=Taken({"token": "t0"})
    )  # fmt: skip
    [group] = share.spec.groups
    assert group.sets["object"].digest == "md5"
    assert group.given == {"token": "t0"}
    assert [scenario.weight for scenario in group.scenarios] == [3, 6, 1, 0]
    assert group.scenarios[-1].renew_ns == 5 * 10**9
    assert group.scenarios[0].steps[0].request.adds == "object"
    assert group.scenarios[2].steps[0].request.removes


def test_a_token_without_renewal_is_put_in_once(tmp_path: Path) -> None:
    config = read(
        tmp_path, setup=[{key: value for key, value in STUDY["setup"][0].items() if key != "renew"}]
    )
    assert [scenario.renew_ns for scenario in config.groups[0].scenarios] == [None, None, None]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"requests": request("put", adds="objects")}, "feeder of written objects"),
        ({"requests": request("delete", removes="other")}, "feeder of written objects"),
        ({"requests": request("get", adds="object")}, "adds belongs to a request with a body"),
        ({"feeders": {"object": {"written": "md5", "take": "first"}}}, "taken at random"),
        ({"feeders": {"object": {"range": [1, 9], "skew": 2}}}, "skew belongs to take: zipf"),
        ({"traffic": {"users": STUDY["traffic"]["users"] | {"generators": 2}}}, "one generator was expected"),
        ({"setup": [STUDY["setup"][0] | {"renew": 0}]}, "renew takes a time"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert reason in told(tmp_path, **changes)


def test_popular_rows(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        feeders={"object": {"written": "md5"}, "one": {"range": [1, 9], "take": "zipf", "skew": 1.2}, "two": {"range": [1, 9], "take": "hot", "hot": {"rows": 0.2}}},
        requests=STUDY["requests"] | {"get": {"get": "http://store/${one.value}/${two.value}"}},
    )  # fmt: skip
    one, two = config.feeders
    assert (one.take, one.skew, two.take, two.hot) == ("zipf", 1.2, "hot", (0.2, 0.9))


def test_groups_that_share_written_objects_share_a_process(tmp_path: Path) -> None:
    users = {"executor": "constant-vus", "vus": 4, "think_time": "0.1s"}
    traffic = {
        "writers": users | {"request": "put"},
        "others": users | {"request": "GET http://store/"},
        "readers": users | {"request": "get"},
    }
    config = read(tmp_path, traffic=traffic)
    names = [{config.groups[part.group].name for part in process} for process in packed(config, 8)]
    assert names == [{"writers", "readers"}, {"others"}]


def test_uploads_are_held_against_the_disk(tmp_path: Path) -> None:
    config = read(tmp_path)
    # 4 users, a cycle of at least 0.1 s, 10 s: 400 iterations, of which 3 in 10 write 10 kB.
    assert written_bytes(config) == pytest.approx(400 * 0.3 * 10_000, rel=0.02)
    assert overfull([config], 10e6) == ()
    [problem] = overfull([config], 2e6)
    assert problem.code == "plan-too-large"
    assert "2.28 MiB" in str(problem)
