"""What a judged trial says to a search: how far its nearest criterion lies from the limit, and the gate's answers."""

from __future__ import annotations

from math import inf, log
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import trial_result

from svload.analysis.capacity.readings import KEEPS_UP, measured, why_no_limit
from svload.analysis.capacity.told import gate_of
from svload.model.capacity import CapacityResult, SearchState
from svload.model.metrics import parse_criterion
from svload.model.results import Belief, CheckResult, Estimate

OWNERS: dict[str, Any] = {"people": "traffic"}


def reading(
    criteria: list[str], server: str = "STEADY", checks: tuple[CheckResult, ...] = (), **metrics: Estimate
) -> Any:
    named = {f"people.{name.replace('__', '.')}": one for name, one in metrics.items()}
    result = trial_result("users-8", metrics=named, checks=checks, server=server)
    return measured(result, [parse_criterion(f"people.{one}", OWNERS) for one in criteria], 8, 30.0)


def test_the_margin_is_the_log_distance_of_the_nearest_criterion() -> None:
    found = reading(
        ["response.p95 <= 200 ms", "success_rate >= 99 %"],
        response__p95=Estimate(value=0.1),
        success_rate=Estimate(value=0.995),
    )
    assert found.reading.margin == pytest.approx(log(2))
    assert found.by == "people.response.p95 <= 200 ms"
    assert found.value == 0.1
    assert found.reading.shares["people.success_rate >= 99 %"] == pytest.approx((0.005, 0.01))
    assert found.reading.holds is True


def test_no_failure_is_as_far_within_as_can_be() -> None:
    assert reading(["success_rate >= 99 %"], success_rate=Estimate(value=1.0)).reading.margin == inf


def test_a_disturbed_number_counts_as_it_was_measured() -> None:
    """Trials are in random order around the limit: what disturbs them is in their scatter."""
    refused = Estimate(value=None, why="refused", belief=Belief(grade="REFUSED", as_measured=0.15))
    assert reading(["response.p95 <= 200 ms"], response__p95=refused).reading.margin == pytest.approx(
        log(2 / 1.5)
    )


def test_a_load_that_was_not_made_says_nothing() -> None:
    broken = Estimate(value=0.15, belief=Belief(grade="REFUSED", doubts=("accounting",)))
    found = reading(["response.p95 <= 200 ms"], response__p95=broken)
    assert found.reading.margin is None


def test_what_strangers_used_goes_with_the_reading() -> None:
    check = CheckResult(check="others-cpu", grade="WEAK", sentence="", value=0.35)
    assert (
        reading(
            ["response.p95 <= 200 ms"], checks=(check,), response__p95=Estimate(value=0.1)
        ).reading.strangers
        == 0.35
    )
    assert reading(["response.p95 <= 200 ms"], response__p95=Estimate(value=0.1)).reading.strangers == 0


def test_the_median_beyond_the_limit_breaks_it_without_a_p95() -> None:
    few = Estimate(value=None, why="too few", reason="too few: 40 requests")
    found = reading(["response.p95 <= 200 ms"], response__p95=few, response__p50=Estimate(value=0.3))
    assert found.reading.holds is False
    assert found.reading.surely
    within = reading(["response.p95 <= 200 ms"], response__p95=few, response__p50=Estimate(value=0.1))
    assert within.reading.margin is None
    assert "too few" in within.lacks


@pytest.mark.parametrize(
    ("server", "p95"),
    [("OVERLOADED", Estimate(value=0.01)), ("STEADY", Estimate(value=None, why="time-out"))],
)
def test_overload_and_time_outs_break_any_limit(server: str, p95: Estimate) -> None:
    found = reading(["response.p95 <= 200 ms"], server, response__p95=p95)
    assert found.reading.margin == -inf
    assert found.reading.surely
    assert (found.by == KEEPS_UP) == (server == "OVERLOADED")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("response.p95 == 200 ms", "<= or >="),
        ("success_rate <= 99 %", "does not break"),
        ("success_rate >= 100 %", "none ever fails"),
        ("throughput >= 500/s", "grows with the load"),
        ("response.p95 <= 0 ms", "not above 0"),
        ("response.p95 <= 200 ms", ""),
        ("error_rate <= 1 %", ""),
    ],
)
def test_what_a_search_can_ask(text: str, words: str) -> None:
    found = why_no_limit(parse_criterion(f"people.{text}", OWNERS))
    assert words in found
    assert bool(found) == bool(words)


def result(state: SearchState, low: int | None, high: int | None) -> CapacityResult:
    return CapacityResult(over="users", least=1, most=100, state=state, low=low, high=high, sentence="")


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (result("found", 50, 60), "pass"),
        (result("found", 41, 53), "open"),
        (result("found", 30, 49), "fail"),
        (result("above", None, None), "pass"),
        (result("below", None, None), "fail"),
        (result("undecided", 60, 90), "open"),
        (evolve(result("found", 60, 70), ended=False), "open"),
    ],
)
def test_the_gate_has_three_answers(found: CapacityResult, outcome: str) -> None:
    gate = gate_of(50, found)
    assert gate.outcome == outcome
    assert gate_of(None, found) is None
