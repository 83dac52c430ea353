"""Servers that died, became unreachable or were overloaded, and the criteria that fail because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, check, with_group, with_table
from tests.evolve import evolve

from svload.analysis.criteria import criterion_of, outcome
from svload.analysis.judge import judge_run, judge_trial, trial_cut
from svload.analysis.load_summary import summarise_load
from svload.analysis.outages import outages_of
from svload.lab.lab import death_of, limits_of
from svload.model.errors import Problem
from svload.model.facts import Death, GroupFact, ServiceFacts, Setting
from svload.model.request_errors import ERRORS
from svload.model.results import Belief, Estimate, ServerState, ThresholdResult
from svload.store import TrialData

KILLED = Death(
    service="cache", cause="oom_kill", process="varnishd", exit=-9, kills=1, limits={"cache.memory_bytes": 64 << 20}, offset_s=0.4
)  # fmt: skip


def fallen(trial: TrialData, *deaths: Death) -> TrialData:
    """Add these deaths, without the counters after the load, which can't be read from dead services."""
    dead = {one.service for one in deaths}
    after = {name: counters for name, counters in trial.lab.after.items() if name not in dead}
    return evolve(trial, lab__deaths=deaths, lab__after=after)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "The kernel killed a process of cache for lack of memory 0.4 s into the load (cache may have 64 MiB of memory)."),
        ({"kills": 3, "offset_s": None}, "The kernel killed 3 processes of cache for lack of memory before the load"),
        ({"cause": "exit", "exit": 7, "kills": 0}, "cache exited unexpectedly 0.4 s into the load (varnishd, exit 7; "),
        ({"cause": "exit", "exit": -11, "kills": 0}, "(varnishd, signal 11; "),
        ({"limits": {"vm.cpus": 2.0, "cache.pids": 30}}, "(cache may have 30 processes, vm may have 2 cores)"),
    ],
)  # fmt: skip
def test_a_death_is_reported_with_the_limit_in_effect(changes: Mapping[str, Any], expected: str) -> None:
    assert expected in KILLED.model_copy(update=dict(changes)).sentence


def test_the_trial_is_overloaded_by_that_cause_and_its_instrument_is_not_blamed(closed: Bench) -> None:
    """TC1 expects cache hits, whose counters died with the cache; lacking for another reason they refuse."""
    whole = closed.trial("TC1.r1")
    config, trial = closed.config(whole), fallen(whole, KILLED)
    clean, found = judge_trial(whole, config), judge_trial(trial, config)
    assert clean.verdict.server != "OVERLOADED"
    assert clean.deaths == ()
    assert found.verdict.server == "OVERLOADED"
    assert KILLED.sentence in found.verdict.reasons
    assert found.verdict.instrument == clean.verdict.instrument
    assert "were lost with cache" in check(trial, config, "manipulation").sentence
    assert check(evolve(trial, lab__deaths=()), config, "manipulation").grade == "REFUSED"


def test_a_finding_names_the_case_and_says_nothing_of_a_backlog(closed: Bench) -> None:
    trials = [fallen(trial, KILLED) if trial.case == "TC1" else trial for trial in closed.trials()]
    clean, found = (judge_run(closed.lock, closed.configs, one).findings for one in (closed.trials(), trials))
    assert "death" not in {one.kind for one in clean}
    [death] = [one for one in found if one.kind == "death"]
    start = "In 2 of 2 trials of TC1 a limited server ended. TC1.r1: The kernel killed"
    assert death.sentence.startswith(start)
    assert death.evidence == ("trials/TC1.r1", "trials/TC1.r2")
    assert not [one for one in found if one.kind == "server" and "TC1" in one.sentence]


def test_a_service_that_lives_has_no_death_and_a_kill_is_the_cause_of_what_ended_with_it() -> None:
    memory = Setting(name="memory_bytes", asked="9", found="1024")
    group = GroupFact(name="api", paths={}, settings=(memory, Setting(name="pids", asked="1", found=None)))
    facts = ServiceFacts(service="api", kit="command", version="", groups=(group,))
    assert limits_of(facts) == {"api.memory_bytes": 1024.0}
    ended = Problem("service-died", {"service": "api.server", "exit": -9, "tail": "bye"}, "api")
    for problems, kills, expected in (
        ([ended], 2, ("oom_kill", "server", -9, 2, "bye")),
        ([], 1, ("oom_kill", "", None, 1, "")),
        ([ended], 0, ("exit", "server", -9, 0, "bye")),
    ):
        one = death_of(facts, problems, kills)
        assert one is not None
        assert (one.cause, one.process, one.exit, one.kills, one.tail) == expected
    assert death_of(facts, [], 0) is None


