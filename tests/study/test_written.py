"""Written objects as rows, popular rows, and renewed tokens: from the study file to the share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svload.drive.packing import packed
from svload.drive.share.cut import build_shares
from svload.drive.share.requests import Taken
from svload.drive.share.timeline import timeline
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import TakenPart, WrittenSet
from svload.run.fits import overfull, written_bytes
from svload.study import resolve

from .conftest import load_text, refusal

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
    lock = load_text(folder, STUDY | changes)
    return resolve(lock, lock.valid_cases[0])


def mistakes(folder: Path, **changes: Any) -> str:
    return refusal(folder, STUDY | changes)


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
    assert reason in mistakes(tmp_path, **changes)


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


# 4 users, a cycle of at least 0.1 s, 10 s: 402.5 iterations (users begin spread), of which 3 in 10 write.
UPLOADS = 402.5 * 0.3


def test_uploads_are_held_against_the_disk(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert sum(written_bytes(config).values()) == pytest.approx(UPLOADS * 10_000)
    assert overfull([config], 10e6) == ()
    [problem] = overfull([config], 2e6)
    assert (problem.code, "2.3 MiB" in str(problem)) == ("plan-too-large", True)
    (tmp_path / "body.bin").write_bytes(bytes(5_000))
    of_file = read(tmp_path, requests=request("put", body={"file": "body.bin"}))
    assert sum(written_bytes(of_file).values()) == pytest.approx(UPLOADS * 5_000)


def test_a_store_that_is_restarted_before_each_trial_keeps_one_trial_alone(tmp_path: Path) -> None:
    often = {"lab": STARTED, "measure": {"duration": "10s", "replicates": 9}}
    kept, emptied = read(tmp_path, **often), read(tmp_path, **often, before_trial=[{"restart": "store"}])
    assert overfull([kept], 2e6)
    assert overfull([emptied], 2e6) == ()
    assert overfull([emptied], 1e6), "one trial must fit"


SETS = {"photos": {"in": "store", "count": 9, "size": "1 kB"}}
FROM = {"object": {"written": "md5", "from": "photos"}}
STARTED = {"store": {"kit": "truth", "role": "store"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"measure": {"duration": "10s", "replicates": 1}},
        {"before_trial": [{"restart": "store"}]},
        {"traffic": {"users": STUDY["traffic"]["users"] | {"mix": {"put": 3, "get": 6}}}},
        {"feeders": STUDY["feeders"]},  # only rows of its own
    ],
)
def test_rows_that_a_trial_deletes_must_come_back(tmp_path: Path, changes: dict[str, Any]) -> None:
    begun = {"lab": STARTED, "data": SETS, "feeders": FROM}
    wrong = mistakes(tmp_path, **begun)
    assert "delete deletes rows of object with which each of 2 replicates begins" in wrong
    assert f"{tmp_path}/study.yaml:1" in wrong
    assert mistakes(tmp_path, **begun | changes) == ""


PUTS = {"put": "http://store${object.path}"}


@pytest.mark.parametrize(
    "changes", [PUTS, {"headers": TOKEN | {"X": "${object.digest}"}}, {"body": "${object.size_bytes} bytes"}]
)
def test_what_is_not_yet_written_has_no_name(tmp_path: Path, changes: dict[str, Any]) -> None:
    wrong = mistakes(tmp_path, requests=request("put", **changes))
    assert "put adds to object and names ${object." in wrong
    assert "study.yaml:" in wrong


def test_checks_and_later_steps_may_name_it(tmp_path: Path) -> None:
    """An object is put twice under one name; after a delete there is none."""
    assert mistakes(tmp_path, requests=request("put", check=["header.ETag == ${object.digest}"])) == ""
    again = request("put") | {"again": STUDY["requests"]["put"] | PUTS}
    mix = {"users": STUDY["traffic"]["users"] | {"mix": {"twice": 1}}}
    config = read(tmp_path, requests=again, scenarios={"twice": ["put", "again"]}, traffic=mix)
    assert [step.name for step in config.groups[0].steps] == ["put", "again", "renewal"]
    for steps in (["again", "put"], ["put", "delete", "again"]):
        changes = {"requests": again, "scenarios": {"twice": steps}, "traffic": mix}
        assert "again adds to object" in mistakes(tmp_path, **changes)
