"""An open loop's plan by arithmetic of its own: the same arrivals as the engine's, and
what an engine loses is missed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, check, with_config, with_group, with_table
from tests.evolve import evolve

from svload import _native
from svload.analysis.arrivals import phase, planned, poisson_until
from svload.analysis.view import kept_window, look
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.executors import ConstantArrivalRate, OpenLoop, RampingArrivalRate
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.store import TrialData

SEED = 9_223_372_036_854_775_111
SECOND = 1_000_000_000
UP = (Stage(duration_ns=2 * SECOND, target=900.0), Stage(duration_ns=SECOND, target=100.0))


def engine_plans(executor: dict[str, Any], stop_ns: int) -> int:
    """How many arrivals the engine plans: played in virtual time, every request takes 1 ns."""
    group = {
        "name": "späte", "client": "engine", "connection": "keep-alive", "record": "histogram",
        "start_offset_ns": 0, "stop_offset_ns": stop_ns, "graceful_stop_ns": 0, "follow_redirects": 0,
        "executor": {"index_from": 0, "index_step": 1, "max_vus": 9, "on_full": "wait"} | executor,
        "request": {"name": "f", "method": "GET", "endpoint": "http://s", "path": [{"text": "/"}], "timeout_ns": SECOND, "expect_status": [[200, 399]]},
    }  # fmt: skip
    share = {
        "format": 1, "id": "x", "seed": SEED, "start_at_ns": 0, "stop_fd": -1, "threads": 1, "cpus": [], "interval_ns": SECOND,
        "window_ns": [0, stop_ns], "endpoints": {"http://s": {"address": "127.0.0.1:1", "tls": None}}, "allowed": [], "groups": [group],
    }  # fmt: skip
    (table,) = _native.rehearse(json.dumps(share), {}, 1).values()
    return len(list(struct.iter_unpack("<q", table["due_ns"][1])))


@pytest.mark.parametrize("stop_s", [0.5, 2.0, 2.9])
@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_the_engine_plans_as_many(arrivals: str, stop_s: float) -> None:
    stop_ns = round(stop_s * SECOND)
    steady = {"kind": "constant-arrival-rate", "rate_rps": 1234.5, "arrivals": arrivals}
    ramp = {
        "kind": "ramping-arrival-rate", "start_rate_rps": 10.0, "arrivals": arrivals,
        "stages": [{"duration_ns": stage.duration_ns, "target": stage.target} for stage in UP],
    }  # fmt: skip
    models: list[tuple[dict[str, Any], OpenLoop]] = [
        (steady, ConstantArrivalRate(rate_rps=1234.5)),
        (ramp, RampingArrivalRate(start_rate_rps=10.0, stages=UP)),
    ]
    for executor, model in models:
        level = model.arrivals_until(stop_ns)
        mine = (
            poisson_until(SEED, "späte", level)
            if arrivals == "poisson"
            else int(np.ceil(level - phase(SEED, "späte")))
        )
        assert abs(mine - engine_plans(executor, stop_ns)) <= 1


def test_too_many_to_be_drawn_are_not_counted() -> None:
    assert poisson_until(1, "x", 1e9) is None
    assert poisson_until(1, "x", 0.0) == 0


Planted = tuple[TrialData, CaseConfig]


def seeded(bench: Bench, arrivals: str) -> Planted:
    """A trial of an open loop whose plan has just the arrivals that were due in it, and that tells its seed."""
    trial = bench.trial("TC0.r1")
    due, length_s = trial.summary.groups[0].due, trial.summary.window_ns[1] / SECOND
    level = due + phase(SEED, "background") - 0.5
    if arrivals == "poisson":
        low, high = 0.5 * due, 2.0 * due
        while poisson_until(SEED, "background", level := (low + high) / 2) != due:
            count = poisson_until(SEED, "background", level)
            low, high = (level, high) if count < due else (low, level)
    config = bench.config(trial)
    executor = evolve(config.groups[0].executor, rate_rps=level / length_s, arrivals=arrivals)
    config = with_config(config, "background", executor=executor)
    summary = evolve(trial.summary, seed=SEED)
    return type(trial)(**{**vars(trial), "summary": summary}), config


def lost(planted: Planted, count: int) -> Planted:
    """So many requests vanish from every tally of the engine: none of them was ever due for it."""
    trial, config = planted
    trial = with_group(
        trial, "background", due=lambda n: n - count, begun=lambda n: n - count, ok=lambda n: n - count
    )
    return with_table(trial, "histograms", count=fewer(count)), config


def fewer(count: int) -> Callable[[dict[str, Any]], Any]:
    """The histograms' counts without so many responses of the background."""

    def counts_of(table: dict[str, Any]) -> Any:
        counts = table["count"].astype(np.int64)
        mine = np.flatnonzero(
            (table["group"] == 0) & (table["metric"] == HISTOGRAM_METRICS.index("response"))
        )
        left = count
        for at in mine:
            taken = min(left, int(counts[at]))
            counts[at] -= taken
            left -= taken
        assert left == 0
        return counts.astype(np.uint64)

    return counts_of


