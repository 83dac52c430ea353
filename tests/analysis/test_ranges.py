"""Planted disturbances in virtual time: the same arrivals and service times with and without them, so that the truth
is known. The true value of a number lies within its range in 95 % of the trials, of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from benches.ranges import FITTED, LOOPS, Dice, Floats, Planted, Planter, judged, planted
from tests.analysis.conftest import Bench, with_readings
from tests.analysis.queues import Counter, ranged, read

from svload.analysis import limits
from svload.analysis.judge import judge_trial
from svload.store import TrialData
from svload.store.thin import coarsen

END_S = 20.0
STATS = ("p50", "p95", "mean")


def nothing(dice: Dice, end_s: float) -> tuple[Floats, float]:
    return np.zeros((0, 2)), 0.0


def spell(dice: Dice, end_s: float) -> tuple[Floats, float]:
    """Strangers have half of the core for 5 of the 20 s."""
    begins = np.arange(5.0, 10.0, 0.008)
    return np.column_stack([begins, begins + 0.004]), 0.25


def one_trial(bench: Bench, planter: Planter, loop: str = "open") -> Planted:
    return planted(bench, np.random.default_rng(3), planter, "burns", loop)


def evenly(seconds: float) -> Counter:
    return np.array([0.0, END_S]), np.array([0.0, seconds])


@pytest.mark.parametrize("kind", ["strangers 0.5 s", "stops", "steal"])
def test_the_truth_lies_within_the_range(closed: Bench, kind: str) -> None:
    trials = list(judged(closed, {kind: FITTED[kind]}, range(4)))
    held = [one.needed[stat] <= one.below[stat] for one in trials for stat in STATS]
    assert np.mean(held) >= 0.95
    assert np.median([one.below[stat] for one in trials for stat in STATS]) < 0.4


@pytest.mark.parametrize("loop", LOOPS)
def test_a_quiet_machine_widens_nothing(closed: Bench, loop: str) -> None:
    quiet = one_trial(closed, nothing, loop)
    ranges = ranged(quiet.trial, quiet.config)
    assert max((max(one.below or 0.0, one.above or 0.0) for one in ranges.values()), default=0.0) < 0.001


def test_users_who_wait_bound_what_a_full_server_lost(closed: Bench) -> None:
    """Behind other programs its queue never empties, so the index of disturbance says nothing; but its users'
    cycles became longer by no more than those programs had of the core."""
    one = one_trial(closed, spell, "full")
    found = ranged(one.trial, one.config, ("mean", *STATS))
    for stat in STATS:
        below, true = found[f"response.{stat}"].below or 0.0, 1 - one.true[stat] / one.seen[stat]
        assert true - 0.005 <= below < max(2 * true, 0.3), stat
    assert (found["response.mean"].below or 0.0) < 0.15  # they had an eighth


def test_the_calm_part_of_a_trial_bounds_its_numbers(closed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the time is disturbed: the rest shows what its percentiles would be. A thin copy shows it less
    exactly."""
    one = one_trial(closed, spell)
    window = (0, 600)
    thin = replace(one.trial, histograms=coarsen(one.trial.histograms, window), thinned=True)
    narrow, coarse = (ranged(trial, one.config)["response.p95"].below or 0.0 for trial in (one.trial, thin))
    true = 1 - one.true["p95"] / one.seen["p95"]
    assert true - 0.005 <= narrow <= coarse
    monkeypatch.setattr(limits, "CALM_LEAST", 2.0)
    wide = ranged(one.trial, one.config)["response.p95"].below or 0.0
    assert coarse < wide - 0.02


def test_what_nobody_read_takes_the_widest_range(closed: Bench) -> None:
    """And never none: the less is known, the wider."""
    quiet = one_trial(closed, nothing)
    unread = read(_unread(quiet), END_S, others=None)
    found = ranged(unread, quiet.config)["response.p50"]
    assert (found.below, found.above, found.grade) == (*limits.WIDEST, "WEAK")


def test_a_hog_on_the_server_s_core_is_seen_by_what_the_server_waited(closed: Bench) -> None:
    """The planted server waited for half of the time, the clean one never."""
    quiet = one_trial(closed, nothing)
    wide, clean = (
        ranged(
            read(_unread(quiet), END_S, others=evenly(END_S), waits=evenly(waits_s), cpu=evenly(6.0)),
            quiet.config,
        )
        for waits_s in (10.0, 0.0)
    )
    assert (wide["response.p50"].below or 0.0) > 0.3
    assert clean["response.p50"].below == 0.0


def _unread(planted: Planted) -> TrialData:
    monitors = {name: column[:0] for name, column in planted.trial.monitors.items()}
    return replace(planted.trial, monitors=monitors)


DISTURBED: Sequence[tuple[str, Callable[[TrialData], TrialData]]] = [
    ("others", lambda trial: with_readings(trial, "others", "cpu_seconds_total", lambda at, _: 1.6 * at, "")),
    ("steal", lambda trial: with_readings(trial, "host", "steal_seconds_total", lambda at, _: 0.4 * at)),
    (
        "waits",
        lambda trial: with_readings(trial, "generator", "run_queue_seconds_total", lambda at, _: 0.5 * at),
    ),
]


@pytest.mark.parametrize(("name", "plant"), DISTURBED, ids=[name for name, _ in DISTURBED])
def test_disturbances_refuse_no_trial(
    closed: Bench, name: str, plant: Callable[[TrialData], TrialData]
) -> None:
    trial = closed.trial("TC0.r1")
    result = judge_trial(plant(trial), closed.config(trial))
    assert {one.grade for one in result.metrics.values()} <= {"VALID", "WEAK"}
    median = result.metrics["probe.response.p50"]
    if name != "waits":  # those of the load are measured request by request
        assert median.grade == "WEAK"
        assert median.belief.below
