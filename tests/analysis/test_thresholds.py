"""A threshold is decided by the whole range of its number: within, beyond, or open with what would decide it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.analysis.conftest import Bench
from tests.evolve import evolve

from svload.analysis.cases import over_runs, threshold_results
from svload.analysis.criteria import criterion_of, outcome
from svload.analysis.judge import judge_run
from svload.model.results import Belief, CaseResult, Estimate, ThresholdResult

P95, SUCCESS = "probe.response.p95", "probe.success_rate"
WIDE = Belief(grade="REFUSED", below=None, above=None, doubts=("others-cpu",))


def judged(bench: Bench, text: str, runs: Sequence[Estimate], metric: str = P95) -> ThresholdResult:
    """The threshold on a case whose replicates have these numbers."""
    config = evolve(bench.configs["TC0"], thresholds=(text,))
    case = judge_run(bench.lock, bench.configs, bench.trials()).cases[0]
    metrics = over_runs([{metric: one} for one in runs])
    names = tuple(f"TC0.r{number + 1}" for number in range(len(runs)))
    case = CaseResult.model_validate({**dict(case), "metrics": metrics, "trials": names})
    (found,) = threshold_results({"TC0": config}, [case], {})
    return found


def times(*values: float, belief: Belief | None = None) -> list[Estimate]:
    return [Estimate(value=value, belief=belief) for value in values]


def test_replicates_from_120_to_330_ms_decide_nothing_about_200_ms(closed: Bench) -> None:
    """Their mean is 196 ms, and their interval 56 to 690 ms."""
    found = judged(closed, f"{P95} < 200 ms", times(0.120, 0.190, 0.330))
    assert found.outcome == "open"
    assert found.measured == pytest.approx(0.196, rel=0.01)
    assert found.told.startswith("is undecided: it is 196 ms, 55.7 ms to 690 ms; 2.02 % below the limit")
    assert found.told.endswith(
        "so the limit lies within its range; more replicates would probably not decide it."
    )


@pytest.mark.parametrize(
    ("text", "values", "outcome", "told"),
    [
        (f"{P95} < 200 ms", (0.019, 0.020, 0.021), "passed", "90 % below the limit"),
        (f"{P95} < 200 ms", (0.39, 0.41, 0.40), "failed", "2 × the limit"),
        (f"{P95} > 200 ms", (0.39, 0.41, 0.40), "passed", "2 × the limit"),
        (f"{P95} < 200 ms", (0.195, 0.196, 0.204), "open", "replicates would decide it"),
    ],
)
def test_what_lies_wholly_on_one_side_is_decided(
    closed: Bench, text: str, values: Sequence[float], outcome: str, told: str
) -> None:
    found = judged(closed, text, times(*values))
    assert found.outcome == outcome
    assert told in found.told


@pytest.mark.parametrize(("value", "outcome"), [(0.0208, "passed"), (9.0, "failed"), (0.15, "open")])
def test_a_margin_of_ten_decides_on_any_machine(closed: Bench, value: float, outcome: str) -> None:
    """Nobody knows how far the machine put these numbers off: they take the widest range."""
    runs = times(value, value * 1.01, value * 0.99, belief=WIDE)
    found = judged(closed, f"{P95} < 200 ms", runs)
    assert found.outcome == outcome
    if outcome == "open":
        assert found.told.endswith("a quieter machine would decide it.")


def test_a_broken_number_has_no_answer(closed: Bench) -> None:
    broken = Belief(grade="REFUSED", below=None, above=None, doubts=("accounting",))
    found = judged(closed, f"{P95} < 200 ms", times(0.001, 0.001, 0.001, belief=broken))
    assert found.outcome == "refused"
    assert "unreliable" in found.told


def test_a_single_load_is_decided_by_its_own_interval(closed: Bench) -> None:
    decided, wide = (
        judged(closed, f"{P95} < 200 ms", [Estimate(value=0.18, low=0.15, high=high)])
        for high in (0.19, 0.21)
    )
    assert (decided.outcome, wide.outcome) == ("passed", "open")
    assert "a load 2.2 times as long would decide it" in wide.told
    none = judged(closed, f"{P95} < 200 ms", [Estimate(value=0.18, weak=True)])
    assert none.outcome == "open"
    assert "a longer load would decide it" in none.told


def test_success_without_a_failure_is_what_it_is(closed: Bench) -> None:
    assert judged(closed, f"{SUCCESS} >= 99 %", times(1.0, 1.0, 1.0), SUCCESS).outcome == "passed"
    assert judged(closed, f"{SUCCESS} >= 99 %", times(1.0, 0.999, 0.975), SUCCESS).outcome == "open"
    assert judged(closed, f"{SUCCESS} == 100 %", times(1.0, 1.0, 0.99), SUCCESS).outcome == "failed"


@pytest.mark.parametrize("true", [0.9, 1.0, 1.1, 1.2])
def test_a_threshold_is_wrong_one_time_in_forty_at_most(closed: Bench, true: float) -> None:
    """Three replicates that scatter by 30 %: by their mean alone 27 to 50 % of the answers would be wrong."""
    criterion = criterion_of(f"{P95} < 200 ms", closed.configs["TC0"])
    dice = np.random.default_rng(20270118)
    wrong = 0
    for values in 0.2 * true * np.exp(0.3 * dice.standard_normal((400, 3))):
        held = outcome(criterion, over_runs([{P95: one} for one in times(*values)])[P95])
        wrong += held is (true >= 1.0) if true != 1.0 else held is not None
    assert wrong <= (0.075 if true == 1.0 else 0.04) * 400


@pytest.mark.parametrize("belief", [None, Belief(grade="WEAK", below=0.2, above=0.1)])
def test_what_stands_beside_a_number_is_what_its_threshold_uses(closed: Bench, belief: Belief | None) -> None:
    """A limit just within the interval that is shown leaves it open; one just beyond it decides."""
    one = Estimate(value=0.18, low=0.17, high=0.19, belief=belief)
    low, high = one.within
    assert (low, high) == pytest.approx((0.17, 0.19) if belief is None else (0.136, 0.209))
    for limit, held in (
        (high * 1.001, True),
        (high * 0.999, None),
        (low * 1.001, None),
        (low * 0.999, False),
    ):
        assert outcome(criterion_of(f"{P95} < {limit:.9f} s", closed.configs["TC0"]), one) is held
