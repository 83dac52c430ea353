"""findings.json and its published JSON Schema: real findings are valid, and what is no finding is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from svload import api
from svload.model.results import Findings

Reporter = Callable[[str], Any]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = api.findings_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_real_findings_are_valid(validator: Draft202012Validator, reported: Reporter, name: str) -> None:
    raw = json.loads(reported(name).run.findings_path.read_text(encoding="utf-8"))
    assert [error.message for error in validator.iter_errors(raw)] == []


@pytest.mark.parametrize(
    "spoil",
    [
        {"format": Findings.FORMAT + 1},
        {"complete": "yes"},
        {"cases": [{"case": "TC0"}]},
        {"extra": 1},
    ],
)
def test_what_is_no_finding_is_told(
    validator: Draft202012Validator, reported: Reporter, spoil: dict[str, Any]
) -> None:
    raw = json.loads(reported("one").run.findings_path.read_text(encoding="utf-8"))
    assert not validator.is_valid(raw | spoil)


def test_the_schema_bears_the_format_s_number() -> None:
    assert api.findings_schema()["$id"].endswith(f":{Findings.FORMAT}")


def test_a_claim_of_an_earlier_format_keeps_its_outcome_and_loses_its_state(reported: Reporter) -> None:
    raw = json.loads(reported("mixed").run.findings_path.read_text(encoding="utf-8"))
    known = Findings.model_validate(raw)
    once = {"state": "claim", "gated": True, "failed": False, "smallest_p": 0.03, "mde_reason": ""}
    third = raw | {"format": 3, "claims": [claim | once for claim in raw["claims"]]}
    with pytest.raises(ValidationError):
        Findings.model_validate(third)
    assert Findings.model_validate(Findings.upgrade(third)) == known
    without = {key: value for key, value in raw["claims"][0].items() if key not in ("outcome", "gate")}
    states = {"claim": "decided", "refused": "refused", "no claim": "open", "undecidable": "open"}
    first = raw | {"format": 2, "claims": [without | once | {"state": state, "failed": state == "claim", "planned": True} for state in states]}  # fmt: skip
    found = Findings.model_validate(Findings.upgrade(first)).claims
    assert [claim.outcome for claim in found] == list(states.values())
    assert [claim.gate and claim.gate.outcome for claim in found] == ["fail", None, None, None]
