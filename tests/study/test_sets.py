"""Parameter sets and settings of the kernel: read, put over the study, refused where they stand for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from svload import lab
from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import load_study, resolve
from svload.study.loading import study_digest

STUDY: dict[str, Any] = {
    "name": "tuned",
    "lab": {
        "store": {"kit": "truth", "role": "store"},
        "cache": {"kit": "varnish", "of": "store", "tuning": {"thread_queue_limit": 20}},
    },
    "sysctl": {"net.ipv4.tcp_fin_timeout": 30},
    "sets": {
        "stock": {},
        "final": {
            "lab": {"cache": {"nofile": 9000, "tuning": {"thread_queue_limit": 100, "thread_pool_max": 400}}},
            "sysctl": {"net.core.somaxconn": 4096},
        },
    },
    "tuning": "${tuning}",
    "factors": {"tuning": ["stock", "final"]},
    "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "GET http://cache/"}},
    "measure": {"duration": "1s", "replicates": 2},
}


def load(folder: Path, **changes: Any) -> Lock:
    (folder / "study.yaml").write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False))
    return load_study(folder, kits=lab.kit_options(), check_lab=lab.find_mistakes)


def mistakes(folder: Path, **changes: Any) -> list[str]:
    with pytest.raises(SvloadError) as caught:
        load(folder, **changes)
    return [str(problem) for problem in caught.value.problems]


def test_each_case_has_the_study_under_its_set(tmp_path: Path) -> None:
    lock = load(tmp_path)
    stock, final = (resolve(lock, case) for case in lock.cases)
    assert stock.services[1].options == {"of": "store", "tuning": {"thread_queue_limit": 20}}
    assert final.services[1].options == {
        "of": "store",
        "nofile": 9000,
        "tuning": {"thread_queue_limit": 100, "thread_pool_max": 400},
    }
    assert stock.sysctl == {"net.ipv4.tcp_fin_timeout": "30"}
    assert final.sysctl == {"net.ipv4.tcp_fin_timeout": "30", "net.core.somaxconn": "4096"}
    assert resolve(Lock.model_validate_json(lock.to_json()), lock.cases[1]) == final, (
        "the lock holds all of it"
    )


def test_a_set_is_a_file_and_the_lock_holds_what_it_said(tmp_path: Path) -> None:
    (tmp_path / "final.yaml").write_text("lab: {cache: {nofile: 77}}\n")
    lock = load(tmp_path, sets={"stock": {}, "final": "final.yaml"})
    digest = study_digest(tmp_path)
    assert lock.study_sha256 == digest
    (tmp_path / "final.yaml").write_text("lab: {cache: {nofile: 78}}\n")
    assert study_digest(tmp_path) != digest, "an edit is noticed"
    assert resolve(lock, lock.cases[1]).services[1].options["nofile"] == 77


LIVE = {"a": {"lab": {"cache": {"tuning": {"thread_queue_limit": 5}}}}, "b": {"lab": {"cache": {"tuning": {"thread_queue_limit": 9}}}}}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({}, "restart"),
        ({"sets": LIVE, "factors": {"tuning": ["a", "b"]}}, "live"),
        ({"sets": {**LIVE, "c": {"sysctl": {"net.ipv4.tcp_max_syn_backlog": 9}}}, "factors": {"tuning": ["a", "b"]}}, "live"),
        ({"sets": {**LIVE, "c": {"sysctl": {"net.core.somaxconn": 9}}}, "factors": {"tuning": ["a", "b", "c"]}}, "restart"),
        ({"sets": {"a": {}, "b": {}}, "factors": {"tuning": ["a", "b"]}}, "request"),
        ({"sets": {}, "tuning": None, "factors": {"tuning": [1, 2]}, "lab": {**STUDY["lab"], "cache": {"kit": "varnish", "of": "store", "tuning": {"default_ttl": "${tuning}"}}}}, "live"),
        ({"sets": {}, "tuning": None, "factors": {"tuning": [1, 2]}, "lab": {**STUDY["lab"], "cache": {"kit": "varnish", "of": "store", "tuning": {"listen_depth": "${tuning}"}}}}, "restart"),
        ({"sets": {}, "tuning": None, "factors": {"tuning": [1, 2]}, "sysctl": {"net.ipv4.tcp_max_syn_backlog": "${tuning}"}}, "live"),
        ({"sets": {}, "tuning": None, "factors": {"tuning": [1, 2]}, "sysctl": {"net.core.somaxconn": "${tuning}"}}, "restart"),
    ],
)  # fmt: skip
def test_a_factor_costs_what_its_dearest_parameter_does(
    tmp_path: Path, changes: dict[str, Any], change: str
) -> None:
    lock = load(tmp_path, **changes)
    assert [factor.change for factor in lock.factors] == [change]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tuning": "finla"}, "no such set under sets: “finla”"),
        ({"factors": {"tuning": ["stock", "finished"]}}, "no such set under sets: “finished”"),
        ({"sets": {"stock": {}, "final": {"lab": {"cash": {}}}}}, "no such service: “cash”"),
        ({"sets": {"stock": {}, "final": {"lab": {"cache": {"kit": "nginx"}}}}}, "not which one it is"),
        ({"sets": {"stock": {}, "final": {"lba": {}}}}, "Unknown key “lba”"),
        ({"sets": {"stock": {}, "final": "nowhere.yaml"}}, "a file inside the study's folder"),
        ({"sets": {"stock": {}, "final": "../final.yaml"}}, "a file inside the study's folder"),
        ({"sets": {"stock": {}, "final": {"lab": {"cache": {"nofiles": 3}}}}}, "Unknown key “nofiles”"),
        ({"sysctl": {"kernel.core_pattern": "|/tmp/x"}}, "a setting of the network"),
        ({"sets": {"stock": {}, "final": {"sysctl": {"kernel.modprobe": "x"}}}}, "a setting of the network"),
        ({"sysctl": {"net.core.somaxconn": ["1"]}}, "sysctl"),
    ],
)
def test_what_stands_for_nothing_is_told_before_anything_starts(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    assert any(said in text for text in mistakes(tmp_path, **changes)), mistakes(tmp_path, **changes)


def test_a_mistake_in_a_sets_file_is_told_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "final.yaml").write_text("lab:\n  cache: {nofile: 1}\n  cash: {nofile: 2}\n")
    [text] = mistakes(tmp_path, sets={"stock": {}, "final": "final.yaml"})
    assert "final.yaml:3" in text


def test_a_server_that_runs_already_is_not_in_a_network_of_the_labs_own(tmp_path: Path) -> None:
    outside = {"store": {"at": "http://127.0.0.1:9"}, "cache": {"kit": "varnish", "of": "store"}}
    [text] = mistakes(tmp_path, lab=outside, sets={}, tuning=None, factors={})
    assert "a network of its own" in text
    assert load(tmp_path, lab=outside, sets={}, tuning=None, factors={}, sysctl={"fs.file-max": 9}).cases