MEASURED = Estimate(value=0.18, low=0.17, high=0.19)
GROWS = Estimate(value=0.18, low=0.17, high=0.19, why="grows", reason="grows with run length")
REFUSED = Belief(grade="REFUSED", below=0.1, above=0.05, doubts=("accounting",))
FEW = Estimate(value=None, why="too few", need=368)
RATE = Estimate(value=180.0)


@pytest.mark.parametrize(
    ("text", "estimate", "server", "held"),
    [
        ("response.p50 < 200 ms", MEASURED, "STEADY", True),
        ("response.p50 < 200 ms", MEASURED, "OVERLOADED", False),
        ("slot_wait.p99 <= 200 ms", MEASURED, "OVERLOADED", False),
        # the number itself is decisive
        ("response.p50 < 200 ms", GROWS, None, False),
        ("response.p50 < 200 ms", GROWS, "OVERLOADED", False),
        # in some trials of a case: never kept, and failed only by its value
        ("response.p50 < 200 ms", GROWS, "STEADY", None),
        ("response.p50 < 100 ms", GROWS, "STEADY", False),
        # undecided, as always, if the instrument failed
        ("response.p50 < 200 ms", evolve(MEASURED, belief=REFUSED), "OVERLOADED", None),
        # too few requests for it still show that it grows; undecided if there is no such number
        ("response.p99 < 200 ms", FEW, "OVERLOADED", False),
        ("response.p99 < 200 ms", Estimate(value=None, why="not measured"), "OVERLOADED", None),
        ("response.p99 < 200 ms", Estimate(value=None, why="in stages"), "OVERLOADED", None),
        # it is above its limit and only grows
        ("response.p50 > 100 ms", MEASURED, "OVERLOADED", True),
        # an overloaded server's completions don't grow with the run's length; those in time become fewer
        ("throughput >= 100/s", RATE, "OVERLOADED", True),
        ("goodput(200 ms) >= 100/s", RATE, "OVERLOADED", False),
        # judged as counted, and the instrument's own numbers
        ("success_rate >= 99 %", Estimate(value=1.0), "OVERLOADED", True),
        ("generator_lag.p99 < 200 ms", MEASURED, "OVERLOADED", True),
        ("cache.cpu < 50 %", MEASURED, "OVERLOADED", True),
    ],
)
def test_an_overloaded_server_keeps_no_limit_on_a_time(
    closed: Bench, text: str, estimate: Estimate, server: ServerState | None, held: bool | None
) -> None:
    criterion = criterion_of(text, closed.configs["TC0"])
    assert outcome(criterion, estimate, 20.0, server) is held


def judged(bench: Bench, trials: Sequence[TrialData], *texts: str) -> dict[tuple[str, str], ThresholdResult]:
    configs = {name: evolve(one, thresholds=texts) for name, one in bench.configs.items()}
    return {(one.case, one.that): one for one in judge_run(bench.lock, configs, trials).thresholds}


def test_a_threshold_fails_where_the_backlog_grows_and_holds_beside_it(open_loop: Bench) -> None:
    """TC0 is steady, TC1 overloaded, and no number of either is near these limits."""
    on_times = (
        "background.response.p50 < 10000 s",
        "background.response.mean < 10000 s",
        "probe.response.p50 < 10000 s",
        "background.goodput(10000 s) >= 1/s",
    )
    others = ("background.throughput >= 1/s", "probe.success_rate >= 99 %", "background.requests >= 1")
    found = judged(open_loop, open_loop.trials(), *on_times, *others)
    for (case, text), one in found.items():
        fails = case == "TC1" and text in on_times
        expected = ("failed", True) if fails else ("passed", False)
        assert (one.outcome, one.overloaded) == expected, one.sentence
        assert ("the server is OVERLOADED, which fails any limit; it is " in one.sentence) == fails
        assert one.measured is not None
        assert one.sentence == f"{case}: {text} {one.told}"


