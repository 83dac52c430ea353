"""A limited server that came to its end in a trial: what is said of it, of the server, and of what went with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.conftest import Bench, check
from tests.evolve import evolve

from svload.analysis.judge import judge_run, judge_trial
from svload.lab.lab import death_of, limits_of, out_of_memory
from svload.model.errors import Problem
from svload.model.facts import Death, GroupFact, ServiceFacts, Setting
from svload.store import TrialData

KILLED = Death(
    service="cache", cause="oom_kill", process="varnishd", exit=-9, kills=1, limits={"cache.memory_bytes": 64 << 20}, offset_s=0.4
)  # fmt: skip


def fallen(trial: TrialData, *deaths: Death) -> TrialData:
    """Counters of who died can't be read after the load."""
    after = {
        name: counters
        for name, counters in trial.lab.after.items()
        if name not in {one.service for one in deaths}
    }
    return evolve(trial, lab__deaths=deaths, lab__after=after)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "The kernel killed a process of cache for lack of memory 0.4 s into the load (cache may have 64 MiB of memory)."),
        ({"kills": 3, "offset_s": None}, "The kernel killed 3 processes of cache for lack of memory before the load"),
        ({"cause": "exit", "exit": 7, "kills": 0}, "cache exited unexpectedly 0.4 s into the load (varnishd, exit 7; "),
        ({"cause": "exit", "exit": -11, "kills": 0}, "(varnishd, signal 11; "),
        ({"limits": {"vm.cpus": 2.0, "cache.pids": 30}}, "(cache may have 30 processes, vm may have 2 cores)"),
    ],
)  # fmt: skip
def test_what_happened_is_said_with_the_limit_it_lived_under(changes: Mapping[str, Any], said: str) -> None:
    assert said in KILLED.model_copy(update=dict(changes)).sentence


def test_the_trial_is_overloaded_by_that_cause_and_its_instrument_is_not_blamed(closed: Bench) -> None:
    """TC1 expects hits of the cache, whose counters went with it."""
    whole = closed.trial("TC1.r1")
    config = closed.config(whole)
    trial = fallen(whole, KILLED)
    clean, found = judge_trial(whole, config), judge_trial(trial, config)
    assert clean.verdict.server != "OVERLOADED"
    assert clean.deaths == ()
    assert found.verdict.server == "OVERLOADED"
    assert KILLED.sentence in found.verdict.reasons
    assert found.verdict.instrument == clean.verdict.instrument
    assert "were lost with cache" in check(trial, config, "manipulation").sentence


def test_counters_that_lack_for_another_reason_still_refuse(closed: Bench) -> None:
    whole = closed.trial("TC1.r1")
    config = closed.config(whole)
    trial = replace(fallen(whole, KILLED), lab=evolve(fallen(whole, KILLED).lab, deaths=()))
    assert check(trial, config, "manipulation").grade == "REFUSED"


def test_a_finding_names_the_case_and_says_nothing_of_a_backlog(closed: Bench) -> None:
    trials = [fallen(trial, KILLED) if trial.case == "TC1" else trial for trial in closed.trials()]
    found = judge_run(closed.lock, closed.configs, trials).findings
    [death] = [one for one in found if one.kind == "death"]
    assert death.sentence.startswith(
        "In 2 of 2 trials of TC1 a limited server ended. TC1.r1: The kernel killed"
    )
    assert death.evidence == ("trials/TC1.r1", "trials/TC1.r2")
    assert not [one for one in found if one.kind == "server" and "TC1" in one.sentence]
    assert not [
        one for one in judge_run(closed.lock, closed.configs, closed.trials()).findings if one.kind == "death"
    ]


def limited(*settings: Setting) -> ServiceFacts:
    return ServiceFacts(
        service="api", kit="command", version="", groups=(GroupFact(name="api", paths={}, settings=settings),)
    )


def test_a_service_that_lives_has_no_death_and_a_kill_is_the_cause_of_what_ended_with_it() -> None:
    facts = limited(
        Setting(name="memory_bytes", asked="9", found="1024"), Setting(name="pids", asked="1", found=None)
    )
    assert limits_of(facts) == {"api.memory_bytes": 1024.0}
    ended = Problem("service-died", {"service": "api.server", "exit": -9, "tail": "bye"}, "api")
    assert death_of(facts, [], 0) is None
    both, worker, alone = death_of(facts, [ended], 2), death_of(facts, [], 1), death_of(facts, [ended], 0)
    assert both and worker and alone
    assert (both.cause, both.process, both.exit, both.kills, both.tail) == (
        "oom_kill",
        "server",
        -9,
        2,
        "bye",
    )
    assert (worker.cause, worker.process, worker.exit) == ("oom_kill", "", None)
    assert (alone.cause, alone.exit) == ("exit", -9)
    assert out_of_memory(facts, 0, "log") == []
    [problem] = out_of_memory(facts, 2, "log")
    assert "killed 2 of api's processes for lack of memory (limit: 1 KiB)" in problem.sentence
    assert "on_death: finding" in problem.remedy
