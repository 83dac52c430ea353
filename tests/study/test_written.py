"""Written objects as rows, popular rows, and renewed tokens: from the study file to the share."""

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
    assert TakenPart(taken="object.path", raw=True) in get.parts  # it is already encoded
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


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"requests": request("put", adds="objects")}, "feeder of written objects"),
        ({"requests": request("delete", removes="other")}, "feeder of written objects"),
        ({"requests": request("get", adds="object")}, "adds belongs to a request with a body"),
        ({"feeders": {"object": {"written": "md5", "take": "first"}}}, "taken at random"),
        ({"feeders": {"object": {"range": [1, 9], "skew": 2}}}, "skew belongs to take: zipf"),
        ({"traffic": {"users": STUDY["traffic"]["users"] | {"generators": 2}}}, "expected one generator"),
        ({"setup": [STUDY["setup"][0] | {"renew": 0}]}, "renew takes a time"),
    ],
)
def test_what_makes_no_sense_is_reported(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
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
    asks = {"writers": "put", "others": "GET http://store/", "readers": "get"}
    config = read(tmp_path, traffic={name: users | {"request": request} for name, request in asks.items()})
    names = [{config.groups[part.group].name for part in process} for process in packed(config, 8)]
    assert names == [{"writers", "readers"}, {"others"}]


def test_uploads_are_held_against_the_disk(tmp_path: Path) -> None:
    config = read(tmp_path)
    # 4 users, a cycle of at least 0.1 s, 10 s: 402.5 iterations (users begin spread), of which 3 in 10 write 10 kB.
    assert written_bytes(config) == pytest.approx(402.5 * 0.3 * 10_000)
    assert overfull([config], 10e6) == ()
    [problem] = overfull([config], 2e6)
    assert problem.code == "plan-too-large"
    assert "2.3 MiB" in str(problem)


def test_a_body_in_a_file_takes_the_files_bytes(tmp_path: Path) -> None:
    (tmp_path / "body.bin").write_bytes(bytes(5_000))
    config = read(tmp_path, requests=request("put", body={"file": "body.bin"}))
    assert written_bytes(config) == pytest.approx(402.5 * 0.3 * 5_000)


def test_a_store_that_is_restarted_before_each_trial_keeps_one_trial_alone(tmp_path: Path) -> None:
    lab = {"store": {"kit": "truth", "role": "store"}}
    often = {"lab": lab, "measure": {"duration": "10s", "replicates": 9}}
    kept, emptied = read(tmp_path, **often), read(tmp_path, **often, before_trial=[{"restart": "store"}])
    assert overfull([kept], 2e6)
    assert overfull([emptied], 2e6) == ()
    assert overfull([emptied], 1e6), "one trial must fit"


SETS = {"photos": {"in": "store", "count": 9, "size": "1 kB"}}
FROM = {"object": {"written": "md5", "from": "photos"}}


def test_rows_that_a_trial_deletes_are_not_those_that_the_next_begins_with(tmp_path: Path) -> None:
    lab = {"store": {"kit": "truth", "role": "store"}}
    wrong = told(tmp_path, lab=lab, data=SETS, feeders=FROM)
    assert "delete deletes rows of object with which each of 2 replicates begins" in wrong
    text = (tmp_path / "study.yaml").read_text()
    assert f"{tmp_path}/study.yaml:1" in wrong and "from" in text
    once = {"duration": "10s", "replicates": 1}
    assert read(tmp_path, lab=lab, data=SETS, feeders=FROM, measure=once)
    assert read(tmp_path, lab=lab, data=SETS, feeders=FROM, before_trial=[{"restart": "store"}])
    kept = {"users": STUDY["traffic"]["users"] | {"mix": {"put": 3, "get": 6}}}
    assert read(tmp_path, lab=lab, data=SETS, feeders=FROM, traffic=kept)
    assert read(tmp_path, lab=lab, data=SETS), "rows of its own alone"


PUTS = {"put": "http://store${object.path}"}


@pytest.mark.parametrize(
    "changes", [PUTS, {"headers": TOKEN | {"X": "${object.digest}"}}, {"body": "${object.size_bytes} bytes"}]
)
def test_what_is_not_yet_written_has_no_name(tmp_path: Path, changes: dict[str, Any]) -> None:
    wrong = told(tmp_path, requests=request("put", **changes))
    assert "put adds to object and names ${object." in wrong
    assert "study.yaml:" in wrong


def test_what_an_earlier_step_has_written_has_one(tmp_path: Path) -> None:
    """An object is put twice under one name; after a delete there is none."""
    again = request("put") | {"again": STUDY["requests"]["put"] | PUTS}
    mix = {"users": STUDY["traffic"]["users"] | {"mix": {"twice": 1}}}
    config = read(tmp_path, requests=again, scenarios={"twice": ["put", "again"]}, traffic=mix)
    assert [step.name for step in config.groups[0].steps] == ["put", "again", "renewal"]
    for steps in (["again", "put"], ["put", "delete", "again"]):
        wrong = told(tmp_path, requests=again, scenarios={"twice": steps}, traffic=mix)
        assert "again adds to object" in wrong


def test_checks_may_name_what_was_sent(tmp_path: Path) -> None:
    assert read(tmp_path, requests=request("put", check=["header.ETag == ${object.digest}"]))
