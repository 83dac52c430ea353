"""Which trial is next: the rules of attempts and blocks, over plain data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Case, Lock, Measure
from svload.run.order import next_trial, replacement_batch


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


def lock(replace_refused: int) -> Lock:
    return Lock(
        name="s",
        seed=1,
        svload_version="0",
        study_sha256="",
        study_dir=".",
        factors=(),
        cases=tuple(Case(name=f"c{n}", levels={}) for n in range(3)),
        measure=Measure(duration_ns=1, replicates=2, replace_refused=replace_refused),
        source={},
    )


def test_refused_trials_are_replaced_only_where_the_study_says_so_and_only_so_often():
    plan = batch()
    seals = {trial.trial: "digest" for trial in plan.trials}
    assert replacement_batch(lock(0), [plan], {"c0.r1"}, seals) is None
    new = replacement_batch(lock(1), [plan], {"c0.r1"}, seals)
    assert new is not None
    assert [(trial.trial, trial.block) for trial in new.trials] == [("c0.r3", 0)]
    assert new.decided_from == seals
    assert replacement_batch(lock(1), [plan, new], {"c0.r1", "c0.r3"}, seals) is None
