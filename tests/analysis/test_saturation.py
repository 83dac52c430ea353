"""A server at its limit is SATURATED by its own monitors' figures, under either loop; a busy one that keeps nobody waiting is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_readings, with_table

from svload.analysis.judge import judge_trial
from svload.store import TrialData

GAUGES = ("in_service", "workers", "queued")


def with_workers(trial: TrialData, in_service: float, queued: Any, service: str = "cache") -> TrialData:
    """The trial whose monitor `truth` read the workers of a service: eight there are."""
    table = {name: np.array(trial.monitors[name]) for name in trial.monitors}
    moments = np.unique(table["offset_ns"])
    added: dict[str, list[Any]] = {name: [] for name in table}
    for metric, value in zip(GAUGES, (in_service, 8.0, queued), strict=True):
        for number, at in enumerate(moments):
            row = {"offset_ns": at, "service": service, "monitor": "truth", "entity": "", "metric": metric}
            row["value"] = float(value[number % len(value)] if isinstance(value, list) else value)
            for name, cell in row.items():
                added[name].append(cell)
    joined = {
        name: np.concatenate([column, np.array(added[name], dtype=column.dtype)])
        for name, column in table.items()
    }
    return with_table(trial, "monitors", **joined)


@pytest.mark.parametrize(
    ("in_service", "queued", "state"),
    [(8, 3.0, "SATURATED"), (7, 3.0, "STEADY"), (8, 0.0, "STEADY"), (8, [3.0, 0.0], "STEADY")],
)
def test_workers(closed: Bench, in_service: float, queued: Any, state: str) -> None:
    trial = closed.trial("TC4.r1")
    clean = judge_trial(trial, closed.config(trial)).verdict
    verdict = judge_trial(with_workers(trial, in_service, queued), closed.config(trial)).verdict
    assert verdict.server == (state if state == "SATURATED" else clean.server)
    assert verdict.instrument == clean.instrument
    assert ("all 8 workers of cache" in " ".join(verdict.reasons)) == (state == "SATURATED")


def test_an_open_loop_too(open_loop: Bench) -> None:
    trial = open_loop.trial("TC0.r1")
    verdict = judge_trial(with_workers(trial, 8, 2.0, "backend"), open_loop.config(trial)).verdict
    assert verdict.server == "SATURATED"


def test_an_accept_queue_that_overflows(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    metric = np.array(trial.monitors["metric"])
    metric[metric == "drop_pagecache_total"] = "listen_overflows_total"
    with_queue = with_table(trial, "monitors", metric=metric)
    assert judge_trial(with_queue, closed.config(trial)).verdict.server == "STEADY"
    lost = with_readings(with_queue, "host", "listen_overflows_total", lambda at, old: old + 4 * (at > 0.7))
    verdict = judge_trial(lost, closed.config(trial)).verdict
    assert verdict.server == "SATURATED"
    assert "overflowed 4 times" in " ".join(verdict.reasons)
