"""A limit that changes together with something else: told by the plan, and nothing is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.analysis.conftest import Bench
from tests.analysis.test_compare import PROTOCOL, RATIOS, blocks, lock_with
from tests.evolve import evolve

from svload.analysis.claims.decide import judge_claims
from svload.analysis.confounded import confounding
from svload.analysis.contrasts import plan_comparisons
from svload.model.results import Claim
from svload.model.study import CaseConfig, Lock, ServiceSpec
from svload.study import load_study, resolve

STUDY = """\
name: limits
lab: {web: {kit: stone, cpus: "${cpus.limit}", workers: "${cpus.workers}"}}
factors: {cpus: {one: {limit: 1.0, workers: 2, vus: 4}, half: {limit: 0.5, workers: HALF, vus: LOAD}}}
traffic: {users: {executor: constant-vus, vus: "${cpus.vus}", request: GET http://web/}}
measure: {duration: 1s, replicates: 6}
compare: [{factor: cpus, baseline: one, metric: throughput}]
"""


def configs_of(lock: Lock) -> dict[str, CaseConfig]:
    return {case.name: resolve(lock, case) for case in lock.valid_cases}


@pytest.mark.parametrize(
    ("half", "load", "changed"),
    [("2", "4", ""), ("1", "4", "web.cpus and web.workers"), ("2", "8", "web.cpus and traffic")],
)
def test_what_changes_with_a_limit(tmp_path: Path, half: str, load: str, changed: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("HALF", half).replace("LOAD", load))
    lock = load_study(tmp_path)
    first, second = (case.name for case in lock.cases)
    clause = confounding(configs_of(lock), [(first, second)])
    assert clause.startswith(f"its levels change {changed} at once") if changed else clause == ""
    [planned] = plan_comparisons(lock, configs=configs_of(lock))
    assert planned["state"] == ("confounded" if changed else "decidable")
    assert ("confounded, its levels change" in planned["sentence"]) == bool(changed)


SETS = {
    "a": {"lab": {"web": {"cpus": 1.0, "workers": 2}}},
    "b": {"lab": {"web": {"cpus": 0.5, "workers": 1}}},
}


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ({}, ""),
        ({"lab": {"web": {"kit": "stone", "backlog": "${tuning.backlog}"}}}, "web.cpus and web.backlog, web.workers"),
        ({"tuning": "a", "lab": {"web": {"kit": "stone"}}, "sets": {"a": {"lab": {"web": {"cpus": "${tuning.cpus}", "workers": "${tuning.backlog}"}}}}}, "web.cpus and web.workers"),
    ],
)  # fmt: skip
def test_a_parameter_set_is_one_treatment(tmp_path: Path, more: dict[str, Any], changed: str) -> None:
    """What changes beside the set, or within it by another factor's doing, is confounded as ever."""
    study = {
        "name": "sets", "lab": {"web": {"kit": "stone"}}, "sets": SETS, "tuning": "${tuning}",
        "factors": {"tuning": ["a", "b"]} if not more else {"tuning": {"a": {"backlog": 1, "cpus": 1.0}, "b": {"backlog": 2, "cpus": 0.5}}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 4, "request": "GET http://web/"}},
        "measure": {"duration": "1s", "replicates": 6},
    }  # fmt: skip
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study | more))
    lock = load_study(tmp_path)
    first, second = (case.name for case in lock.cases)
    clause = confounding(configs_of(lock), [(first, second)])
    assert clause.startswith(f"its levels change {changed} at once") if changed else clause == ""


def with_web(config: CaseConfig, like: CaseConfig, workers: dict[str, int]) -> CaseConfig:
    """The case on a server whose quota goes with the protocol, and its workers as said; all else as in `like`."""
    protocol = config.case.levels["protocol"]
    options = {"cpus": {"http": 1.0, "https": 0.5}[protocol], "workers": workers[protocol]}
    web = ServiceSpec(name="web", kit="nginx", options=options)
    return evolve(like, case=config.case, services=(web,))


@pytest.mark.parametrize("count", [2, 6])
def test_a_confounded_claim_stays_open_whatever_its_interval(closed: Bench, count: int) -> None:
    lock, trials = lock_with(closed.lock, count, PROTOCOL), blocks(RATIOS[:count])

    def claimed(**workers: int) -> Claim:
        like = closed.configs["TC0"]
        configs = {name: with_web(config, like, workers) for name, config in closed.configs.items()}
        (claim,) = judge_claims(lock, configs, trials, {})
        return claim

    assert claimed(http=2, https=2).outcome == ("decided" if count == 6 else "open")
    claim = claimed(http=2, https=1)
    assert claim.outcome == "open"
    assert "web.cpus and web.workers at once" in claim.why_open
    assert claim.more_blocks is None, "no number of blocks decides it"
