"""What `svload plan` predicts: the duration, limits that no load reaches, and confounded limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.conftest import Bench
from tests.analysis.test_compare import PROTOCOL, RATIOS, blocks, lock_with
from tests.evolve import evolve
from tests.results import case_result

from svload.analysis import estimate_run, measured, size_of_run, unreached_limits
from svload.analysis.claims.decide import judge_claims
from svload.analysis.contrasts import confounding, plan_comparisons
from svload.analysis.estimate import RunEstimate
from svload.analysis.unreached import Quota, quotas_of
from svload.model.costs import Costs
from svload.model.events import Event
from svload.model.results import CaseResult, Claim, Estimate
from svload.model.study import CaseConfig, Lock, ObjectSet, Preparation, ServiceSpec
from svload.model.traffic import Feeder
from svload.study import load_study, resolve

GET = {"request": "GET http://web/"}
STUDY: dict[str, Any] = {
    "name": "limits",
    "lab": {"web": {"kit": "stone", "cpus": "${cpus}"}},
    "factors": {"cpus": [1.0, 0.9, 0.8], "think": [0, "100ms"]},
    "traffic": {"users": GET | {"executor": "constant-vus", "vus": 50, "think_time": "${think}"}},
    "measure": {"duration": "1s", "replicates": 3},
}
ASKED = "50 users who think 100 ms request at most 500/s"


def locked(folder: Path, study: Mapping[str, Any]) -> tuple[Lock, dict[str, CaseConfig]]:
    (folder / "study.yaml").write_text(json.dumps(study))
    lock = load_study(folder)
    return lock, {case.name: resolve(lock, case) for case in lock.valid_cases}


def configs_of(folder: Path, **changed: Any) -> dict[str, CaseConfig]:
    return locked(folder, STUDY | changed)[1]


def taking(
    configs: Mapping[str, CaseConfig], demand_s: float | None, *services: str
) -> Callable[[str], CaseResult]:
    """Return a last run in which a request took this much CPU of each of these."""
    rate_rps = 400.0
    used = None if demand_s is None else demand_s * rate_rps
    numbers = {"users.throughput": rate_rps, **{f"{name}.cpu.mean": used for name in services or ("web",)}}
    metrics = {name: Estimate(value=value) for name, value in numbers.items()}
    return lambda case: case_result(case, levels=configs[case].case.levels, metrics=metrics)


def test_limits_that_such_users_never_reach(tmp_path: Path) -> None:
    configs = configs_of(tmp_path)
    names = [f"cpus-{cpus}_think-100ms" for cpus in ("1.0", "0.9", "0.8")]
    one = {names[1]: configs[names[1]]}
    for some, found in (
        (configs, f"{names[0]}, {names[1]} and {names[2]}: {ASKED}, 8 to 10 % of the cores"),
        (one, f"{names[1]}: {ASKED}, 8.9 % of the 0.9 cores"),
    ):
        found += " that web may use: the limit can't act, except in bursts"
        assert unreached_limits(some, taking(some, 160e-6)) == (found,)


def test_a_limit_that_they_reach_is_not_reported(tmp_path: Path) -> None:
    """A limit acts from 95 % of the quota on: 500/s of 1.71 ms are 95 % of 0.9 cores, and 107 % of 0.8."""
    configs = configs_of(tmp_path)
    [found] = unreached_limits(configs, taking(configs, 1.711e-3))
    assert found.startswith("cpus-1.0_think-100ms: ")
    assert unreached_limits(configs, taking(configs, 80e-3)) == ()


@pytest.mark.parametrize(
    "traffic",
    [
        {"users": GET | {"executor": "constant-vus", "vus": 50}},
        {"users": GET | {"executor": "constant-arrival-rate", "rate": "500/s"}},
        {"users": GET | {"executor": "ramping-vus", "stages": [{"duration": "1s", "target": 50}]}},
        STUDY["traffic"] | {"more": GET | {"executor": "constant-vus", "vus": 1}},
    ],
)
def test_who_never_pauses_is_bounded_by_nothing(tmp_path: Path, traffic: dict[str, Any]) -> None:
    configs = configs_of(tmp_path, traffic=traffic)
    assert len(configs) == 6
    assert unreached_limits(configs, taking(configs, 160e-6)) == ()
    assert unreached_limits(configs, lambda case: None) == ()


def test_without_a_last_run_it_says_what_is_asked_at_most(tmp_path: Path) -> None:
    configs = configs_of(tmp_path)
    found = (
        f"{ASKED} in cpus-1.0_think-100ms, cpus-0.9_think-100ms and cpus-0.8_think-100ms: whether the CPU limit of web can act there is known after a run that measures it",
    )
    assert unreached_limits(configs, lambda case: None) == found
    assert unreached_limits(configs, taking(configs, None)) == found, "nothing that may be believed"

    def other_levels(case: str) -> CaseResult:
        return evolve(taking(configs, 160e-6)(case), levels={"cpus": "0.1"})

    assert unreached_limits(configs, other_levels) == found
    free = configs_of(tmp_path, lab={"web": {"kit": "stone"}})
    assert unreached_limits(free, lambda case: None) == (), "where no quota stands there is nothing to tell"


def test_a_quota_is_each_replica_s_and_a_machine_s_is_of_all_within_it(tmp_path: Path) -> None:
    two = ServiceSpec(name="web", kit="stone", options={"cpus": 0.5, "replicas": 2})
    assert list(quotas_of([two])) == [Quota("web", 1.0, frozenset({"web"}))]
    shared = {
        "box": {"kit": "machine", "cpus": 1.0},
        "web": {"kit": "stone", "within": "box"},
        "store": {"kit": "stone", "within": "box"},
    }
    configs = configs_of(tmp_path, lab=shared, factors={"think": ["100ms"]})
    [found] = unreached_limits(configs, taking(configs, 0.5e-3, "web", "store"))
    assert "50 % of the core that box may use" in found
    assert unreached_limits(configs, taking(configs, 1e-3, "web", "store")) == ()


USERS = GET | {"executor": "constant-vus", "vus": 4}
BESIDE = {
    "name": "limits",
    "lab": {"web": {"kit": "stone"}},
    "factors": {"cpus": ["a", "b"]},
    "traffic": {"users": USERS},
    "measure": {"duration": "1s", "replicates": 6},
    "compare": [{"factor": "cpus", "baseline": "a", "metric": "throughput"}],
}
SETS = {
    "a": {"lab": {"web": {"cpus": 1.0, "workers": 2}}},
    "b": {"lab": {"web": {"cpus": 0.5, "workers": 1}}},
}
LEVELS = {"a": {"backlog": 1, "cpus": 1.0}, "b": {"backlog": 2, "cpus": 0.5}}
TREATED = {"tuning": "${cpus}", "sets": SETS}
BACKLOG = {"web": {"kit": "stone", "backlog": "${cpus.backlog}"}}


def levels_of(workers: int, users: int) -> dict[str, Any]:
    """Return levels of a CPU limit with other levels of workers and users, and what they change."""
    levels = {
        "a": {"limit": 1.0, "workers": 2, "users": 4},
        "b": {"limit": 0.5, "workers": workers, "users": users},
    }
    web = {"kit": "stone", "cpus": "${cpus.limit}", "workers": "${cpus.workers}"}
    traffic = {"users": USERS | {"vus": "${cpus.users}"}}
    return {"factors": {"cpus": levels}, "lab": {"web": web}, "traffic": traffic}


@pytest.mark.parametrize(
    ("study", "changed"),
    [
        (levels_of(2, 4), ""),
        (levels_of(1, 4), "web.cpus and web.workers"),
        (levels_of(2, 8), "web.cpus and traffic"),
        # a parameter set is one treatment; what changes together with it is not
        (TREATED, ""),
        (TREATED | {"factors": {"cpus": LEVELS}, "lab": BACKLOG}, "web.cpus and web.backlog, web.workers"),
    ],
)
def test_what_changes_with_a_limit(tmp_path: Path, study: dict[str, Any], changed: str) -> None:
    lock, configs = locked(tmp_path, BESIDE | study)
    first, second = (case.name for case in lock.cases)
    clause = confounding(configs, [(first, second)])
    assert clause.startswith(f"its levels change {changed} at once") if changed else clause == ""
    [planned] = plan_comparisons(lock, configs=configs)
    assert planned["state"] == ("confounded" if changed else "decidable")
    assert ("confounded, its levels change" in planned["sentence"]) == bool(changed)


def test_a_confounded_claim_stays_open_whatever_its_interval(closed: Bench) -> None:
    """The cases differ in the quota of their server, and in its workers, alone."""
    lock, trials = lock_with(closed.lock, 6, PROTOCOL), blocks(RATIOS)

    def claimed(**workers: int) -> Claim:
        configs = {}
        for name, config in closed.configs.items():
            protocol = config.case.levels["protocol"]
            options = {"cpus": {"http": 1.0, "https": 0.5}[protocol], "workers": workers[protocol]}
            web = ServiceSpec(name="web", kit="nginx", options=options)
            configs[name] = evolve(closed.configs["TC0"], case=config.case, services=(web,))
        (claim,) = judge_claims(lock, configs, trials, {})
        return claim

    assert claimed(http=2, https=2).outcome == "decided"
    claim = claimed(http=2, https=1)
    assert claim.outcome == "open"
    assert "web.cpus and web.workers at once" in claim.why_open
    assert claim.more_blocks is None, "no number of blocks decides it"


def of_kits(bench: Bench, configs: Mapping[str, CaseConfig], **changed: float) -> RunEstimate:
    cost = Costs(**{"up_s": 0, "fill_per_s": 1e9, "answers_per_s": 1e9} | changed)
    costs = {name: dict.fromkeys(("backend", "cache"), cost) for name in bench.configs}
    return estimate_run(bench.lock, configs, costs)


def test_load_is_exact_and_the_rest_is_stated(closed: Bench) -> None:
    found = of_kits(closed, closed.configs)
    assert found.trials == 12
    assert found.load_s == pytest.approx(12 * 1.3), "0.1 s of ramps and 1.2 s of load in each trial"
    assert found.seconds > found.load_s
    assert "kits" in found.basis


def test_each_cost_of_a_kit_counts_as_often_as_it_comes(closed: Bench) -> None:
    """Before each trial 1,000 objects are warmed through the cache."""
    objects = ObjectSet(name="objects", service="backend", count=1_000, size={"constant": 1024})
    feeder = Feeder.model_validate({"name": "object", "table": "objects", "take": "walk"})
    steps = (Preparation(reset=("cache", "backend")), Preparation(warm="object", through="cache"))
    store = {"objects": (objects,), "feeders": (feeder,), "before_trial": steps}
    configs = {name: evolve(config, **store) for name, config in closed.configs.items()}
    bare = of_kits(closed, configs).seconds
    for changed, added_s in (
        ({"up_s": 3.0}, 2 * 3.0),
        ({"reset_s": 0.5}, 12 * 2 * 0.5),
        ({"settle_s": 1.0}, 12 * 2 * 1.0),
        ({"fill_per_s": 100.0}, 10.0),
    ):
        assert of_kits(closed, configs, **changed).seconds - bare == pytest.approx(added_s, rel=1e-3), changed


def journal(sealed: int) -> list[Event]:
    """Return the events of a run with this many trials."""
    return [
        Event("phase", {"name": "up", "state": "begin"}),
        Event("phase", {"name": "up", "state": "end", "seconds": 3.0}),
        *[Event("trial-sealed", {"case": "TC0", "seconds": 1.8, "beside_s": 0.5})] * sealed,
        Event("phase", {"name": "analyse", "state": "end", "seconds": 1.2}),
    ]


def test_a_run_without_a_sealed_trial_measured_nothing() -> None:
    assert measured(journal(0)) is None
    assert measured([]) is None


def test_bytes_are_of_the_right_size(closed: Bench) -> None:
    written = sum(path.stat().st_size for path in closed.run.trials.rglob("*") if path.is_file())
    assert 0.5 < size_of_run(closed.lock, closed.configs) / written < 4


def test_what_a_resume_did_again_is_not_counted_twice() -> None:
    once, resumed = measured(journal(2)), measured(journal(2) * 2)
    assert resumed.once_s == once.once_s
    assert resumed.report_trial_s == once.report_trial_s / 2, "the journal holds twice the trials"
