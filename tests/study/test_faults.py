"""Planned faults and sampled services: read with their references, refused where they are impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svload.lab import find_mistakes, kit_options
from svload.model.faults import acts_of
from svload.model.study import CaseConfig
from svload.study import resolve

from .conftest import Study, line_of, load_text, problems_of, refusal

SECOND = 1_000_000_000


CHECKS: dict[str, Any] = {"kits": kit_options(), "check_lab": find_mistakes}


def study(*faults: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "planned",
        "lab": {
            "web": {"kit": "truth", "role": "store", "replicas": "${servers}"},
            "front": {"run": "./front ${port} ${web.addresses}"},
            "store": {"kit": "swift", "link": {"rate": "1 Gbit/s"}},
            "vm": {"kit": "machine", "cpus": 2},
            "far": {"at": "http://127.0.0.1:9"},
        },
        "factors": {"servers": [1, 2]},
        "faults": list(faults),
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "GET http://front/"}},
        "measure": {"duration": "30s"},
        **more,
    }


def configs(folder: Path, study: Study, **chosen: Any) -> list[CaseConfig]:
    lock = load_text(folder, study, **CHECKS, **chosen)
    return [resolve(lock, case) for case in lock.valid_cases]


def test_each_target_is_a_fault_of_its_own_and_what_takes_it_back_is_an_act(tmp_path: Path) -> None:
    both = {"link": {"rate": "10 Mbit/s"}, "disk_rate": {"read": "20 MB/s"}}
    written = study(
        {"at": "10s", "stop": ["web", "front"]},
        {"at": "20s", "start": "web[1]"},
        {"at": "5s", "pause": "front", "for": "2s"},
        {"at": "8s", "limit": {"vm": {"cpus": 0.5, "memory": "64 MiB", "pids": 9}}, "for": "4s"},
        {"at": "1s", "kill": "store.object", "for": "500 ms"},
        {"at": "15s", "limit": {"store": both, "store.proxy": {"cpus": 0.5}}},
    )
    one, _ = configs(tmp_path, written)
    assert [(fault.place, fault.kind, fault.target) for fault in one.faults] == [
        (0, "stop", "web"), (0, "stop", "front"), (1, "start", "web[1]"), (2, "pause", "front"), (3, "limit", "vm"), (4, "kill", "store.object"),
        (5, "limit", "store"), (5, "limit", "store.proxy"),
    ]  # fmt: skip
    assert one.faults[6].limits == {"link_rate_bytes_per_s": 1_250_000, "disk_read_bytes_per_s": 20_000_000}
    assert one.faults[4].limits == {"cpus": 0.5, "memory_bytes": 64 << 20, "pids": 9}
    assert [(act.at_ns / SECOND, act.do, act.target) for act in acts_of(one.faults)] == [
        (1, "kill", "store.object"), (1.5, "start", "store.object"), (5, "pause", "front"), (7, "resume", "front"), (8, "limit", "vm"),
        (10, "stop", "web"), (10, "stop", "front"), (12, "restore", "vm"),
        (15, "limit", "store"), (15, "limit", "store.proxy"), (20, "start", "web[1]"),
    ]  # fmt: skip


def test_a_level_sets_time_and_target_and_when_limits_the_fault_to_its_case(tmp_path: Path) -> None:
    late = {"no": {"at": "2s", "who": "front"}, "yes": {"at": "9s", "who": "web[1]"}}
    stop = {"at": "${late.at}", "stop": "${late.who}"}
    kill = {"when": {"servers": 2}, "at": "20s", "kill": "web[2]"}
    cases = configs(tmp_path, study(stop, kill, factors={"servers": [1, 2], "late": late}))
    found = {
        tuple(one.case.levels.values()): [(fault.at_ns // SECOND, fault.target) for fault in one.faults]
        for one in cases
    }
    assert found == {
        ("1", "no"): [(2, "front")], ("1", "yes"): [(9, "web[1]")],
        ("2", "no"): [(2, "front"), (20, "web[2]")], ("2", "yes"): [(9, "web[1]"), (20, "web[2]")],
    }  # fmt: skip


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no such service": ([{"at": "1s", "stop": "wob"}], "no such service or replica in this case: “wob”"),
    "a replica of one case": ([{"at": "1s", "stop": "web[2]"}], "no such service or replica in this case: “web[2]”"),
    "no such part": ([{"at": "1s", "stop": "store.objects"}], "no such part of store (its kit swift declares its parts): “objects”"),
    "no parts": ([{"at": "1s", "stop": "front.server"}], "no such part of front"),
    "no link": ([{"at": "1s", "limit": {"web": {"link": {"rate": "1 MB/s"}}}}], "web has no link of its own"),
    "no delay line": ([{"at": "1s", "limit": {"store": {"link": {"latency": "1 ms"}}}}], "is made without a latency"),
    "a part's link": ([{"at": "1s", "limit": {"store.object": {"link": {"rate": "1 MB/s"}}}}], "a part has no link"),
    "parts that share processes": ([{"at": "1s", "limit": {"store.object": {"cpus": 1}}}, {"at": "2s", "limit": {"store.object-2": {"cpus": 2}}}], "are those of store.object too"),
    "an empty link": ([{"at": "1s", "limit": {"store": {"link": {}}}}], "expected one of rate, latency"),
    "a part limited twice": ([{"at": "1s", "limit": {"store.object": {"cpus": 1}}}, {"at": "2s", "limit": {"store.object": {"cpus": 2}}}], "limited already from 1 s"),
    "not svload's": ([{"at": "1s", "stop": "far"}], "far can't be asked to stop"),
    "no process": ([{"at": "1s", "kill": "vm"}], "it supports only limit"),
    "too late": ([{"at": "30s", "stop": "web"}], "nothing is measured at that time"),
    "ends too late": ([{"at": "29s", "stop": "web", "for": "2s"}], "it would end after the trial"),
    "start before stop": ([{"at": "2s", "start": "web"}, {"at": "3s", "stop": "web"}], "nothing has stopped it"),
    "started twice": ([{"at": "1s", "stop": "web", "for": "1s"}, {"at": "3s", "start": "web"}], "nothing has stopped it"),
    "stopped twice": ([{"at": "1s", "stop": "web"}, {"at": "2s", "kill": "web[1]"}], "already asked to stop at 1 s"),
    "a part of what is stopped": ([{"at": "1s", "stop": "store"}, {"at": "2s", "kill": "store.proxy"}], "already asked to stop"),
    "stopped while it stands": ([{"at": "1s", "pause": "web", "for": "3s"}, {"at": "2s", "stop": "web"}], "already asked to pause"),
    "limited twice": ([{"at": "1s", "limit": {"web": {"cpus": 1}}}, {"at": "2s", "limit": {"web[1]": {"cpus": 2}}}], "limited already from 1 s"),
    "pause without end": ([{"at": "1s", "pause": "web"}], "a pause needs a duration (for)"),
    "two at once": ([{"at": "1s", "stop": "web", "kill": "front"}], "expected one of stop, kill, start, pause, limit"),
    "nothing": ([{"at": "1s"}], "expected one of stop, kill, start, pause, limit"),
    "start for a time": ([{"at": "1s", "stop": "web"}, {"at": "2s", "start": "web", "for": "1s"}], "for belongs to"),
    "no limit": ([{"at": "1s", "limit": {"web": {}}}], "expected one of cpus, memory, pids, disk_rate, link"),
    "an unknown limit": ([{"at": "1s", "limit": {"web": {"cpu": 1}}}], "Unknown key “cpu”"),
    "a quota without end": ([{"at": "1s", "limit": {"web": {"cpus": "inf"}}}], "a finite number"),
    "no moment": ([{"stop": "web"}], "“at”"),
    "the very begin": ([{"at": "0s", "stop": "web"}], "it must be above 0"),
}  # fmt: skip


@pytest.mark.parametrize(("faults", "words"), WRONG.values(), ids=WRONG)
def test_what_could_not_be_done_is_reported(tmp_path: Path, faults: list[dict[str, Any]], words: str) -> None:
    result = list(map(str, problems_of(tmp_path, study(*faults), **CHECKS)))
    assert any(words in one for one in result), result
    assert all("faults" in one for one in result), result


SOUND: list[list[dict[str, Any]]] = [
    [{"at": "1s", "stop": "web"}, {"at": "2s", "start": "web[1]"}, {"at": "3s", "pause": "web[1]", "for": "1s"}],
    [{"at": "1s", "kill": "store.object"}, {"at": "2s", "stop": "store.proxy"}, {"at": "3s", "start": "store"}],
    [{"at": "1s", "limit": {"web": {"cpus": 1}}, "for": "1s"}, {"at": "2s", "limit": {"web": {"cpus": 2}}}],
    [{"at": "1s", "limit": {"web": {"cpus": 1}}}, {"at": "2s", "limit": {"web": {"pids": 20}}}],
    [{"at": "1s", "limit": {"store": {"cpus": 1}}}, {"at": "2s", "limit": {"store.object": {"cpus": 0.5}}}],
    [{"at": "1s", "pause": "front", "for": "1s"}, {"at": "2s", "kill": "front"}],
]  # fmt: skip


@pytest.mark.parametrize("faults", SOUND)
def test_what_can_be_done_is_planned(tmp_path: Path, faults: list[dict[str, Any]]) -> None:
    assert len(configs(tmp_path, study(*faults))) == 2


@pytest.mark.parametrize("text", ["recovery < 5 s", "users.fault_error_rate < 1 %", "fault_errors == 0"])
def test_a_criterion_over_faults_needs_one_in_each_of_its_cases(tmp_path: Path, text: str) -> None:
    stop = {"when": {"servers": 2}, "at": "1s", "stop": "web[2]"}
    for faults in ([], [stop]):
        assert "no fault is planned" in refusal(tmp_path, study(*faults, thresholds=[text]), **CHECKS)
    for_two = {"when": {"servers": "2"}, "that": text}
    assert len(configs(tmp_path, study(stop, thresholds=[for_two]))) == 2


STUDY = """\
name: sampled
lab:
  files: {run: "./serve ${port}"}
  store: {kit: truth, role: store}
  vm: {kit: machine, cpus: 2}
  far: {at: "http://127.0.0.1:9"}
