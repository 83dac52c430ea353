"""The choice of the next trial by the rules of attempts and blocks, and the plan of an A/A run."""

from __future__ import annotations

from itertools import product
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.support import make_run

from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Case, Comparison, Factor, Level, Lock, Measure
from svload.run import aa_batch, aa_lock, compares_restarts
from svload.run.order import next_trial
from svload.run.policies.base import Sealed, Verdicts
from svload.run.policies.of_study import first_batch as bounded_batch
from svload.run.policies.of_study import policy_of
from svload.study.order import first_batch


def batch() -> Batch:
    trials = []
    for block, position in product(range(2), range(3)):
        case = (position * 2) % 3
        own = {"case": f"c{case}", "replicate": block + 1, "block": block, "seed": case}
        name = trial_name(f"c{case}", block + 1)
        trials.append(TrialPlan(trial=name, position=block * 3 + position, **own))
    return Batch(number=0, because="all", trials=tuple(trials))


@given(st.sets(st.integers(0, 5)), st.dictionaries(st.integers(0, 5), st.integers(0, 3)))
def test_every_trial_that_can_be_sealed_is_and_blocks_stay_in_order(done: set[int], failing: dict[int, int]):
    plan = batch()
    names = [trial.trial for trial in plan.trials]
    sealed = {names[number] for number in done}
    failures = {names[number]: count for number, count in failing.items()}
    trial = next_trial(plan, sealed, failures)
    open_trials = [t for t in plan.trials if t.trial not in sealed and failures.get(t.trial, 0) < 2]
    assert (trial is None) == (not open_trials)
    if trial is not None:
        assert trial in open_trials
        assert trial.block == min(t.block for t in open_trials)


FACTOR = Factor(name="f", levels=tuple(Level(name=f"l{n}", value=n) for n in range(3)))
COMPARISON = Comparison(name="f", factor="f", baseline="l0", metric="response.p50")


CASES = tuple(Case(name=f"c{n}", levels={"f": f"l{n}"}) for n in range(3))
STUDY = {"name": "s", "seed": 1, "svload_version": "0", "study_sha256": "", "study_dir": ".", "source": {}}
GATE = "worse by more than 5 %"


def lock(until: Any = None, fail_if: Any = None, change: str = "request", **measure: Any) -> Lock:
    factors, compared = (evolve(FACTOR, change=change),), (evolve(COMPARISON, fail_if=fail_if),)
    measured = Measure(**{"duration_ns": 1, "replicates": 6, "until": until} | measure)
    return Lock(factors=factors, cases=CASES, measure=measured, comparisons=compared, **STUDY)


def after(lock: Lock, widths: dict[str, float | None], *more: Batch) -> Batch | None:
    sealed = Sealed([first_batch(lock), *more], {"c0.r1": "digest"}, Verdicts(widths=widths))
    return policy_of(lock)(lock, sealed)


def singly(pause_s: float) -> dict[str, float]:
    """Return when trials of 10 s were sealed, after one that came up in 10 s, with a pause in between."""
    return {f"c0.r{n}": 1000.0 + 10 * n + (pause_s if n > 5 else 0.0) for n in range(1, 11)}


TURNS = {f"c{side}.r{n}": 1000.0 + 30 * n + 0.01 * side for n in range(1, 7) for side in range(3)}
"""Six blocks of 30 s, all sides of each sealed at its end, after a bring-up: one more ends at 210 s."""


@pytest.mark.parametrize(
    ("within_s", "sealed_s", "adds"),
    [
        (None, singly(0), True),
        (120.0, singly(0), True),
        (101.0, singly(0), False),
        (250.0, singly(3600), True),  # a pause is five trials
        (150.0, singly(3600), False),
        (211.0, TURNS, True),
        (200.0, TURNS, False),
    ],
)
def test_no_block_is_added_that_ends_too_late(within_s: float | None, sealed_s: dict[str, float], adds: bool):
    """Two more cases take 20 s; a block of turns takes the time between two blocks."""
    gated = lock(fail_if=GATE, order="turns" if sealed_s is TURNS else "randomised-blocks", within_s=within_s)
    found = Verdicts(widths={"f: l1": 9.0, "f: l2": 0.0}, sealed_s=sealed_s, begun_s=1000.0)
    policy = policy_of(gated)
    assert (policy(gated, Sealed([first_batch(gated)], {}, found)) is not None) == adds


