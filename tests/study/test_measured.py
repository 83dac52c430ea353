"""How long and how often, by level; open factors; what a batch fixes of each trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svload.model.errors import SvloadError
from svload.model.plan import Point
from svload.model.study import Lock
from svload.study import first_batch, resolve
from svload.study.config import measure_of

Load = Callable[..., Lock]
BY_LEVEL = """\
name: levels
lab: {api: {at: "http://127.0.0.1:8080"}}
factors:
  users:
    few: {count: 1, time: 2s, often: 3}
    many: {count: 50, time: 5s, often: 2}
traffic:
  people: {executor: constant-vus, vus: "${users.count}", request: GET http://api/}
measure: {duration: "${users.time}", replicates: "${users.often}"}
"""
OPEN = """\
name: open
lab: {api: {at: "http://127.0.0.1:8080"}}
factors:
  users: {open: [2, 400]}
  think: [0.1s, 0.2s]
traffic:
  people: {executor: constant-vus, vus: "${users}", think_time: "${think}", request: GET http://api/}
measure: {duration: 2s, replicates: 1}
"""


def test_a_level_says_how_long_and_how_often(load: Load) -> None:
    lock = load(BY_LEVEL)
    few, many = (resolve(lock, case).measure for case in lock.cases)
    assert [(one.duration_ns, one.replicates) for one in (few, many)] == [(2 * 10**9, 3), (5 * 10**9, 2)]
    assert [measure_of(lock, case) for case in lock.cases] == [few, many]
    assert (lock.measure.duration_ns, lock.measure.replicates) == (5 * 10**9, 3), "the most that any case has"


def test_a_plan_fixes_each_trials_time_and_has_each_case_as_often_as_it_says(load: Load) -> None:
    trials = first_batch(load(BY_LEVEL)).trials
    assert {trial.at.duration_ns for trial in trials if trial.case == "users-few"} == {2 * 10**9}
    assert {trial.at.duration_ns for trial in trials if trial.case == "users-many"} == {5 * 10**9}
    assert sorted((trial.block, trial.case) for trial in trials) == [
        (1, "users-few"), (1, "users-many"), (2, "users-few"), (2, "users-many"), (3, "users-few"),
    ]  # fmt: skip


def test_an_override_of_the_command_line_holds_for_all(load: Load) -> None:
    lock = load(BY_LEVEL, overrides={"measure.duration": "7s"})
    assert {resolve(lock, case).measure.duration_ns for case in lock.cases} == {7 * 10**9}


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("order", "the order inside a block is that of all its cases"),
        ("bring_ups", "a bring-up holds blocks with all their cases"),
    ],
)
def test_what_all_cases_share_is_refused_with_its_reason(load: Load, key: str, says: str) -> None:
    with pytest.raises(SvloadError) as refused:
        load(BY_LEVEL.replace('replicates: "${users.often}"', f'{key}: "${{users.often}}"'))
    assert [str(one) for one in refused.value.problems if says in str(one)]


def test_a_wrong_time_of_one_level_is_told_at_that_level(load: Load) -> None:
    with pytest.raises(SvloadError) as refused:
        load(BY_LEVEL.replace("time: 5s", "time: 5"))
    (problem,) = refused.value.problems
    assert "a unit is missing" in str(problem)
    assert problem.place.endswith(":6")


def test_an_open_factor_is_what_its_batch_says(load: Load) -> None:
    lock = load(OPEN)
    assert [case.levels for case in lock.cases] == [{"think": "0.1s"}, {"think": "0.2s"}]
    at = Point(values={"users": 37}, duration_ns=3 * 10**9)
    config = resolve(lock, lock.cases[0], at)
    assert config.groups[0].executor.vus == 37
    assert config.measure.duration_ns == 3 * 10**9
    assert resolve(lock, lock.cases[0]).groups[0].executor.vus == 2, "without a point the least"


def test_an_open_factor_needs_a_search(load: Load) -> None:
    with pytest.raises(SvloadError) as refused:
        first_batch(load(OPEN))
    assert refused.value.problems[0].code == "study-open"


@pytest.mark.parametrize("written", ["[2]", "[400, 2]", "[a, b]", "[-1, 2]", "[1, 2, 3]"])
def test_an_open_factor_has_a_least_and_a_largest_value(load: Load, written: str) -> None:
    with pytest.raises(SvloadError) as refused:
        load(OPEN.replace("[2, 400]", written))
    assert any("the least and the largest value" in str(one) for one in refused.value.problems)


def test_both_ends_of_an_open_factor_are_checked(load: Load) -> None:
    with pytest.raises(SvloadError) as refused:
        load(OPEN.replace("[2, 400]", "[2, 4000000]"))
    assert any("virtual users" in str(one) for one in refused.value.problems)


def test_a_plan_of_an_older_svload_has_no_points(load: Load) -> None:
    lock = load(BY_LEVEL)
    raw: dict[str, Any] = first_batch(lock).trials[0].model_dump()
    del raw["at"]
    assert resolve(lock, lock.case(raw["case"]), type(first_batch(lock).trials[0]).model_validate(raw).at)
