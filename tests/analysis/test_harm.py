"""How much the generator's delays affect each number, for requests kept as rows or as histograms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from svload.analysis.checks.generator_harm import GeneratorHarm
from svload.model.columns import bucket
from svload.model.results import CheckResult, Estimate

MS = 1_000_000
STATS = ("p50", "p90", "p95", "p99", "mean")
SPEC = SimpleNamespace(scenarios=())


def of_rows(response: Any, lag: Any, read_lag: Any) -> Any:
    """Return a group kept as rows; a read lag of −1 means none."""
    size = len(response)
    rows = {
        "ok": np.ones(size, bool),
        "response_ns": np.asarray(response, dtype=np.int64),
        "lag_ns": np.broadcast_to(lag, size).astype(np.int64),
        "read_lag_ns": np.broadcast_to(read_lag, size).astype(np.int64),
    }
    return SimpleNamespace(name="probe", rows=rows, due=size, spec=SPEC)


def of_histograms(response: Any, lag: Any, read_lag: Any) -> Any:
    """Return the same group, kept as histograms."""
    rows = of_rows(response, lag, read_lag).rows
    clean = rows["response_ns"] - rows["lag_ns"] - np.maximum(rows["read_lag_ns"], 0)
    sampled = rows["read_lag_ns"] >= 0
    values = {
        "response": rows["response_ns"],
        "generator_lag": rows["lag_ns"],
        "response_without_lag": clean,
        "read_lag": rows["read_lag_ns"][sampled],
        "sampled_response": rows["response_ns"][sampled],
        "sampled_clean": clean[sampled],
    }

    def histogram(name: str) -> Any:
        return np.bincount([bucket(int(value)) for value in values[name]], minlength=1 << 13)

    due = len(response)
    return SimpleNamespace(name="probe", rows=None, histogram=histogram, due=due, ok=due, spec=SPEC)


KEPT = pytest.mark.parametrize("kept", [of_rows, of_histograms])


def judged(group: Any, *stats: str, metric: str = "response") -> tuple[CheckResult, dict[str, str]]:
    """Return the check's result, and the grade of each number by its last word."""
    metrics = {f"probe.{metric}.{stat}": Estimate(value=0.001) for stat in stats or STATS}
    nothing: Any = None
    context: Any = SimpleNamespace(groups=(group,), metrics=metrics)
    found = GeneratorHarm().judge(nothing, nothing, context)
    return found, {harm.number.rpartition(".")[2]: harm.grade for harm in found.harms}


def spread(size: int) -> Any:
    """Return responses between 1 and 2 ms in random order."""
    return MS + np.random.default_rng(7).permutation(size) * MS // size


