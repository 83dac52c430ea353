"""Which trial is next: the rules of attempts and blocks, over plain data."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evolve import evolve

from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Case, Comparison, Factor, Level, Lock, Measure
from svload.run.order import next_trial
from svload.run.policies.base import Sealed, Verdicts
from svload.run.policies.of_study import first_batch as bounded_batch
from svload.run.policies.of_study import policy_of
from svload.study.order import first_batch


def batch(cases: int = 3, blocks: int = 2) -> Batch:
    trials = [
        TrialPlan(
            trial=trial_name(f"c{case}", block + 1),
            case=f"c{case}",
            replicate=block + 1,
            block=block,
            position=block * cases + (case * 2) % cases,
            seed=case,
        )
        for block in range(blocks)
        for case in range(cases)
    ]
    return Batch(number=0, because="all", trials=tuple(sorted(trials, key=lambda trial: trial.position)))


def play(plan: Batch, failing: dict[str, int]) -> list[str]:
    """The order of attempts when each trial of `failing` fails so many times."""
    sealed: set[str] = set()
    failures: dict[str, int] = {}
    order = []
    while (trial := next_trial(plan, sealed, failures)) is not None:
        order.append(trial.trial)
        if failing.get(trial.trial, 0) > failures.get(trial.trial, 0):
            failures[trial.trial] = failures.get(trial.trial, 0) + 1
        else:
            sealed.add(trial.trial)
    return order


def test_a_clean_run_follows_the_plan():
    plan = batch()
    assert play(plan, {}) == [trial.trial for trial in plan.trials]


def test_a_failed_trial_is_tried_once_more_at_the_end_of_its_block():
    plan = batch()
    first = plan.trials[0].trial
    order = play(plan, {first: 1})
    block = [trial.trial for trial in plan.trials if trial.block == 0]
    assert order[: len(block) + 1] == [*block, first]


def test_a_trial_that_fails_twice_is_given_up():
    plan = batch()
    first = plan.trials[0].trial
    assert play(plan, {first: 9}).count(first) == 2


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


def lock(
    until: float | None = None, fail_if: str | None = None, change: str = "request", replicates: int = 6
) -> Lock:
    return Lock(
        name="s",
        seed=1,
        svload_version="0",
        study_sha256="",
        study_dir=".",
        factors=(evolve(FACTOR, change=change),),
        cases=tuple(Case(name=f"c{n}", levels={"f": f"l{n}"}) for n in range(3)),
        measure=Measure(duration_ns=1, replicates=replicates, until=until),
        comparisons=(evolve(COMPARISON, fail_if=fail_if),),
        source={},
    )


def after(lock: Lock, widths: dict[str, float | None], *more: Batch) -> Batch | None:
    policy = policy_of(lock)
    if policy is None:
        return None
    return policy(lock, Sealed([first_batch(lock), *more], {"c0.r1": "digest"}, Verdicts(widths=widths)))


@pytest.mark.parametrize(
    ("within_s", "pause_s", "adds"),
    [
        (None, 0.0, True),
        (120.0, 0.0, True),
        (101.0, 0.0, False),
        (250.0, 3600.0, True),
        (150.0, 3600.0, False),
    ],
)
def test_no_block_is_added_that_would_end_after_its_time(within_s: float | None, pause_s: float, adds: bool):
    """Nine trials of 10 s after one that came up in 10 s; two more cases take 20 s. A pause counts as five trials."""
    gated = lock(fail_if="worse by more than 5 %")
    gated = evolve(gated, measure__within_s=within_s)
    sealed_s = {f"c0.r{n}": 1000.0 + 10 * n + (pause_s if n > 5 else 0.0) for n in range(1, 11)}
    found = Verdicts(widths={"f: l1": 9.0, "f: l2": 0.0}, sealed_s=sealed_s, begun_s=1000.0)
    policy = policy_of(gated)
    assert policy is not None
    assert (policy(gated, Sealed([first_batch(gated)], {}, found)) is not None) == adds


@pytest.mark.parametrize(("within_s", "adds"), [(211.0, True), (200.0, False)])
def test_a_block_of_turns_takes_the_time_between_two_blocks(within_s: float, adds: bool):
    """Six blocks of 30 s, all sides of each sealed at its end, after a bring-up: one more ends at 210 s."""
    gated = lock(fail_if="worse by more than 5 %")
    measure = {"order": "turns", "within_s": within_s}
    gated = evolve(gated, measure=gated.measure.model_copy(update=measure))
    sealed_s = {f"c{side}.r{n}": 1000.0 + 30 * n + 0.01 * side for n in range(1, 7) for side in range(3)}
    found = Verdicts(widths={"f: l1": 9.0, "f: l2": 0.0}, sealed_s=sealed_s, begun_s=1000.0)
    policy = policy_of(gated)
    assert policy is not None
    assert (policy(gated, Sealed([first_batch(gated)], {}, found)) is not None) == adds


@pytest.mark.parametrize(("block_s", "blocks"), [(30, 6), (45, 4), (80, 3)])
def test_planned_blocks_of_running_servers_end_with_the_time_that_is_given(block_s: int, blocks: int):
    """Three blocks, which a claim needs, then as many of the six planned ones as end within 200 s."""
    bounded = lock()
    measure = {"order": "turns", "within_s": 200.0}
    bounded = bounded.model_copy(update={"measure": bounded.measure.model_copy(update=measure)})
    policy, batches = policy_of(bounded), [bounded_batch(bounded)]
    assert policy is not None
    assert {trial.block for trial in batches[0].trials} == {1, 2, 3}
    for made in range(3, 9):
        sealed_s = {f"c{side}.r{n}": 1000.0 + block_s * n for n in range(1, made + 1) for side in range(3)}
        found = Verdicts(sealed_s=sealed_s, begun_s=1000.0)
        if (batch := policy(bounded, Sealed(batches, {}, found))) is None:
            break
        assert len(batch.trials) == 3
        batches.append(batch)
    assert made == blocks


def test_without_a_gate_or_until_the_planned_blocks_are_all():
    assert after(lock(), {"f: l1": 9.0}) is None
    assert policy_of(lock()) is None


def test_a_gate_adds_blocks_until_its_interval_is_narrow_enough():
    gated = lock(fail_if="worse by more than 5 %")
    wanted = 0.6 * log(1.05)
    assert after(gated, {"f: l1": wanted - 1e-9, "f: l2": wanted - 1e-9}) is None
    new = after(gated, {"f: l1": wanted + 1e-3, "f: l2": 0.001})
    assert sorted(trial.trial for trial in new.trials) == ["c0.r7", "c1.r7"], (
        "the cases of the wide one alone"
    )
    assert {trial.block for trial in new.trials} == {7}
    assert [trial.position for trial in new.trials] == [18, 19]
    assert "f: l1 ± 3" in new.because and "wanted ± 2.9 %" in new.because
    assert new.decided_from == {"c0.r1": "digest"}


def test_a_gate_that_is_decided_gets_no_more_blocks():
    gated = lock(fail_if="worse by more than 5 %")
    wide = {"f: l1": 9.0, "f: l2": 9.0}
    policy = policy_of(gated)
    assert policy is not None
    for decided, cases in ((set(), {"c0", "c1", "c2"}), ({"f: l2"}, {"c0", "c1"}), (set(wide), None)):
        found = Verdicts(widths=wide, decided=frozenset(decided))
        batch = policy(gated, Sealed([first_batch(gated)], {"c0.r1": "digest"}, found))
        assert (None if batch is None else {trial.case for trial in batch.trials}) == cases


def test_no_effect_and_no_p_is_looked_at_and_what_has_no_width_waits_for_nothing():
    gated = lock(fail_if="worse by more than 5 %")
    assert after(gated, {"f: l1": None, "f: l2": None}) is None, (
        "nothing was measured: more of it helps nobody"
    )


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
    new = after(lock(fail_if="worse by more than 5 %", change="restart"), {"f: l1": 1.0, "f: l2": 1.0})
    assert [trial.restart for trial in new.trials] == [True] * 3
    assert [trial.whole_plot for trial in new.trials] == [18, 19, 20]


def test_the_second_block_of_two_turns_the_order_round():
    for change in ("request", "restart"):
        of: dict[int, list[str]] = {}
        for trial in first_batch(lock(change=change)).trials:
            of.setdefault(trial.block, []).append(trial.case)
        assert all(of[block] == of[block - 1][::-1] for block in (2, 4, 6))
        assert len({tuple(of[block]) for block in (1, 3, 5)}) > 1 or len({tuple(of[b]) for b in of}) > 2
