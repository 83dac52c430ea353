"""Steps have their own numbers, goodput included, equal whether computed from rows or from histograms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench
from tests.evolve import evolve
from tests.results import case_of

from svload.analysis import judge_run
from svload.analysis.measures import measure_trial
from svload.analysis.runs import compare_runs
from svload.analysis.view import Window
from svload.model.columns import HISTOGRAM_METRICS, HISTOGRAMS, INTERVALS, SAMPLES, bucket
from svload.model.executors import ConstantVus
from svload.model.metrics import Source, metric_name, parse_metric
from svload.model.results import GroupSummary, StepSummary
from svload.model.study import CaseConfig, Comparison
from svload.model.traffic import Group, Request, Scenario, Step

MS = 1_000_000
SLOW_MS, FAST_MS = 80, 5
COUNT = 400


def request(name: str) -> Request:
    return Request(name=name, scheme="http", host="web", path=())


def config() -> CaseConfig:
    steps = tuple(Step(name=name, request=request(name)) for name in ("slow", "fast"))
    group = Group(
        name="users",
        executor=ConstantVus(vus=1),
        request=request("slow"),
        scenarios=(Scenario(name="visit", steps=steps),),
    )
    return case_of(group)


def empty(schema: Any) -> dict[str, list[int]]:
    return {name: [] for name in schema}


def trial(rows: bool) -> Any:
    """Return a window of 400 iterations: a slow step, then a fast one, which fails in the first iteration."""
    samples, intervals, histograms = empty(SAMPLES), empty(INTERVALS), empty(HISTOGRAMS)
    for number in range(COUNT):
        for step, took in ((0, SLOW_MS), (1, FAST_MS)):
            failed = step == 1 and number == 0
            due = (number * 100 + step * 85) * MS
            stamps = {"due_ns": due, "ready_ns": due, "begun_ns": due, "written_ns": due, "first_byte_ns": due + took * MS, "done_ns": due + took * MS}  # fmt: skip
            one = {"step": step, "seq": number, "error": int(failed), "status": 200, "row": -1} | stamps
            for name, column in samples.items():
                column.append(one.get(name, 0))
            cells = {"step": step, "interval": number, "due": 1, "begun": 1, "ok": int(not failed), "failed": int(failed), "completed_ok": int(not failed)}  # fmt: skip
            for name, column in intervals.items():
                column.append(cells.get(name, 0))
            if not failed:
                counted = {"step": step, "interval": number, "metric": HISTOGRAM_METRICS.index("response"), "bucket": bucket(took * MS), "count": 1}  # fmt: skip
                for name, column in histograms.items():
                    column.append(counted.get(name, 0))
    steps = (
        StepSummary(name="slow", due=COUNT, begun=COUNT, dropped=0, ok=COUNT, failed=0),
        StepSummary(name="fast", due=COUNT, begun=COUNT, dropped=0, ok=COUNT - 1, failed=1),
    )
    summary = GroupSummary(name="users", due=2 * COUNT, begun=2 * COUNT, waiting=0, dropped=0, ok=2 * COUNT - 1, failed=1, in_flight=0,
                           written=2 * COUNT, completed_in_window=2 * COUNT, ok_in_window=2 * COUNT - 1, steps=steps)  # fmt: skip
    kept = {name: np.array(column if rows else [], dtype=np.int64) for name, column in samples.items()}
    return SimpleNamespace(
        summary=SimpleNamespace(groups=(summary,), imported=None, stopped="end", turns=None),
        samples=kept,
        intervals={name: np.array(column, dtype=np.int64) for name, column in intervals.items()},
        histograms={name: np.array(column, dtype=np.int64) for name, column in histograms.items()},
        lab=SimpleNamespace(faults=()),
        thinned=False,
    )


@pytest.mark.parametrize("rows", [True, False])
def test_steps_have_figures_of_their_own(rows: bool) -> None:
    found = measure_trial(trial(rows), config(), Window(0, COUNT, 100 * MS))
    value = {name: estimate.value for name, estimate in found.items()}
    assert value["users.slow.response.p50"] == pytest.approx(SLOW_MS / 1e3, rel=0.01)
    assert value["users.fast.response.p50"] == pytest.approx(FAST_MS / 1e3, rel=0.01)
    assert value["users.slow.success_rate"] == 1
    assert value["users.fast.success_rate"] == pytest.approx(1 - 1 / COUNT)
    assert value["users.success_rate"] == pytest.approx(1 - 1 / (2 * COUNT))
    assert (value["users.requests"], value["users.fast.requests"]) == (2 * COUNT, COUNT)
    assert value["users.throughput"] == pytest.approx(2 * value["users.fast.throughput"], rel=0.01)
    assert "users.fast.connections" not in value


def test_a_step_is_named_by_its_group_and_itself() -> None:
    owners = {"users": "traffic", "users.fast": "traffic", "fast": "service"}
    ref = parse_metric("users.fast.response.p95", owners)
    assert (ref.owner, ref.metric.name, ref.stat) == ("users.fast", "response", "p95")
    assert parse_metric("users.response", owners).owner == "users"
    with pytest.raises(ValueError, match="slow"):
        parse_metric("users.slow.response", owners)


def test_a_full_name_identifies_its_metric_whatever_its_owner() -> None:
    for name, metric in (
        ("probe.response.p50", "response"),
        ("users.slow.success_rate", "success_rate"),
        ("users.response.response.p99.9", "response"),
        ("cache.cpu.mean", "cpu"),
        ("requests", "requests"),
    ):
        assert metric_name(name) == metric


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
    """The one request that failed never counts, however fast it was."""
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