@pytest.mark.parametrize(("block_s", "blocks"), [(30, 6), (45, 4), (80, 3)])
def test_planned_blocks_of_running_servers_end_with_the_time_that_is_given(block_s: int, blocks: int):
    """Three blocks, which a claim needs, then as many of the six planned ones as end within 200 s."""
    bounded = lock(order="turns", within_s=200.0)
    policy, batches = policy_of(bounded), [bounded_batch(bounded)]
    assert {trial.block for trial in batches[0].trials} == {1, 2, 3}
    for made in range(3, 9):
        sealed_s = {f"c{side}.r{n}": 1000.0 + block_s * n for n in range(1, made + 1) for side in range(3)}
        found = Verdicts(sealed_s=sealed_s, begun_s=1000.0)
        if (batch := policy(bounded, Sealed(batches, {}, found))) is None:
            break
        assert len(batch.trials) == 3
        batches.append(batch)
    assert made == blocks


def test_a_gate_adds_blocks_until_its_interval_is_narrow_enough():
    assert policy_of(lock()) is None, "without a gate or until the planned blocks are all"
    gated = lock(fail_if=GATE)
    assert after(gated, {"f: l1": None, "f: l2": None}) is None, "nothing was measured: more helps nobody"
    wanted = 0.6 * log(1.05)
    assert after(gated, {"f: l1": wanted - 1e-9, "f: l2": wanted - 1e-9}) is None
    new = after(gated, {"f: l1": wanted + 1e-3, "f: l2": 0.001})
    assert sorted(one.trial for one in new.trials) == ["c0.r7", "c1.r7"], "the cases of the wide one alone"
    assert {trial.block for trial in new.trials} == {7}
    assert [trial.position for trial in new.trials] == [18, 19]
    assert "f: l1 ± 3" in new.because and "wanted ± 2.9 %" in new.because
    assert new.decided_from == {"c0.r1": "digest"}


def test_a_gate_that_is_decided_gets_no_more_blocks():
    gated = lock(fail_if=GATE)
    wide = {"f: l1": 9.0, "f: l2": 9.0}
    policy = policy_of(gated)
    for decided, cases in ((set(), {"c0", "c1", "c2"}), ({"f: l2"}, {"c0", "c1"}), (set(wide), None)):
        found = Verdicts(widths=wide, decided=frozenset(decided))
        batch = policy(gated, Sealed([first_batch(gated)], {"c0.r1": "digest"}, found))
        assert (None if batch is None else {trial.case for trial in batch.trials}) == cases


def test_blocks_end_at_four_times_the_plan_or_where_the_study_says():
    made: list[Batch] = []
    short = lock(until=0.01, replicates=2)
    while (new := after(short, {"f: l1": 1.0, "f: l2": 1.0}, *made)) is not None:
        made.append(new)
    assert [batch.trials[0].block for batch in made] == [3, 4, 5, 6, 7, 8]
    three = evolve(short, measure__at_most=3)
    assert after(three, {"f: l1": 1.0}, made[0]) is None
    assert after(three, {"f: l1": 1.0}) is not None


def test_a_block_more_over_a_restart_has_bring_ups_of_its_own():
    new = after(lock(fail_if=GATE, change="restart"), {"f: l1": 1.0, "f: l2": 1.0})
    assert [trial.restart for trial in new.trials] == [True] * 3
    assert [trial.whole_plot for trial in new.trials] == [18, 19, 20]


def test_the_second_block_of_two_turns_the_order_round():
    for change in ("request", "restart"):
        of: dict[int, list[str]] = {}
        for trial in first_batch(lock(change=change)).trials:
            of.setdefault(trial.block, []).append(trial.case)
        assert all(of[block] == of[block - 1][::-1] for block in (2, 4, 6))
        assert len({tuple(of[block]) for block in (1, 3, 5)}) > 1 or len({tuple(of[b]) for b in of}) > 2


@pytest.fixture(scope="module")
def made_lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    return make_run(tmp_path_factory.mktemp("aa"), replicates=1, duration_s=0.1).lock()


def test_only_the_wanted_cases_are_left_and_pairs_are_replicates(made_lock: Lock) -> None:
    planned = aa_lock(made_lock, ("TC1",), 20)
    assert [case.name for case in planned.valid_cases] == ["TC1"]
    assert "same load" in next(case.excluded for case in planned.cases if case.name == "TC0")
    assert planned.measure.replicates == 40
    assert (planned.comparisons, planned.thresholds) == ((), ())
    trials = aa_batch(planned, restarts=False).trials
    assert [trial.trial for trial in trials] == [f"TC1.r{number}" for number in range(1, 41)]
    assert not any(trial.restart for trial in trials)


def test_it_restarts_before_each_trial_where_a_comparison_restarts(made_lock: Lock) -> None:
    changes = ("request", "live", "restart", "rebuild")
    restarts = {change: compares_restarts(lock(change=change)) for change in changes}
    assert restarts == {"request": False, "live": False, "restart": True, "rebuild": True}
    trials = aa_batch(aa_lock(made_lock, ("TC1",), 20), restarts=True).trials
    assert [trial.restart for trial in trials] == [False] + [True] * 39
    assert len({trial.whole_plot for trial in trials}) == 40
