"""Goodput within a limit: from rows and from histograms alike, and wherever a study names it."""

from __future__ import annotations

import pytest
from tests.analysis.conftest import Bench
from tests.analysis.test_steps import COUNT, FAST_MS, MS, SLOW_MS, config, trial
from tests.evolve import evolve

from svload.analysis import judge_run
from svload.analysis.measures import measure_trial
from svload.analysis.runs import compare_runs
from svload.analysis.view import Window
from svload.model.metrics import Source, parse_metric
from svload.model.study import Comparison

OWNERS: dict[str, Source] = {"users": "traffic", "users.fast": "traffic"}
SECONDS = COUNT / 10


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(
    ("metric", "within"),
    [
        (f"users.goodput({FAST_MS - 1} ms)", 0),
        (f"users.goodput({FAST_MS + 1} ms)", COUNT - 1),
        (f"users.goodput({SLOW_MS - 10} ms)", COUNT - 1),
        (f"users.goodput({SLOW_MS + 10} ms)", 2 * COUNT - 1),
        (f"users.fast.goodput({SLOW_MS + 10} ms)", COUNT - 1),
    ],
)
def test_ok_requests_within_the_limit_count(rows: bool, metric: str, within: int) -> None:
    """The one request that failed never does, however fast it was."""
    ref = parse_metric(metric, OWNERS)
    found = measure_trial(trial(rows), config(), Window(0, COUNT, 100 * MS), [ref])
    assert found[metric].value == pytest.approx(within / SECONDS)
    assert found[metric].n == within


def test_without_being_asked_for_there_is_none() -> None:
    assert not [
        name for name in measure_trial(trial(True), config(), Window(0, COUNT, 100 * MS)) if "goodput" in name
    ]


def test_a_study_may_gate_and_compare_it(closed: Bench) -> None:
    limit = "probe.goodput(1 s)"
    lock = evolve(
        closed.lock,
        comparisons=(Comparison(name="cache", factor="server", baseline="backend", metric=limit),),
        thresholds=(),
    )
    configs = {
        name: evolve(one, thresholds=("probe.goodput(1000 ms) > 0.1/s", "goodput(1 us) > 1/s"))
        for name, one in closed.configs.items()
    }
    findings = judge_run(lock, configs, closed.trials())
    case = findings.cases[0]
    assert case.metrics[limit].value == pytest.approx(case.metrics["probe.ok_throughput"].value, rel=0.2)
    assert {claim.metric for claim in findings.claims} == {limit}
    outcomes = {one.that: one.outcome for one in findings.thresholds if one.case == case.case}
    assert outcomes == {"probe.goodput(1000 ms) > 0.1/s": "passed", "goodput(1 us) > 1/s": "failed"}
    rows = compare_runs(findings, findings)
    assert {row["metric"] for row in rows if row["case"] == case.case} >= {limit, "probe.throughput"}
