"""How far disturbances can have put a number off: held against the same queue without them, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench
from tests.analysis.queues import Requests, as_trial, asked_by, believed, counted, served, with_gaps

from svload.analysis.criteria import metric_of
from svload.analysis.disturbances import Disturbance, disturbances_of
from svload.analysis.view import Window
from svload.model.results import Estimate, Harm
from svload.model.study import CaseConfig
from svload.store import TrialData

GROUP = "background"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
RATE, WORK_S, END_S = 200.0, 0.004, 60.0


def arrivals(
    rng: np.random.Generator, busy: float = 0.8, end_s: float = END_S
) -> tuple[np.ndarray, np.ndarray]:
    due = np.cumsum(rng.exponential(1 / RATE, round(RATE * end_s * 1.1)))
    due = due[due < end_s]
    return due, rng.exponential(busy / RATE, len(due))


def inside(estimate: Estimate, true_s: tuple[float, float]) -> bool:
    """Whether what is bounded and what is true meet; a histogram's buckets are 0.8 % wide."""
    value, belief = estimate.value or 0.0, estimate.belief
    below, above = (belief.below or 0.0, belief.above or 0.0) if belief else (0.0, 0.0)
    return value * (1 - below) * 0.99 <= true_s[1] and true_s[0] <= value * (1 + above) * 1.01


@pytest.mark.parametrize("rows", [True, False])
def test_a_stop_touches_those_that_queue_behind_it_too(open_loop: Bench, rows: bool) -> None:
    """0.3 s at 80 % utilisation: some 285 requests and not the 60 that were due in it."""
    found = []
    for seed in range(12):
        due, work = arrivals(np.random.default_rng(seed))
        stop = (20.0, 20.3)
        trial, config = as_trial(open_loop, served(due, work, [stop]), END_S, rows=rows)
        trial = with_gaps(trial, [stop])
        counting, _, _ = counted(trial, config)
        (group,) = counting.groups
        found.append(counting._touched(group, counting.found.moments))
    assert 200 <= np.median(found) <= 480, found
    assert min(found) > 100


@pytest.mark.parametrize("rows", [True, False])
def test_a_gap_of_milliseconds_costs_a_tail_at_most(open_loop: Bench, rows: bool) -> None:
    due, work = arrivals(np.random.default_rng(3), busy=0.5, end_s=20.0)
    trial, config = as_trial(open_loop, served(due, work, [(9.0, 9.01)]), 20.0, rows=rows)
    _, metrics, clean = counted(trial, config)
    assert clean == {}
    _, _, harms = counted(with_gaps(trial, [(9.0, 9.01)]), config)
    assert harms[f"{GROUP}.response.p50"].grade == "VALID"
    assert harms[f"{GROUP}.response.p90"].grade == "VALID"
    assert harms[f"{GROUP}.throughput"].grade == "VALID"
    assert metrics[f"{GROUP}.response.p99"].value is not None
    _, _, short = counted(with_gaps(trial, [(9.0, 9.0049)]), config)
    assert short == {}


@pytest.mark.parametrize("rows", [True, False])
def test_short_gaps_weaken_a_tail_where_they_touched_enough_to_reach_it(open_loop: Bench, rows: bool) -> None:
    """Gaps of milliseconds, each the longest of its look: 40 of 4,000 requests lie above the p99, and one gap touches
    about three.
    """
    due, work = arrivals(np.random.default_rng(3), busy=0.3, end_s=20.0)
    trial, config = as_trial(open_loop, served(due, work), 20.0, rows=rows)
    number = f"{GROUP}.response.p99"

    def weakened(gap_s: float, every_s: float) -> set[str]:
        looks = [(at - gap_s, at) for at in np.arange(0.1, 19.9, every_s)]
        counting, metrics, _ = counted(with_gaps(trial, looks, "hiccup_seconds"), config)
        assert 0.006 < (metrics[number].value or 0.0) < 0.03
        assert {one.grade for one in counting.by_short_gaps} <= {"WEAK"}
        return {one.number for one in counting.by_short_gaps}

    often = weakened(0.0045, 0.3)
    assert number in often
    assert not {name for name in often if ".p99" not in name}, "a median is not reached"
    assert number not in weakened(0.0045, 4.0), "five of them touch sixteen requests"
    assert weakened(0.0005, 0.3) == set(), "below a tenth of it"
    assert weakened(0.0, 0.3) == set()