factors: {whose: [files, store]}
profile: WHOSE
traffic: {users: {executor: constant-vus, vus: 1, request: GET http://files/}}
measure: {duration: 5s}
profiles:
  without: {profile: null}
  other: {profile: store}
"""


@pytest.mark.parametrize(
    ("whose", "chosen", "expected"),
    [
        ("${whose}", None, ["files", "store"]),
        ("files", "without", ["", ""]),
        ("files", "other", ["store"] * 2),
    ],
)
def test_a_level_or_profile_sets_whose(tmp_path: Path, whose: str, chosen: Any, expected: list[str]) -> None:
    found = configs(tmp_path, STUDY.replace("WHOSE", whose), profile=chosen)
    assert [one.profile for one in found] == expected


@pytest.mark.parametrize(
    ("whose", "result"),
    [
        ("file", "no such service under lab: “file”. Did you mean “files”?"),
        ("far", "far is already running, so svload does not know its processes"),
        ("vm", "vm is a machine: it has no processes of its own"),
        ("{demo: {measure: {duration: 1s}}}", "expected a text"),
    ],
)
def test_what_cannot_be_sampled_is_reported_with_its_line(tmp_path: Path, whose: str, result: str) -> None:
    (problem,) = problems_of(tmp_path, STUDY.replace("WHOSE", whose), **CHECKS)
    assert (result in str(problem), line_of(problem)) == (True, 8)
