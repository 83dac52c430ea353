"""A server at its limit is SATURATED by its own monitors' figures, under either loop; a busy one
that keeps nobody waiting is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_readings, with_rows, with_service, with_table

from svload.analysis.judge import judge_trial
from svload.model.facts import CPUS, Setting
from svload.store import TrialData

GAUGES = ("in_service", "workers", "queued")


def with_workers(trial: TrialData, in_service: float, queued: Any, service: str = "cache") -> TrialData:
    """The trial whose monitor `truth` read the workers of a service: eight there are."""
    rows = (
        (at, service, "truth", "", metric, value[number % len(value)] if isinstance(value, list) else value)
        for metric, value in zip(GAUGES, (in_service, 8.0, queued), strict=True)
        for number, at in enumerate(np.unique(trial.monitors["offset_ns"]))
    )
    return with_rows(trial, rows)


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
    assert ("workers of cache: 8 of 8 in use" in " ".join(verdict.reasons)) == (state == "SATURATED")


def test_an_open_loop_too(open_loop: Bench) -> None:
    trial = open_loop.trial("TC0.r1")
    verdict = judge_trial(with_workers(trial, 8, 2.0, "backend"), open_loop.config(trial)).verdict
    assert verdict.server == "SATURATED"


def with_queue(trial: TrialData, metric: str, values: Any, service: str = "cache") -> TrialData:
    """The trial with a reading of an accept queue at each moment of its monitors;
    `values` is by moment, or one for all."""
    at = np.unique(trial.monitors["offset_ns"])
    monitor, entity = ("listeners", "8080") if service else ("host", "")
    values = np.broadcast_to(values, len(at))
    return with_rows(
        trial, ((ns, service, monitor, entity, metric, value) for ns, value in zip(at, values, strict=True))
    )


def queues(trial: TrialData, queue: Any, drops: Any, overflows: Any) -> TrialData:
    """An accept queue of ten places of the cache, its drops, and the machine's counter."""
    found = with_queue(with_queue(trial, "accept_queue", queue), "accept_queue_limit", 10)
    return with_queue(
        with_queue(found, "accept_drops_total", drops), "listen_overflows_total", overflows, service=""
    )


def test_an_accept_queue_of_its_own(closed: Bench) -> None:
    """Full in a reading, or dropping while the machine counts overflows; other programs' overflows, and
    drops for other reasons, are not."""
    trial = closed.trial("TC4.r1")
    moments = len(np.unique(trial.monitors["offset_ns"]))
    growing = np.arange(moments) * 4.0
    for queue, drops, overflows, state in (
        (3, 0, 0, "STEADY"),
        (10, 0, 0, "STEADY"),
        (3, 0, growing, "STEADY"),
        (3, growing, 0, "STEADY"),
        (3, growing, growing, "SATURATED"),
        (11, 0, 0, "SATURATED"),
    ):
        verdict = judge_trial(queues(trial, queue, drops, overflows), closed.config(trial)).verdict
        assert verdict.server == state, (queue, state)
        reasons = " ".join(verdict.reasons)
        told = "accept queue of cache (8080)" in reasons or "cache (8080): " in reasons
        assert told is (state == "SATURATED")


def with_host_core(trial: TrialData, core: int, busy: float) -> TrialData:
    """The trial in which a core was busy for that share of the time."""
    return with_readings(trial, "host", "busy_seconds_total", lambda at, _: busy * at, f"cpu{core}")


def with_cpu(trial: TrialData, service: str, cores: float) -> TrialData:
    """The trial in which a service used so many cores."""
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == "cpu_seconds_total")
    value = np.where(mine, cores * trial.monitors["offset_ns"] / 1e9, trial.monitors["value"])
    return with_table(trial, "monitors", value=value)


@pytest.mark.parametrize(
    ("busy", "cores", "state"), [(0.97, 0.7, "SATURATED"), (0.9, 0.7, "STEADY"), (0.97, 0.0, "STEADY")]
)
def test_a_core_of_the_servers_that_is_full(closed: Bench, busy: float, cores: float, state: str) -> None:
    trial = with_cpu(with_host_core(closed.trial("TC4.r1"), 1, busy), "cache", cores)
    verdict = judge_trial(trial, closed.config(trial), server_cores=(1,)).verdict
    assert (verdict.server == "SATURATED") == (state == "SATURATED")
    assert ("core 1, which the servers run on" in " ".join(verdict.reasons)) == (state == "SATURATED")
    elsewhere = judge_trial(trial, closed.config(trial), server_cores=(0,)).verdict
    assert elsewhere.server != "SATURATED"


@pytest.mark.parametrize(("used", "full"), [(0.49, True), (0.4, False)])
def test_a_cpu_quota_that_is_used_up(closed: Bench, used: float, full: bool) -> None:
    trial = with_cpu(closed.trial("TC4.r1"), "cache", used)
    quota = (Setting(name=CPUS, asked="0.5", found="0.5"),)
    limited = with_service(trial, "cache", settings=quota)
    verdict = judge_trial(limited, closed.config(trial)).verdict
    assert (verdict.server == "SATURATED") is full
    assert ("of the 0.5 cores that it can have (its quota)" in " ".join(verdict.reasons)) is full


def test_visible_waves_are_not_steady(closed: Bench) -> None:
    """Response doubles and halves ten times in the window."""
    trial = closed.trial("TC4.r1")
    table = trial.intervals
    wave = 1 + 0.6 * np.sin(2 * np.pi * 10 * table["interval"] / max(table["interval"]))
    swinging = with_table(
        trial, "intervals", response_sum_ns=(table["response_sum_ns"] * wave).astype(np.uint64)
    )
    verdict = judge_trial(swinging, closed.config(trial)).verdict
    assert verdict.server == "UNKNOWN"
    assert "swings by ±" in " ".join(verdict.reasons)
    assert "swings" not in " ".join(judge_trial(trial, closed.config(trial)).verdict.reasons)
