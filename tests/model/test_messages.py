"""Error messages for invalid messages between controller and agent, and how a sentence ends."""

from __future__ import annotations

from typing import Any

import pytest

from svload.model.errors import Problem
from svload.model.messages import read_action

SPAWN = {"do": "spawn", "child": "a", "role": "tool", "argv": ["true"], "log": "/tmp/a"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, "no action “None”"),
        ("spawn", "no action “”"),
        ({"do": "dance"}, "no action “dance”"),
        ({"do": "spawn", "child": "a"}, "lacks “role”"),
        ({**SPAWN, "nice": 1}, "no field “nice”"),
        ({**SPAWN, "role": "guest"}, "“role” cannot be 'guest'"),
        ({**SPAWN, "argv": "true"}, "“argv” cannot be 'true'"),
        ({**SPAWN, "argv": [1]}, "“argv” cannot be 1"),
        ({**SPAWN, "timeout_s": True}, "“timeout_s” cannot be True"),
        ({**SPAWN, "limits": {"nofile": "all"}}, "“nofile” cannot be 'all'"),
        ({**SPAWN, "limits": None}, "Limits is no object"),
        ({**SPAWN, "env": {"A": 1}}, "“env” cannot be 1"),
    ],
)
def test_what_is_not_understood_is_reported(raw: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        read_action(raw)


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("there is none", "."),
        ("the response is not TLS: is this port plain HTTP?", ""),
        ("no such command. Did you mean “probe”?", ""),
    ],
)
def test_a_sentence_ends_once(reason: str, end: str) -> None:
    assert Problem("usage", {"reason": reason}).sentence == reason + end
