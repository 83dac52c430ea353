"""A criterion on an OVERLOADED server: its times grow for as long as one looks, so that no limit on
them is kept, whatever was measured (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.analysis.conftest import Bench
from tests.analysis.test_deaths import KILLED, fallen
from tests.evolve import evolve

from svload.analysis.criteria import criterion_of, outcome
from svload.analysis.judge import judge_run
from svload.model.results import Belief, Estimate, ServerState, ThresholdResult
from svload.store import TrialData

MEASURED = Estimate(value=0.18, low=0.17, high=0.19)
GROWS = Estimate(value=0.18, low=0.17, high=0.19, why="grows", reason="grows with run length")
REFUSED = Belief(grade="REFUSED", below=0.1, above=0.05, doubts=("accounting",))
FEW = Estimate(value=None, why="too few", need=368)
RATE = Estimate(value=180.0)


@pytest.mark.parametrize(
    ("text", "estimate", "server", "held"),
    [
        ("response.p50 < 200 ms", MEASURED, "STEADY", True),
        ("response.p50 < 200 ms", MEASURED, "SATURATED", True),
        ("response.p50 < 200 ms", MEASURED, "OVERLOADED", False),
        ("slot_wait.p99 <= 200 ms", MEASURED, "OVERLOADED", False),
        ("longest_silence < 200 ms", MEASURED, "OVERLOADED", False),
        # the number itself says so
        ("response.p50 < 200 ms", GROWS, None, False),
        ("response.p50 < 200 ms", GROWS, "OVERLOADED", False),
        # in some of a case's trials: never kept, and failed only by its value
        ("response.p50 < 200 ms", GROWS, "STEADY", None),
        ("response.p50 < 100 ms", GROWS, "STEADY", False),
        # what the instrument broke is open, as ever
        ("response.p50 < 200 ms", evolve(MEASURED, belief=REFUSED), "OVERLOADED", None),
        ("response.p50 < 200 ms", evolve(GROWS, belief=REFUSED), None, None),
        # too few requests for it are enough to know that it grows; where there is no such number, it is open
        ("response.p99 < 200 ms", FEW, "OVERLOADED", False),
        ("response.p99 < 200 ms", FEW, "STEADY", None),
        ("response.p99 < 200 ms", Estimate(value=None, why="not measured"), "OVERLOADED", None),
        ("response.p99 < 200 ms", Estimate(value=None, why="in stages"), "OVERLOADED", None),
        # what is above a limit, and only grows
        ("response.p50 > 100 ms", MEASURED, "OVERLOADED", True),
        # what an overloaded server completes does not grow with the run's length; what it completes in time falls
        ("throughput >= 100/s", RATE, "OVERLOADED", True),
        ("goodput(200 ms) >= 100/s", RATE, "OVERLOADED", False),
        ("goodput(200 ms) >= 100/s", RATE, "STEADY", True),
        # judged as counted, and the instrument's own
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
    """TC0 is steady, TC1 overloaded, and no number of either is anywhere near these limits."""
    times = ("background.response.p50 < 10000 s", "background.response.mean < 10000 s")
    probe, goodput = "probe.response.p50 < 10000 s", "background.goodput(10000 s) >= 1/s"
    others = ("background.throughput >= 1/s", "probe.success_rate >= 99 %", "background.requests >= 1")
    found = judged(open_loop, open_loop.trials(), *times, probe, goodput, *others)
    for text in (*times, probe, goodput, *others):
        assert found["TC0", text].outcome == "passed", found["TC0", text].sentence
        assert not found["TC0", text].overloaded
    for text in (*times, probe, goodput):
        one = found["TC1", text]
        assert (one.outcome, one.overloaded) == ("failed", True), one.sentence
        assert "the server is OVERLOADED, which fails any limit; it is " in one.sentence
        assert one.measured is not None
        assert one.sentence == f"TC1: {text} {one.told}"
    for text in others:
        assert (found["TC1", text].outcome, found["TC1", text].overloaded) == ("passed", False)


def test_so_it_does_where_the_server_died_though_nothing_grows(closed: Bench) -> None:
    text, counted = "probe.response.p50 < 10000 s", "probe.success_rate >= 99 %"
    trials = [fallen(trial, KILLED) if trial.case == "TC1" else trial for trial in closed.trials()]
    found = judged(closed, trials, text, counted)
    assert (found["TC1", text].outcome, found["TC1", text].overloaded) == ("failed", True)
    assert found["TC1", counted].outcome == "passed", "what was counted is judged as it is"
    assert found["TC0", text].outcome == "passed"


def test_one_death_of_two_is_no_overloaded_case_s(closed: Bench) -> None:
    """The state is that of most trials, the more severe of equals; a number that grows in none of them stays one."""
    text = "probe.response.p50 < 10000 s"
    trials = [fallen(trial, KILLED) if trial.trial == "TC1.r1" else trial for trial in closed.trials()]
    assert judged(closed, trials, text)["TC1", text].outcome == "failed", "one of two: the more severe"
    third = [trial for trial in closed.trials() if trial.case == "TC1"]
    assert judged(closed, third, text)["TC1", text].outcome == "passed"
