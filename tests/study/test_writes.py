"""Untrusted studies: requests that write are named, secrets are not written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.lab import asks_trust
from svload.model.study import CaseConfig
from svload.study import needs_trust

from .conftest import load_text, refusal

HTTP, TCP = "http://127.0.0.1:8080", "tcp://127.0.0.1:6379"
STORE: dict[str, Any] = {"kit": "truth", "role": "store"}
LABS: dict[str, dict[str, Any]] = {
    "named": {"app": {"at": HTTP}, "tcp": {"at": TCP}},
    "started": {"app": STORE, "tcp": {"kit": "redis"}},
    "passed-on": {"app": {"kit": "nginx", "of": "middle"}, "middle": {"kit": "varnish", "of": "theirs"}, "theirs": {"at": HTTP}},
    "moved": {"app": {"at": "http://shop.test", "connect_to": "127.0.0.1:8080"}},
    "both": {"app": STORE, "theirs": {"at": HTTP}},
}  # fmt: skip


def asked(folder: Path, lab: dict[str, Any], request: dict[str, Any], **more: Any) -> list[str]:
    study = {
        "name": "theirs",
        "lab": lab,
        "requests": {"one": request},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "one"}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    return needs_trust(load_text(folder, study | more), asks_trust)


WRITING = [
    ("named", {"redis": ["FLUSHALL", "SHUTDOWN NOSAVE"], "tcp": "tcp://tcp"}, f"FLUSHALL, SHUTDOWN at {TCP}"),
    ("named", {"redis": ["get a", "set a b"], "tcp": TCP}, f"set at {TCP}"),
    ("named", {"redis": ["${cmd.value} a"], "tcp": TCP}, f"a command at {TCP}"),
    ("named", {"memcached": ["get a", "flush_all"], "tcp": "tcp://tcp"}, f"flush_all at {TCP}"),
    ("named", {"dialogue": [{"send": "x"}, {"expect": "y"}], "tcp": "tcp://tcp"}, f"a dialogue at {TCP}"),
    ("named", {"post": "http://app/"}, f"POST at {HTTP}"),
    ("named", {"delete": f"{HTTP}/all"}, f"DELETE at {HTTP}"),
    ("named", {"put": "http://[::1]:9/"}, "PUT at http://[::1]:9"),
    ("moved", {"patch": "http://app/"}, "PATCH at 127.0.0.1:8080"),
    ("passed-on", {"put": "http://app/"}, f"PUT at {HTTP}"),
    ("both", {"post": "http://app/", "follow_redirects": 1}, f"POST at {HTTP}"),
]
READING = [
    ("named", {"get": "http://app/"}, ""),
    ("named", {"head": f"{HTTP}/all"}, ""),
    ("named", {"options": "http://app/"}, ""),
    ("named", {"redis": ["GET a", "mget a b", "PING"], "tcp": TCP}, ""),
    ("named", {"memcached": ["get a", "gets b"], "tcp": "tcp://tcp"}, ""),
    ("started", {"delete": "http://app/"}, ""),
    ("started", {"redis": ["SET a b", "DEL a"], "tcp": "tcp://tcp"}, ""),
    ("started", {"redis": ["${cmd.value} a"], "tcp": "tcp://tcp"}, ""),  # the server chooses it
    ("passed-on", {"get": "http://app/"}, ""),
    ("both", {"post": "http://app/"}, ""),
]
ADMINISTERING: list[tuple[dict[str, Any], str]] = [
    ({"redis": ["CONFIG SET protected-mode no", "CONFIG SET bind 0.0.0.0"]}, "CONFIG"),
    ({"redis": ["GET a", "migrate 127.0.0.1 9 k 0 1", "REPLICAOF no one"]}, "migrate, REPLICAOF"),
    ({"redis": [["Debug", "sleep", "9"]]}, "Debug"),
]
FEEDERS = {"cmd": {"values": ["get", "flushall"], "take": "walk"}}


@pytest.mark.parametrize(("lab", "request_", "expected"), [*WRITING, *READING])
def test_what_writes_to_a_server_of_the_users_is_named(
    tmp_path: Path, lab: str, request_: dict[str, Any], expected: str
) -> None:
    """What reads, or goes to the lab, is not."""
    wanted = [f"requests.one: {expected}, which svload did not start"] if expected else []
    assert asked(tmp_path, LABS[lab], request_, feeders=FEEDERS) == wanted


@pytest.mark.parametrize(("request_", "expected"), ADMINISTERING)
def test_what_a_kit_does_not_permit_is_named(tmp_path: Path, request_: dict[str, Any], expected: str) -> None:
    wanted = [f"requests.one: {expected} at tcp, which its kit does not permit"]
    assert asked(tmp_path, LABS["started"], {"tcp": "tcp://tcp"} | request_) == wanted


def test_what_prepares_a_trial_counts_too(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "requests": {"one": {"get": "http://app/"}, "two": {"post": "http://app/"}},
        "before_trial": [{"populate": "fill"}],
        "traffic": {
            "fill": {"executor": "per-vu-iterations", "vus": 1, "iterations": 1, "request": "two"},
            "users": {"executor": "constant-vus", "vus": 1, "request": "one"},
        },
    }
    found = [f"requests.two: POST at {HTTP}, which svload did not start"]
    assert asked(tmp_path, LABS["named"], {}, **parts) == found


STUDY = """\
name: t
lab: {{api: {lab}}}
factors: {{{factor}: [one, two]}}
secrets: {{token: {variable}}}
requests: {{get: {{get: "http://api/{path}", headers: {{A: "Bearer {reference}", B: "${{{factor}}}"}}}}}}
traffic: {{users: {{executor: constant-vus, vus: 2, request: get}}}}
measure: {{duration: 1s}}
"""


def study(lab: str = '{at: "http://127.0.0.1:9"}', reference: str = "${secret.token}", **changes: str) -> str:
    parts = {"factor": "f", "variable": "API_TOKEN", "path": ""} | changes
    return STUDY.format(lab=lab, reference=reference, **parts)


def test_a_case_knows_the_variable_and_no_value(case: Callable[..., CaseConfig]) -> None:
    config = case(study())
    assert config.secrets == {"secret.token": "API_TOKEN"}
    assert "secret.token" in config.groups[0].request.model_dump_json()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"path": "?t=${secret.token}"}, "in its address, which logs and tables name"),
        ({"reference": "${secret.tokn}"}, "Did you mean “${secret.token}”?"),
        ({"factor": "secret"}, "reserved for secrets"),
        ({"variable": "API-TOKEN"}, "API-TOKEN"),
        ({"lab": "{run: ./server, secrets: [tokn]}"}, "Did you mean “token”?"),
    ],
)
def test_what_is_wrong_with_one_is_reported(folder: Path, changes: dict[str, str], text: str) -> None:
    assert text in refusal(folder, study(**changes))