def test_a_gap_below_a_tenth_of_a_number_harms_it_by_its_own_length(open_loop: Bench) -> None:
    """Answers of 0.2 s, and so many gaps that all are touched: none is later by more than the
    longest gap, and that is told.
    """
    rng = np.random.default_rng(5)
    due = np.sort(rng.uniform(0, 20, 400))
    made = Requests(due, due + 0.2 + rng.exponential(0.02, len(due)))
    trial, config = as_trial(open_loop, made, 20.0)
    for length_s, grade in ((0.008, "VALID"), (0.015, "WEAK"), (0.05, "REFUSED")):
        gaps = [(at, at + length_s) for at in np.arange(1.0, 19.0, 0.5)]
        _, metrics, harms = counted(with_gaps(trial, gaps), config)
        median = harms[f"{GROUP}.response.p50"]
        assert median.grade == grade
        if grade != "REFUSED":
            share = length_s / (metrics[f"{GROUP}.response.p50"].value or 0.0)
            assert (median.below, median.above) == (pytest.approx(share), pytest.approx(share))


def test_what_cores_lost_shortly_adds_up_until_it_is_worked_off(open_loop: Bench) -> None:
    """Eight times 12 ms of steal before the queue has recovered are 0.1 s that an answer of 0.2 s may be late by."""
    rng = np.random.default_rng(6)
    due = np.sort(rng.uniform(0, 20, 400))
    made = Requests(due, due + 0.2 + rng.exponential(0.02, len(due)))
    trial, config = as_trial(open_loop, made, 20.0)
    counting, _, _ = counted(trial, config)
    (group,) = counting.groups
    stolen = [
        Disturbance("steal", at, at + 2e8, "cpu0", 0.012, True, True) for at in np.arange(5e9, 6.6e9, 2e8)
    ]
    gaps = [one._replace(check="hiccups") for one in stolen]
    assert counting._delay_s(group, stolen) == pytest.approx(8 * 0.012)
    assert counting._delay_s(group, gaps) == pytest.approx(0.012)
    assert counting._delay_s(group, []) == 0.0


def test_goodput_is_off_by_those_that_were_touched(open_loop: Bench) -> None:
    """A second of 20 in which the load stood still: what came then was late, and may have been in time."""
    due, work = arrivals(np.random.default_rng(8), busy=0.3, end_s=20.0)
    stop = (9.0, 10.0)
    number = f"{GROUP}.goodput(20 ms)"
    for rows in (True, False):
        truth = np.count_nonzero(served(due, work).done - due <= 0.020) / 20.0
        trial, config = as_trial(open_loop, served(due, work, [stop]), 20.0, rows=rows)
        wanted = [metric_of("goodput(20 ms)", config)]
        _, metrics, clean = counted(trial, config, wanted)
        assert number not in clean
        _, _, harms = counted(with_gaps(trial, [stop]), config, wanted)
        found, value = harms[number], metrics[number].value or 0.0
        assert found.grade == "WEAK"
        assert value < 0.97 * truth <= value * (1 + (found.above or 0.0))
        assert found.below is not None
        _, _, brief = counted(with_gaps(trial, [(15.0, 15.006)]), config, wanted)
        assert brief[number].grade == "VALID"


def test_a_process_that_stood_still_before_its_witness_began_is_found(open_loop: Bench) -> None:
    """Stopped just as the load began: the witness's first look comes when it goes on, and tells of no gap."""
    due, work = arrivals(np.random.default_rng(3), busy=0.3, end_s=20.0)
    number = f"{GROUP}.throughput"

    def looked(trial: TrialData, first_s: float) -> TrialData:
        return with_gaps(trial, [(at, at) for at in np.arange(first_s, 19.95, 0.1)], "hiccup_seconds")

    trial, config = as_trial(open_loop, served(due, work, [(0.0, 7.9)]), 20.0)
    _, _, harms = counted(looked(trial, 7.9), config)
    assert harms[number].grade == "REFUSED"
    assert harms[f"{GROUP}.response.p50"].grade == "REFUSED"
    trial, config = as_trial(open_loop, served(due, work), 20.0)
    _, _, clean = counted(looked(trial, -0.1), config)
    assert number not in clean


def test_a_rate_of_nothing_while_all_time_was_lost_is_refused(open_loop: Bench) -> None:
    """Half of the time lost may have halved the rate; all of it says nothing of the rate."""
    due, work = arrivals(np.random.default_rng(3), busy=0.3, end_s=20.0)
    trial, config = as_trial(open_loop, served(due, work, [(0.0, 40.0)]), 20.0)
    _, metrics, harms = counted(with_gaps(trial, [(-0.1, 20.0)]), config)
    number = f"{GROUP}.throughput"
    assert metrics[number].value == 0
    assert (harms[number].grade, harms[number].above) == ("REFUSED", None)
    trial, config = as_trial(open_loop, served(due, work), 20.0)
    _, _, half = counted(with_gaps(trial, [(0.0, 10.0)]), config)
    assert half[number].above == pytest.approx(1.0, rel=0.01)


