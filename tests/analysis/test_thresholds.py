"""Each number has its own grade; a threshold is decided by its number's whole range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.conftest import Bench, bench_of, with_readings
from tests.evolve import evolve
from tests.support import make_run

from svload.analysis import limits
from svload.analysis.cases import over_runs, threshold_results
from svload.analysis.criteria import criterion_of, outcome
from svload.analysis.judge import Beliefs, judge_run
from svload.analysis.measures import GroupMeasures
from svload.analysis.quantiles import percentile, ranked_values
from svload.analysis.view import kept_window, look
from svload.model.results import Belief, CaseResult, CheckResult, Estimate, Harm, ThresholdResult
from svload.store import TrialData

P95, SUCCESS = "probe.response.p95", "probe.success_rate"
WIDE = Belief(grade="REFUSED", below=None, above=None, doubts=("others-cpu",))


def judged(bench: Bench, text: str, runs: Sequence[Estimate], metric: str = P95) -> ThresholdResult:
    config = evolve(bench.configs["TC0"], thresholds=(text,))
    case = judge_run(bench.lock, bench.configs, bench.trials()).cases[0]
    metrics = over_runs([{metric: one} for one in runs])
    names = tuple(f"TC0.r{number + 1}" for number in range(len(runs)))
    case = CaseResult.model_validate({**dict(case), "metrics": metrics, "trials": names})
    (found,) = threshold_results({"TC0": config}, [case], {})
    return found


WIDELY = (0.120, 0.190, 0.330)


def times(*values: float, belief: Belief | None = None) -> list[Estimate]:
    return [Estimate(value=value, belief=belief) for value in values]


@pytest.mark.parametrize(
    ("text", "values", "outcome", "told"),
    [
        (f"{P95} < 200 ms", (0.019, 0.020, 0.021), "passed", "90 % below the limit"),
        (f"{P95} < 200 ms", (0.39, 0.41, 0.40), "failed", "2 × the limit"),
        (f"{P95} > 200 ms", (0.39, 0.41, 0.40), "passed", "2 × the limit"),
        (f"{P95} < 200 ms", (0.195, 0.196, 0.204), "open", "replicates would decide it"),
        (f"{P95} < 200 ms", WIDELY, "open", "is undecided: it is 196 ms, 55.7 ms to 690 ms; 2.02 % below"),
        (
            f"{P95} < 200 ms",
            WIDELY,
            "open",
            "within its range; more replicates would probably not decide it.",
        ),
        (f"{SUCCESS} >= 99 %", (1.0, 0.999, 0.975), "open", ""),
        (f"{SUCCESS} == 100 %", (1.0, 1.0, 0.99), "failed", ""),
    ],
)
def test_replicates_decide_a_threshold(
    closed: Bench, text: str, values: Sequence[float], outcome: str, told: str
) -> None:
    found = judged(closed, text, times(*values), text.partition(" ")[0])
    assert found.outcome == outcome
    assert told in found.told


@pytest.mark.parametrize(("value", "outcome"), [(0.0208, "passed"), (9.0, "failed"), (0.15, "open")])
def test_a_margin_of_ten_decides_on_any_machine(closed: Bench, value: float, outcome: str) -> None:
    """How far the machine affected these numbers is unknown, so they take the widest range."""
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


@pytest.mark.parametrize("share", [0.1, 0.05, 0.01, 0.007, 0.001])
def test_a_share_of_errors_at_its_limit_holds(closed: Bench, share: float) -> None:
    """0.1 · 0.1 / 0.1 is above 0.1, 1 − 0.999 above 0.001, and 0.7 · 0.01 below 0.007."""
    criterion = criterion_of(f"error_rate <= {100 * share:g} %", closed.configs["TC0"])
    assert outcome(criterion, Estimate(value=share), mirror=Estimate(value=1 - share)) is True
    config, trial = closed.configs["TC0"], closed.trials()[0]
    group = look(trial, config, kept_window(trial.summary))[0]
    due = np.zeros_like(group.intervals["due"])
    due[0] = 1_000
    cells = {**group.intervals, "due": due, "ok": due - (due * share).round().astype(int)}
    view = replace(group, intervals=cells)
    assert GroupMeasures(view).all()["error_rate"].value == share


@pytest.mark.parametrize("ms", [11, 15, 200])
def test_a_time_at_its_limit_holds(closed: Bench, ms: int) -> None:
    """11e6 · 1e-9 is above 0.011."""
    criterion = criterion_of(f"response.p50 <= {ms} ms", closed.configs["TC0"])
    assert outcome(criterion, percentile(ranked_values(np.full(1_000, ms * 1e6), 1_000), 0.5)) is True


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
    """A limit just within the interval that is shown leaves it undecided; one just beyond it decides."""
    one = Estimate(value=0.18, low=0.17, high=0.19, belief=belief)
    low, high = one.within
    assert (low, high) == pytest.approx((0.17, 0.19) if belief is None else (0.136, 0.209))
    limits_s = (high * 1.001, high * 0.999, low * 1.001, low * 0.999)
    texts = [f"{P95} < {limit_s:.9f} s" for limit_s in limits_s]
    held = [outcome(criterion_of(text, closed.configs["TC0"]), one) for text in texts]
    assert held == [True, None, None, False]


P50 = "probe.response.p50"


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_of(make_run(tmp_path_factory.mktemp("four"), cases=1, replicates=4))


def told(check: str, *harms: Harm) -> CheckResult:
    return CheckResult(check=check, grade="VALID", sentence="", harms=harms)


def test_what_checks_say_of_a_number_is_the_sum_and_so_is_its_grade() -> None:
    """The planted number is off by 9.8 % although neither check calls it WEAK; the clean one by 4.9 %."""
    twice = [
        told("generator-harm", Harm(number=P50, grade="VALID", below=0.049)),
        told("hiccups", Harm(number=P50, grade="VALID", below=0.049, above=0.01)),
    ]
    found, clean = Beliefs(twice).of(P50), Beliefs(twice[:1]).of(P50)
    assert (found.grade, found.below, found.above) == ("WEAK", pytest.approx(0.098), 0.01)
    assert set(found.doubts) == {"generator-harm", "hiccups"}
    assert (clean.grade, clean.doubts) == ("VALID", ())
    assert Beliefs(twice).of("probe.success_rate") is None


def test_what_is_off_by_nobody_knows_how_much_has_the_widest_range() -> None:
    """Not the narrowest: the less is known about a number, the less it may decide."""
    found = Beliefs([told("clocks", Harm(number="timing", grade="WEAK", below=None, above=None))]).of(P50)
    assert (found.grade, found.below, found.above) == ("WEAK", *limits.WIDEST)


def test_a_refusal_without_a_bound_leaves_none() -> None:
    refused = Harm(number="all", grade="REFUSED", below=None, above=None)
    found = Beliefs([told("accounting", refused), told("steal", Harm(number=P50, grade="VALID", below=0.1))])
    belief = found.of(P50)
    assert (belief.grade, belief.below) == ("REFUSED", None)
    assert (found.of("probe.requests") or belief).grade == "REFUSED"


def test_success_is_judged_whatever_disturbed_the_times(four: Bench) -> None:
    taken = ("host", "steal_seconds_total", lambda at, old: old + 0.5 * at)
    trials = [with_readings(trial, *taken) for trial in four.trials()]
    texts = ("probe.success_rate >= 99 %", "probe.error_rate > 5 %", f"{P50} < 10 s", f"{P50} < 1 ns")
    configs = {name: evolve(one, thresholds=texts) for name, one in four.configs.items()}
    found = judge_run(four.lock, configs, trials)
    case = found.cases[0]
    assert (case.instrument, case.metrics[P50].grade) == ("WEAK", "WEAK")
    assert case.metrics["probe.success_rate"].value == 1.0
    assert [one.outcome for one in found.thresholds] == ["passed", "failed", "passed", "failed"]
    assert found.thresholds[2].measured == case.metrics[P50].value


def test_trials_of_an_earlier_build_are_in_no_number(four: Bench) -> None:
    """Any changed program of the server counts; trials of a single build all count."""

    def started(trial: TrialData, digest: str) -> TrialData:
        first, *rest = trial.lab.services
        programs = {"same": "0", "lib/app.py": digest}
        return evolve(trial, lab__services=(evolve(first, programs=programs), *rest))

    trials = sorted(four.trials(), key=lambda trial: trial.seal.sealed_wall if trial.seal else 0.0)
    for digests, left_out in (("a" + "b" * 9, 1), ("b" * 10, 0)):
        built = [started(trial, digest) for trial, digest in zip(trials, digests, strict=False)]
        results = judge_run(four.lock, four.configs, built).trials
        broken = {one.trial: {each.grade for each in one.metrics.values()} == {"REFUSED"} for one in results}
        refused = {name for name, is_broken in broken.items() if is_broken}
        assert refused == {trial.trial for trial in built[:left_out]}
        assert len(results) > len(refused)


@pytest.mark.parametrize(
    ("text", "belief", "held"),
    [
        ("response.p50 < 150 ms", Belief(grade="REFUSED", below=0.1, above=9.0), False),
        ("response.p50 < 10 s", Belief(grade="REFUSED", below=0.1, above=9.0), True),
        ("response.p50 < 800 ms", Belief(grade="REFUSED", below=0.1, above=9.0), None),
        ("response.p50 < 800 ms", Belief(grade="WEAK", below=None, above=None), None),
        ("response.p50 < 1 s", Belief(grade="WEAK", below=None, above=None), True),
        ("response.p50 < 10 s", Belief(grade="REFUSED", below=0.1, above=0.1, doubts=("accounting",)), None),
    ],
)
def test_decided_beyond_the_bound(four: Bench, text: str, belief: Belief | None, held: bool | None) -> None:
    criterion = criterion_of(text, four.configs["TC0"])
    assert outcome(criterion, Estimate(value=0.18, low=0.18, high=0.18, belief=belief)) is held


def test_beyond_the_time_out_fails_an_upper_limit_unless_it_is_refused(four: Bench) -> None:
    criterion = criterion_of("response.p99 < 5 s", four.configs["TC0"])
    beyond = Estimate(value=None, reason="> timeout (3 % failed)", why="time-out")
    assert outcome(criterion, beyond, 20.0) is False
    broken = Belief(grade="REFUSED", below=None, above=None, doubts=("accounting",))
    refused = evolve(beyond, belief=broken)
    assert outcome(criterion, refused, 20.0) is None


def test_a_case_leaves_out_the_runs_that_refuse_a_number_and_no_others() -> None:
    wrong = Belief(grade="REFUSED", below=None, above=None, doubts=("steal",))
    runs = [{"g.response.p50": Estimate(value=value)} for value in (1.0, 1.0, 1.0)]
    runs += [{"g.response.p50": Estimate(value=64.0, belief=wrong)}]
    assert over_runs(runs, 3)["g.response.p50"].value == 1.0
    few = over_runs(runs[1:], 3)["g.response.p50"]
    assert (few.value, few.why) == (None, "refused")
    assert few.belief.as_measured == pytest.approx(4.0)


def test_a_case_s_percentile_is_that_of_its_trials(tmp_path: Path) -> None:
    """The clean case has requests beyond the quantile in each trial; the planted one has none, so its
    percentile may lie anywhere above what was observed."""
    bench = bench_of(make_run(tmp_path, cases=1, replicates=6, duration_s=0.8))
    found = judge_run(bench.lock, bench.configs, bench.trials())
    p99, p999 = (found.cases[0].metrics[f"probe.response.{stat}"] for stat in ("p99", "p99.9"))
    each = [trial.metrics["probe.response.p99"] for trial in found.trials]
    assert {one.why for one in each} == {"too few"}
    assert p99.value == pytest.approx(np.exp(np.mean([np.log(one.value or 0.0) for one in each])))
    assert (p99.why, p99.need, p99.high is not None) == ("too few", 368, True)
    assert (p999.why, p999.high) == ("too few", None)
