"""Steps have their own numbers, goodput included, equal whether computed from rows or from histograms."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.evolve import evolve
from tests.results import case_of

from svload.analysis.measures import measure_trial
from svload.analysis.view import Window
from svload.model.columns import HISTOGRAM_METRICS, HISTOGRAMS, INTERVALS, SAMPLES, bucket
from svload.model.executors import ConstantVus
from svload.model.metrics import MetricRef, Source, parse_metric
from svload.model.results import Estimate, GroupSummary, StepSummary
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Request, Scenario, Step

MS = 1_000_000
SLOW_MS, FAST_MS = 80, 5
COUNT = 400
RESPONSE = HISTOGRAM_METRICS.index("response")


def config() -> CaseConfig:
    slow, fast = (Request(name=name, scheme="http", host="web", path=()) for name in ("slow", "fast"))
    steps = (Step(name="slow", request=slow), Step(name="fast", request=fast))
    visit = Scenario(name="visit", steps=steps)
    return case_of(Group(name="users", executor=ConstantVus(vus=1), request=slow, scenarios=(visit,)))


def table(schema: Iterable[str], cells: Iterable[dict[str, int]]) -> dict[str, Any]:
    """Return the columns of a table: 0 where a row says nothing."""
    rows = list(cells)
    return {name: np.array([row.get(name, 0) for row in rows], dtype=np.int64) for name in schema}


def trial(rows: bool) -> Any:
    """Return a window of 400 iterations: a slow step, then a fast one, which fails in the first iteration."""
    samples, intervals, histograms = [], [], []
    for number in range(COUNT):
        for step, took in ((0, SLOW_MS), (1, FAST_MS)):
            ok = int(step == 0 or number > 0)
            due = (number * 100 + step * 85) * MS
            stamps = dict.fromkeys(("due_ns", "ready_ns", "begun_ns", "written_ns"), due)
            stamps |= dict.fromkeys(("first_byte_ns", "done_ns"), due + took * MS)
            samples.append({"step": step, "seq": number, "error": 1 - ok, "status": 200, "row": -1} | stamps)
            place = {"step": step, "interval": number}
            intervals.append(place | {"due": 1, "begun": 1, "ok": ok, "failed": 1 - ok, "completed_ok": ok})
            counted = {"metric": RESPONSE, "bucket": bucket(took * MS), "count": ok}
            histograms += [place | counted] * ok
    slow = StepSummary(name="slow", due=COUNT, begun=COUNT, dropped=0, ok=COUNT, failed=0)
    steps = (slow, evolve(slow, name="fast", ok=COUNT - 1, failed=1))
    made = dict.fromkeys(("due", "begun", "written", "completed_in_window"), 2 * COUNT)
    made |= dict.fromkeys(("ok", "ok_in_window"), 2 * COUNT - 1)
    made |= dict.fromkeys(("waiting", "dropped", "in_flight"), 0)
    summary = GroupSummary(name="users", failed=1, steps=steps, **made)
    return SimpleNamespace(
        summary=SimpleNamespace(groups=(summary,), imported=None, stopped="end", turns=None),
        samples=table(SAMPLES, samples if rows else ()),
        intervals=table(INTERVALS, intervals),
        histograms=table(HISTOGRAMS, histograms),
        lab=SimpleNamespace(faults=()),
        thinned=False,
    )


def measured(rows: bool, *asked: MetricRef) -> dict[str, Estimate]:
    return measure_trial(trial(rows), config(), Window(0, COUNT, 100 * MS), asked)


@pytest.mark.parametrize("rows", [True, False])
def test_steps_have_figures_of_their_own(rows: bool) -> None:
    value = {name: estimate.value for name, estimate in measured(rows).items()}
    assert value["users.slow.response.p50"] == pytest.approx(SLOW_MS / 1e3, rel=0.01)
    assert value["users.fast.response.p50"] == pytest.approx(FAST_MS / 1e3, rel=0.01)
    assert value["users.slow.success_rate"] == 1
    assert value["users.fast.success_rate"] == pytest.approx(1 - 1 / COUNT)
    assert value["users.success_rate"] == pytest.approx(1 - 1 / (2 * COUNT))
    assert (value["users.requests"], value["users.fast.requests"]) == (2 * COUNT, COUNT)
    assert value["users.throughput"] == pytest.approx(2 * value["users.fast.throughput"], rel=0.01)
    assert "users.fast.connections" not in value


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
    found = measured(rows, parse_metric(metric, OWNERS))[metric]
    assert (found.value, found.n) == (pytest.approx(within / SECONDS), within)