def test_throughput_is_off_by_the_time_that_was_lost(open_loop: Bench) -> None:
    """Threads that waited for 10 ms in each of ten readings of 0.2 s lost 0.1 s of 20, not 2 s."""
    due, work = arrivals(np.random.default_rng(9), busy=0.3, end_s=20.0)
    trial, config = as_trial(open_loop, served(due, work), 20.0)
    number = f"{GROUP}.throughput"
    for lost_s, grade in ((0.010, "VALID"), (0.15, "WEAK")):
        waits = [(at, lost_s if 5 <= at < 7 else 0.0) for at in np.arange(0, 20.2, 0.2)]
        harms = {one.number: one for one in waiting(trial, config, waits)}
        assert harms[number].grade == grade
        share = 10 * lost_s / 20
        assert harms[number].above == pytest.approx(share / (1 - share), rel=0.02)


@pytest.mark.parametrize("metric", ["run_queue_seconds_total", "hiccup_seconds"])
def test_whole_seconds_are_never_left_out(open_loop: Bench, metric: str) -> None:
    """What is read every 0.2 s tells the moment; of what is read every second nobody knows when in it."""
    for every_s, severe in ((0.2, True), (1.0, False)):
        moments = np.arange(0, 20 + every_s, every_s)
        hit = (moments > 5) & (moments <= 5 + every_s)
        values = np.where(hit, 0.15, 0.0)
        table = readings(moments, np.cumsum(values) if metric.endswith("total") else values, metric)
        found = disturbances_of(table, Window(0, 600, 33_333_333))
        assert [one.severe for one in found.moments] == [severe]


def test_a_tick_of_steal_in_a_reading_is_left_out_and_a_whole_second_is_not(open_loop: Bench) -> None:
    """Two ticks of 10 ms in a second are steal; each is 5 % of its reading, and may be half a tick more."""
    for every_s, severe in ((0.2, [True, True]), (0.19, [True, True]), (1.0, [False])):
        moments = np.arange(0, 20 + every_s, every_s)
        grown = np.zeros(len(moments))
        first = int(np.searchsorted(moments, 5.0))
        for at in (first, first + 2) if every_s < 1 else (first, first):
            grown[at] += 0.01
        table = readings(moments, np.cumsum(grown), "steal_seconds_total", "host")
        found = disturbances_of(table, Window(0, 600, 33_333_333))
        assert [one.severe for one in found.moments] == severe


def readings(moments_s: Any, values: Any, metric: str, monitor: str = "generator") -> dict[str, Any]:
    """A monitor's table with one series."""
    size = len(moments_s)
    return {
        "offset_ns": np.round(np.asarray(moments_s) * 1e9).astype(np.int64),
        "service": np.full(size, ""),
        "monitor": np.full(size, monitor),
        "entity": np.full(size, "load.0/0"),
        "metric": np.full(size, metric),
        "value": np.asarray(values, dtype=float),
    }


def waiting(trial: TrialData, config: CaseConfig, waits: Sequence[tuple[float, float]]) -> tuple[Harm, ...]:
    """What run-queue wait, so much up to each moment, does to the numbers."""
    moments, lost = zip(*waits, strict=True)
    table = readings(moments, np.cumsum(lost), "run_queue_seconds_total")
    counting, _, _ = counted(replace(trial, monitors=table), config)
    return counting.by_check["run-queue"]


@pytest.mark.parametrize("rows", [True, False])
def test_without_a_recovery_nothing_is_believed(open_loop: Bench, rows: bool) -> None:
    """From the stop on the server is slower than what is asked."""
    due, work = arrivals(np.random.default_rng(1), busy=0.5)
    work = np.where(due > 20, work * 2.2, work)
    trial, config = as_trial(open_loop, served(due, work), END_S, rows=rows)
    # The second lies where a whole cycle no longer ends within the load.
    _, _, harms = counted(with_gaps(trial, [(20.0, 21.0), (59.98, 60.0)]), config)
    assert {harms[f"{GROUP}.response.{stat}"].grade for stat in PERCENTILES} == {"REFUSED"}


def from_s(trial: TrialData, low_s: float) -> TrialData:
    """The same trial with a kept window that begins later."""
    window_ns = (round(low_s * 1e9), trial.summary.window_ns[1])
    return replace(trial, summary=trial.summary.model_copy(update={"window_ns": window_ns}))


