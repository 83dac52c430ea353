"""A CPU limit that a load can't reach is told by the plan, beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import case_result

from svload import api, run
from svload.analysis import ANALYSIS_VERSION, unreached_limits
from svload.analysis.unreached import LINES, Quota, quotas_of
from svload.model.results import CaseResult, Estimate
from svload.model.study import CaseConfig, ServiceSpec
from svload.study import load_study, resolve

STUDY: dict[str, Any] = {
    "name": "limits",
    "lab": {"web": {"kit": "stone", "cpus": "${cpus}"}},
    "factors": {"cpus": [1.0, 0.9, 0.8], "think": [0, "100ms"]},
    "traffic": {
        "users": {
            "executor": "constant-vus",
            "vus": 50,
            "think_time": "${think}",
            "request": "GET http://web/",
        }
    },
    "measure": {"duration": "1s", "replicates": 3},
}
ASKED = "50 users who think 100 ms ask for 500/s at most"


def configs_of(folder: Path, **changed: Any) -> dict[str, CaseConfig]:
    (folder / "study.yaml").write_text(json.dumps(STUDY | changed))
    lock = load_study(folder)
    return {case.name: resolve(lock, case) for case in lock.valid_cases}


def found(config: CaseConfig, numbers: Mapping[str, float | None]) -> CaseResult:
    metrics = {name: Estimate(value=value) for name, value in numbers.items()}
    return case_result(config.case.name, levels=config.case.levels, metrics=metrics)


def taking(
    configs: Mapping[str, CaseConfig], demand_s: float | None, *services: str
) -> Callable[[str], CaseResult]:
    """A last run in which a request took so much of the CPU of each of these."""
    rate_rps = 400.0
    used = None if demand_s is None else demand_s * rate_rps
    numbers = {"users.throughput": rate_rps, **{f"{name}.cpu.mean": used for name in services or ("web",)}}
    return lambda case: found(configs[case], numbers)


def test_limits_that_such_users_never_reach(tmp_path: Path) -> None:
    configs = configs_of(tmp_path)
    told = f"cpus-1.0_think-100ms, cpus-0.9_think-100ms and cpus-0.8_think-100ms: {ASKED}, 8 to 10 % of the cores that web may use: the limit can't act, but in bursts"
    assert unreached_limits(configs, taking(configs, 160e-6)) == (told,)
    one = {"cpus-0.9_think-100ms": configs["cpus-0.9_think-100ms"]}
    told = f"cpus-0.9_think-100ms: {ASKED}, 8.9 % of the 0.9 cores that web may use: the limit can't act, but in bursts"
    assert unreached_limits(one, taking(configs, 160e-6)) == (told,)


def test_a_limit_that_they_reach_is_not_told(tmp_path: Path) -> None:
    """At 95 % of the quota a limit has acted: 500/s of 1.71 ms are 95 % of 0.9 cores, and 107 % of 0.8."""
    configs = configs_of(tmp_path)
    [told] = unreached_limits(configs, taking(configs, 1.711e-3))
    assert told.startswith("cpus-1.0_think-100ms: ")
    assert unreached_limits(configs, taking(configs, 80e-3)) == ()


@pytest.mark.parametrize(
    "users",
    [
        {"executor": "constant-vus", "vus": 50},
        {"executor": "constant-arrival-rate", "rate": "500/s"},
        {"executor": "ramping-vus", "stages": [{"duration": "1s", "target": 50}]},
    ],
)
def test_who_never_pauses_is_bounded_by_nothing(tmp_path: Path, users: dict[str, Any]) -> None:
    traffic = {"users": {**users, "request": "GET http://web/"}}
    configs = configs_of(tmp_path, traffic=traffic)
    assert len(configs) == 6
    assert unreached_limits(configs, taking(configs, 160e-6)) == ()
    assert unreached_limits(configs, lambda case: None) == ()


def test_nor_is_a_case_with_more_than_these_users(tmp_path: Path) -> None:
    more = {"more": {"executor": "constant-vus", "vus": 1, "request": "GET http://web/"}}
    configs = configs_of(tmp_path, traffic=STUDY["traffic"] | more)
    assert unreached_limits(configs, taking(configs, 160e-6)) == ()


def test_without_a_last_run_it_says_what_is_asked_at_most(tmp_path: Path) -> None:
    configs = configs_of(tmp_path)
    told = (
        f"{ASKED} in cpus-1.0_think-100ms, cpus-0.9_think-100ms and cpus-0.8_think-100ms: whether the CPU limit of web can act there is known after a run that measures it",
    )
    assert unreached_limits(configs, lambda case: None) == told
    assert unreached_limits(configs, taking(configs, None)) == told, "nothing that may be believed"

    def other_levels(case: str) -> CaseResult:
        return evolve(taking(configs, 160e-6)(case), levels={"cpus": "0.1"})

    assert unreached_limits(configs, other_levels) == told
    free = configs_of(tmp_path, lab={"web": {"kit": "stone"}})
    assert unreached_limits(free, lambda case: None) == (), "where no quota stands there is nothing to tell"


def test_pacing_and_long_iterations_count(tmp_path: Path) -> None:
    users = {
        "executor": "constant-vus",
        "vus": 50,
        "pacing": "200ms",
        "think_time": "${think}",
        "request": "GET http://web/",
    }
    configs = configs_of(tmp_path, traffic={"users": users})
    [told] = unreached_limits(configs, lambda case: None)
    assert told.startswith(
        "50 users who begin anew every 200 ms ask for 250/s at most in cpus-1.0_think-0, cpus-1.0_think-100ms, cpus-0.9_think-0 and 3 more:"
    )


def test_a_quota_is_each_replica_s_and_a_machine_s_is_of_all_within_it(tmp_path: Path) -> None:
    two = ServiceSpec(name="web", kit="stone", options={"cpus": 0.5, "replicas": 2})
    assert list(quotas_of([two])) == [Quota("web", 1.0, frozenset({"web"}))]
    shared = {
        "box": {"kit": "machine", "cpus": 1.0},
        "web": {"kit": "stone", "within": "box"},
        "store": {"kit": "stone", "within": "box"},
    }
    configs = configs_of(tmp_path, lab=shared, factors={"think": ["100ms"]})
    [told] = unreached_limits(configs, taking(configs, 0.5e-3, "web", "store"))
    assert "50 % of the core that box may use" in told
    assert unreached_limits(configs, taking(configs, 1e-3, "web", "store")) == ()


def test_a_plan_stays_short(tmp_path: Path) -> None:
    pauses = [f"{100 * step}ms" for step in range(1, 9)]
    configs = configs_of(tmp_path, factors={"think": pauses, "cpus": [0.5]})
    told = unreached_limits(configs, taking(configs, 160e-6))
    assert len(told) == LINES
    assert told[-1] == "5 more limits of the CPU, or loads, of this kind"


@pytest.mark.parametrize("known", [True, False])
def test_plan_says_it(tmp_path: Path, known: bool) -> None:
    lab = {"web": {"kit": "truth", "role": "store", "cpus": "${cpus}"}}
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY | {"lab": lab}))
    out = tmp_path / "runs"
    lock = api.load_lock(str(tmp_path), api.Choices())
    made = run.begin(lock, out)
    for trial in made.planned_trials():
        made.trial(trial.trial).path.mkdir()
        made.trial(trial.trial).seal.write_text("{}")
    configs = {case.name: resolve(lock, case) for case in lock.valid_cases}
    cases = [taking(configs, 160e-6)(case).model_dump(mode="json") for case in configs]
    version = ANALYSIS_VERSION if known else ANALYSIS_VERSION - 1
    made.findings_path.write_text(json.dumps({"analysis_version": version, "claims": [], "cases": cases}))
    [told] = api.plan(str(tmp_path), api.Choices(out=out))["cautions"]
    assert ASKED in told
    assert ("can't act" in told) == known