def some(size: int, count: int, value: int, other: int = 1_000) -> Any:
    """Replace this many responses by one value."""
    found = np.full(size, other)
    found[:: size // count][:count] = value
    return found


@KEPT
def test_a_read_lag_on_every_request_above_1000_a_second_harms_every_number(kept: Any) -> None:
    """One read in 64 has a stamp, and reads are late by a tenth, or by a third, of a response."""
    stamped = np.arange(64_000) % 64 == 0
    for delay, grade in ((15_000, "VALID"), (150_000, "WEAK"), (900_000, "WEAK")):
        found, grades = judged(kept(spread(64_000) + delay, 0, np.where(stamped, delay, -1)))
        assert found.grade == grade
        assert set(grades.values()) <= {grade, "WEAK"}
        assert grades["p50"] == grade
        assert "of the 1,000 requests with a read timestamp" in found.sentence
    assert set(grades) == {*STATS}


@KEPT
def test_each_percentile_that_a_study_asks_for_is_judged(kept: Any) -> None:
    """Tables show no p75, but a claim over it depends on it; so does one over successful requests only."""
    late, clean = kept(spread(10_000) + 900_000, 0, np.full(10_000, 900_000)), kept(spread(10_000), 0, 1_000)
    assert judged(late, "p75")[1] == {"p75": "WEAK"}
    assert judged(clean, "p75")[1] == {"p75": "VALID"}
    (harm,) = judged(late, "p75", metric="ok_response")[0].harms
    assert (harm.number, harm.grade) == ("probe.ok_response.p75", "WEAK")


@KEPT
def test_67_stamped_requests_carry_no_p99(kept: Any) -> None:
    """The harm to the median is reported; that to the p99 is reported as unknown, not as small."""
    response = spread(6_700)
    found, grades = judged(kept(response + 200_000, 0, some(6_700, 67, 200_000, other=-1)))
    assert grades == {"p50": "WEAK", "p90": "WEAK", "p95": "VALID", "p99": "VALID", "mean": "WEAK"}
    assert "the read lag of probe's p95, p99 is not measured, since 67 requests" in found.sentence
    assert "at most" not in found.sentence
    clean, _ = judged(kept(response, 0, 1_000))
    assert clean.grade == "VALID"
    assert "% at most (" in clean.sentence


@KEPT
@pytest.mark.parametrize(("late", "grade"), [(5, "VALID"), (11, "WEAK"), (40, "WEAK")])
def test_late_reads_are_reported_for_the_affected_percentile(kept: Any, late: int, grade: str) -> None:
    """Of 1,000 stamped requests in 64,000 some were read 10 ms late: 11 affect the p99 probably, 40
    certainly; none the median."""
    lags = np.full(64_000, -1)
    lags[::64] = some(1_000, late, 10 * MS)
    _, grades = judged(kept(spread(64_000) + np.maximum(lags, 0), 0, lags))
    assert (grades["p50"], grades["p99"]) == ("VALID", grade)


@KEPT
@pytest.mark.parametrize(("stamped", "grade"), [(29, "VALID"), (31, "WEAK")])
def test_thirty_stamped_requests_are_needed_for_the_mean(kept: Any, stamped: int, grade: str) -> None:
    lags = some(6_700, stamped, 200_000, other=-1)
    assert judged(kept(spread(6_700) + 200_000, 0, lags), "mean")[1] == {"mean": grade}


@KEPT
def test_one_late_read_among_few_is_no_mean(kept: Any) -> None:
    lags = np.full(31 * 64, -1)
    lags[::64] = some(31, 1, 100 * MS)
    _, grades = judged(kept(spread(31 * 64) + np.maximum(lags, 0), 0, lags), "p50", "mean")
    assert grades == {"p50": "VALID", "mean": "VALID"}


def test_a_generator_that_stood_still_shows_in_the_mean() -> None:
    """5 of 1,000 requests of 1 ms begin 200 ms late: no percentile up to p99 is affected, the mean is."""
    lag = np.zeros(1_000, np.int64)
    lag[700:705] = 200 * MS
    found, grades = judged(of_rows(MS + lag, lag, -1))
    assert found.grade == "WEAK"
    assert grades == {"p50": "VALID", "p90": "VALID", "p95": "VALID", "p99": "VALID", "mean": "WEAK"}
    assert "the mean probe.response" in found.sentence


def test_how_far_a_number_may_be_off_is_its_own_harm() -> None:
    found, _ = judged(of_rows(np.full(1_000, 2 * MS), MS // 2, 0))
    assert {(harm.below, harm.above) for harm in found.harms} == {(0.25, 0.0)}


def test_failures_stand_on_top_of_the_sample_too() -> None:
    """A tenth failed: the 90th percentile is the largest ok response, of all and of the stamped requests."""
    lags = np.full(9_000, -1)
    lags[::10] = some(900, 12, 10 * MS)
    group = of_rows(spread(9_000) + np.maximum(lags, 0), 0, lags)
    for due, grade in ((9_000, "VALID"), (10_000, "WEAK")):
        group.due = due
        _, grades = judged(group, "p50", "p90")
        assert grades == {"p50": "VALID", "p90": grade}


def test_an_older_trial_without_pairs_is_judged_by_its_mean() -> None:
    for late_ns, grade in ((1_000, "VALID"), (900_000, "WEAK")):
        group = of_histograms(spread(10_000) + late_ns, 0, np.full(10_000, late_ns))
        held = {name: group.histogram(name) for name in ("response", "generator_lag", "read_lag")}
        held["response_without_lag"] = held["response"]
        group.histogram = lambda name, held=held: held.get(name, np.zeros(1 << 13, dtype=np.int64))
        found, _ = judged(group)
        assert (found.grade, "the mean probe.response" in found.sentence) == (grade, True), found.sentence