def test_one_death_of_two_is_no_overloaded_case_s(closed: Bench) -> None:
    """The state is that of most trials, the more severe of a tie; a number that grows in none is a number."""
    text = "probe.response.p50 < 10000 s"
    trials = [fallen(trial, KILLED) if trial.trial == "TC1.r1" else trial for trial in closed.trials()]
    assert judged(closed, trials, text)["TC1", text].outcome == "failed", "one of two: the more severe"
    third = [trial for trial in closed.trials() if trial.case == "TC1"]
    assert judged(closed, third, text)["TC1", text].outcome == "passed"


GROUP = "probe"


def gone(trial: TrialData, since_s: float, until_s: float = inf, error: str = "connect_refused") -> TrialData:
    """Let every request of a group that was due in this time fail in this way."""
    group, samples, table = trial.group_index(GROUP), trial.samples, trial.intervals

    def hit(of: Mapping[str, Any], at_s: Any) -> Any:
        return (of["group"] == group) & (at_s >= since_s) & (at_s < until_s)

    errors = np.where(hit(samples, samples["due_ns"] / 1e9), ERRORS.index(error), samples["error"]).astype(
        "u2"
    )
    ok = np.where(hit(table, table["interval"] * trial.summary.interval_ns / 1e9), 0, table["ok"])
    failed = table["failed"] + table["ok"] - ok
    count = int((table["ok"] - ok).sum())
    trial = with_table(with_table(trial, "samples", error=errors), "intervals", ok=ok, failed=failed)
    return with_group(
        trial, GROUP, errors={error: count}, ok=lambda old: old - count, failed=lambda old: old + count
    )


def moment(trial: TrialData, share: float) -> float:
    """Return the time in s after this share of the window."""
    low, high = trial.summary.window_ns
    return (low + share * (high - low)) / 1e9


def test_a_server_that_is_gone_to_the_end_is_reported_with_its_healthy_part(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    config, since = closed.config(trial), moment(trial, 0.4)
    whole, found = judge_trial(trial, config), judge_trial(gone(trial, since), config)
    (one,) = found.outages
    assert one.since_s == pytest.approx(since, abs=0.2)
    assert one.until_s is None
    since_text = f"server gone since {one.since_s:.1f} s (connection refused until the end)"
    assert one.sentence.startswith(since_text)
    p50, before = (result.metrics[f"{GROUP}.response.p50"] for result in (found, whole))
    assert p50.value == pytest.approx(before.value, rel=0.1), "of the part before: no percentile is “failed”"
    assert p50.n < before.n
    assert found.metrics[f"{GROUP}.success_rate"].value < 0.9, "success is of all requests"
    assert whole.outages == ()


def test_rates_of_a_server_that_is_gone_are_those_before(closed: Bench) -> None:
    """Refused at once, the users make ten times as many requests as before."""
    trial = closed.trial("TC1.r1")
    config, since = closed.config(trial), moment(trial, 0.4)
    first = trial.summary.groups[0].name
    more = dict.fromkeys(("completed_in_window", "begun"), lambda old: 10 * old)
    lost = with_group(gone(trial, since), first, **more)
    result = judge_trial(lost, config)
    found = summarise_load("http://x/", "in words", lost, config, result)
    rate_rps = result.metrics[f"{first}.throughput"].value
    assert found.throughput_rps == pytest.approx(rate_rps, rel=0.1)
    assert found.begun_rps == pytest.approx(rate_rps, rel=0.1)


def test_healthy_seconds_are_no_warm_up(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    config, since = closed.config(trial), moment(trial, 0.5)
    plain = trial_cut(trial, config).cut_ns
    for until in (inf, moment(trial, 0.7)):
        assert trial_cut(gone(trial, since, until), config).cut_ns <= plain + 1e9


def test_a_recovered_server_is_reported_with_start_and_end_of_its_outage(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    until = moment(trial, 0.8)
    (one,) = judge_trial(gone(trial, moment(trial, 0.2), until), closed.config(trial)).outages
    assert one.until_s == pytest.approx(until, abs=0.3)
    assert "then back: it was started again" in one.sentence


def test_other_failures_are_no_outage(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    half = moment(trial, 0.5)
    slow, short = gone(trial, half, error="timeout_first_byte"), gone(trial, half, half + 0.2)
    for one in (trial, slow, short):
        assert outages_of(one, closed.config(trial)) == ()


def test_a_server_that_went_before_the_load(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    found = judge_trial(gone(trial, 0.0), closed.config(trial))
    assert [one.until_s for one in found.outages] == [None]
    assert found.metrics[f"{GROUP}.success_rate"].value == 0
