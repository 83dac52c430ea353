"""Secrets of a study: named in it, and only where their value is not written down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import resolve

Load = Callable[..., Lock]
STUDY = """\
name: t
lab: {{api: {lab}}}
factors: {{{factor}: [one, two]}}
secrets: {{token: {variable}}}
requests: {{get: {{get: "http://api/{path}", headers: {{A: "Bearer {reference}", B: "${{{factor}}}"}}}}}}
traffic: {{users: {{executor: constant-vus, vus: 2, request: get}}}}
measure: {{duration: 1s}}
"""


def study(**changes: str) -> str:
    said = {
        "lab": '{at: "http://127.0.0.1:9"}',
        "factor": "f",
        "variable": "API_TOKEN",
        "path": "",
        "reference": "${secret.token}",
    }
    return STUDY.format(**said | changes)


def test_a_case_knows_the_variable_and_no_value(load: Load) -> None:
    lock = load(study())
    config = resolve(lock, lock.valid_cases[0])
    assert config.secrets == {"secret.token": "API_TOKEN"}
    assert "secret.token" in config.groups[0].request.model_dump_json()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": "?t=${secret.token}"}, "in its address, which logs and tables name"),
        ({"reference": "${secret.tokn}"}, "Did you mean “${secret.token}”?"),
        ({"factor": "secret"}, "that is what secrets are called"),
        ({"variable": "API-TOKEN"}, "API-TOKEN"),
        ({"lab": "{run: ./server, secrets: [tokn]}"}, "Did you mean “token”?"),
    ],
)
def test_what_is_wrong_with_one_is_told(load: Load, changes: dict[str, str], said: str) -> None:
    with pytest.raises(SvloadError) as why:
        load(study(**changes))
    assert said in str(why.value)