ARRIVALS = pytest.mark.parametrize("arrivals", ["constant", "poisson"])


@ARRIVALS
def test_a_plan_that_was_kept_is_valid(open_loop: Bench, arrivals: str) -> None:
    trial, config = seeded(open_loop, arrivals)
    (view, *_) = look(trial, config, kept_window(trial.summary))
    assert planned(trial.summary, config, view) == trial.summary.groups[0].due
    found = check(trial, config, "accounting")
    assert (found.grade, "arrivals planned for background" in found.sentence) == ("VALID", True)


@ARRIVALS
def test_what_every_tally_of_the_engine_lost_is_missed(open_loop: Bench, arrivals: str) -> None:
    trial, config = lost(seeded(open_loop, arrivals), 2)
    found = check(trial, config, "accounting")
    assert (found.grade, "2 are lost" in found.sentence) == ("REFUSED", True)
    rounded, config = lost(seeded(open_loop, arrivals), 1)
    assert check(rounded, config, "accounting").grade == "VALID"


def test_what_records_or_gauge_say_otherwise_is_a_loss(open_loop: Bench) -> None:
    trial, config = seeded(open_loop, "constant")
    stuck = with_group(trial, "background", left_at_end=lambda n: n + 5)
    assert "5 are too many" in check(stuck, config, "accounting").sentence
    unknown = with_group(trial, "background", left_at_end=-1)
    assert check(unknown, config, "accounting").grade == "VALID"


def waiting(planted: Planted, count: int, ready: int) -> Planted:
    """So many arrivals still waited at the end, of them so many with a slot free; no request that began had waited."""
    trial, config = planted

    def nobody_waited(table: dict[str, Any]) -> Any:
        of_waits = (table["group"] == 0) & (table["metric"] == HISTOGRAM_METRICS.index("slot_wait"))
        return np.where(of_waits, 0, table["bucket"]).astype(np.uint32)

    trial = with_group(
        trial, "background", begun=lambda n: n - count, ok=lambda n: n - count, waiting=lambda n: n + count,
        waiting_ready=ready, left_at_end=lambda n: n + count,
    )  # fmt: skip
    return with_table(trial, "histograms", bucket=nobody_waited, count=fewer(count)), config


@ARRIVALS
def test_waiting_for_a_slot_to_the_end_is_the_servers_doing(open_loop: Bench, arrivals: str) -> None:
    trial, config = waiting(seeded(open_loop, arrivals), 100, 0)
    assert check(trial, config, "accounting").grade == "VALID"


@ARRIVALS
def test_waiting_with_a_slot_free_is_the_generators_doing(open_loop: Bench, arrivals: str) -> None:
    due = open_loop.trial("TC0.r1").summary.groups[0].due
    for share, grade in ((0.0005, "VALID"), (0.003, "WEAK"), (0.01, "REFUSED")):
        count = round(share * due)
        trial, config = waiting(seeded(open_loop, arrivals), count, count)
        assert check(trial, config, "accounting").grade == grade, share


@ARRIVALS
def test_arrivals_that_never_came_due_are_load_that_was_not_made(open_loop: Bench, arrivals: str) -> None:
    """Although requests waited for slots meanwhile."""
    for share, words in ((0.0005, "all "), (0.003, "(99.728 %)"), (0.01, "(99.00")):
        planted = seeded(open_loop, arrivals)
        trial, config = lost(planted, round(share * planted[0].summary.groups[0].due))
        assert words in check(trial, config, "accounting").sentence.lower(), share
