"""studies/002-factorial-redis/tables.py: tables of its other studies, and what they print without data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from tests.results import case_result, findings_of, trial_result
from tests.studies.scripts import script

from svload.model.results import Belief, CaseResult, Claim, Estimate, TrialResult

STUDY = Path(__file__).parents[2] / "studies/002-factorial-redis"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return script(STUDY / "tables.py")


def trial(case: str, number: int, numbers: Mapping[str, float], refused: str = "") -> TrialResult:
    metrics = {
        key: Estimate(value=value, belief=Belief(grade="REFUSED") if key == refused else None)
        for key, value in numbers.items()
    }
    return trial_result(case, number, metrics)


def case(name: str, numbers: Mapping[str, float]) -> CaseResult:
    metrics = {key: Estimate(value=one, low=0.9 * one, high=1.1 * one) for key, one in numbers.items()}
    return case_result(name, instrument=None, server=None, metrics=metrics)


def test_a_trial_that_is_not_believed_makes_no_cost(tables: ModuleType) -> None:
    numbers = {"users.throughput": 50.0, "web.cpu.mean": 0.1}
    wrong = trial("a", 1, numbers | {"web.cpu.mean": 5.0}, refused="web.cpu.mean")
    idle = trial("a", 1, numbers | {"users.throughput": 0.0})
    costs = [tables.cost(trials, "web") for trials in ([wrong, trial("a", 2, numbers)], [wrong], [idle])]
    assert costs == ["2 ms", "–", "–"]


def test_the_confounded_copy_explains_why_nothing_is_claimed(tables: ModuleType) -> None:
    why = "its levels change web.cpus and feeders at once"
    pair = {"baseline": "1.0", "treatment": "0.8", "pairs": (("A", "B"),), "blocks": 6, "sentence": ""}
    found = {"ratio": Estimate(value=0.9, low=0.8, high=1.01), "p": 0.1, "p_adjusted": 0.2, "mde": 0.123}
    claim = Claim(name="limit", factor="cpus", metric="users.throughput", why_open=why, **pair, **found)
    [made] = tables.tables(findings_of(study="factorial-confounded", claims=(claim,)), lambda query: [])
    assert made.rows == (("limit", "0.9 (0.8 to 1.01)", "open", why),)


def test_first_and_last_byte_of_cells_with_rows_and_without(tables: ModuleType) -> None:
    numbers = {"users.server_time.p50": 0.0012, "users.service.p50": 0.0013}
    ours = {"F-1.0-100": case("F-1.0-100", numbers)}
    kept = [{"cell": "F-1.0-100", "n": 1200, "near": 0.995, "same": 0.5, "first_s": 0.0012, "last_s": 0.0013}]
    made = {row[0]: row[1:] for row in tables.first_bytes(ours, kept).rows}
    assert made["F-1.0-100"] == ("1.2 ms", "1.3 ms", "1,200", "99.5 %", "50 %", "about half")
    assert made["S-1.0-0"] == ("–",) * 6


def test_nothing_measured_is_reported_as_nothing(tables: ModuleType) -> None:
    made = {table.title: table for table in tables.tables(findings_of(study="factorial"), lambda query: [])}
    assert [row[1] for row in made["Cell by cell"].rows] == ["–"] * 18
    assert {row[3] for row in made["What the limit does to throughput"].rows} == {"not measured"}
    assert {row[1] for row in made["All cells from two demands"].rows} == {"–"}