@pytest.mark.parametrize("rows", [True, False])
def test_a_stop_before_the_window_counts_as_long_as_it_is_felt(open_loop: Bench, rows: bool) -> None:
    """Two seconds at 80 % leave a queue of some eight, and the warm-up cut ends with the stop."""
    due, work = arrivals(np.random.default_rng(4), end_s=30.0)
    stop = (3.0, 5.0)
    true, made = served(due, work), served(due, work, [stop])
    trial, config = as_trial(open_loop, made, 30.0, rows=rows)
    trial = with_gaps(trial, [stop])
    shortly = believed(from_s(trial, 6.5), config)
    assert shortly[f"{GROUP}.response.mean"].grade == "REFUSED"
    counting, metrics, harms = counted(from_s(trial, 6.5), config)
    assert counting.found.moments != ()
    of_rate, asked = harms[f"{GROUP}.throughput"], metrics[f"{GROUP}.throughput"].value or 0.0
    true_rate = np.count_nonzero((true.done >= 6.5) & (true.done < 30)) / 23.5
    assert of_rate.below is not None
    assert asked * (1 - of_rate.below) <= 1.01 * true_rate < asked, "what queued before was answered in it"
    long_after, _, clean = counted(from_s(trial, 24.0), config)
    assert long_after.found.moments == ()
    assert clean == {}


def test_a_window_that_a_stop_before_it_touched_most_of_has_no_median(open_loop: Bench) -> None:
    due, work = arrivals(np.random.default_rng(6), end_s=12.0)
    stop = (0.5, 3.0)
    trial, config = as_trial(open_loop, served(due, work, [stop]), 12.0)
    found = believed(from_s(with_gaps(trial, [stop]), 3.05), config)
    assert found[f"{GROUP}.response.p50"].grade == "REFUSED"
    assert found[f"{GROUP}.response.mean"].grade == "REFUSED"


def test_overlapping_disturbances_are_counted_once(open_loop: Bench) -> None:
    due, work = arrivals(np.random.default_rng(2), busy=0.5)
    trial, config = as_trial(open_loop, served(due, work, [(20.0, 20.1)]), END_S)
    once, _, _ = counted(with_gaps(trial, [(20.0, 20.1)]), config)
    twice, _, _ = counted(with_gaps(trial, [(20.0, 20.1), (20.02, 20.09)]), config)
    (group,) = once.groups
    assert once._touched(group, once.found.moments) == twice._touched(group, twice.found.moments)


@pytest.mark.parametrize(("rows", "closed"), [(True, False), (False, False), (True, True)])
def test_the_twin_lies_within_the_bound_and_the_bound_is_not_absurd(
    open_loop: Bench, rows: bool, closed: bool
) -> None:
    """Random stops of 6 ms to 1.5 s for less than a tenth of 30 s, on queues of 20 to 80 % utilisation.

    Seen with 40 seeds: no bound misses the truth by more than its own scatter, every median is kept (nine in
    ten as WEAK, what disturbed it left out, and nearer to the truth than it was).
    """
    medians, held, missed, nearer = [], 0, [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        busy = rng.uniform(0.2, 0.8)
        stops, disturbed, most = [], 0.0, rng.uniform(0.002, 0.1) * 30
        at = rng.uniform(0.5, 4)
        while at < 28 and disturbed < most:
            length = min(float(np.exp(rng.uniform(np.log(0.006), np.log(1.5)))), most)
            stops.append((at, at + length))
            disturbed += length
            at += length + rng.exponential(4)
        if closed:
            work, think = rng.exponential(0.01, 9_000), rng.exponential(0.01 * 8 / busy, 9_000)
            true, made = (asked_by(8, work, think, each, 30.0) for each in ((), stops))
        else:
            due, work = arrivals(rng, busy, 30.0)
            true, made = served(due, work), served(due, work, stops)
        trial, config = as_trial(open_loop, made, 30.0, rows=rows)
        metrics = believed(with_gaps(trial, stops), config)
        for stat, p in PERCENTILES.items():
            found = metrics[f"{GROUP}.response.{stat}"]
            if found.value is None or found.grade == "REFUSED":
                continue
            true_s = true.quantile_s(p, 30.0)
            if inside(found, true_s):
                held += 1
            else:
                missed.append((seed, stat, busy, disturbed, found.value, true_s, found.belief))
        median = metrics[f"{GROUP}.response.p50"]
        medians.append(median.grade != "REFUSED")
        if median.belief and median.belief.as_measured and median.value:
            true_s = sum(true.quantile_s(0.5, 30.0)) / 2
            nearer.append(abs(median.value - true_s) < abs(median.belief.as_measured - true_s))
    assert len(missed) <= 0.02 * (held + len(missed)), missed
    assert np.mean(medians) >= 0.95, f"{np.mean(medians):.0%} of the medians kept"
    if not closed:
        assert np.mean(nearer) >= 0.9, f"{np.mean(nearer):.0%} of {len(nearer)} are nearer"
