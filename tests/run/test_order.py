"""Which trial is next: the rules of attempts and blocks, over plain data."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Case, Comparison, Factor, Level, Lock, Measure
from svload.run.order import next_trial
from svload.run.policies.base import Sealed, Verdicts
from svload.run.policies.of_study import policy_of
from svload.run.policies.replace_refused import replace_refused
from svload.study.order import side_by_side


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
    replace_refused: int, compared: bool = True, change: str = "request", cases: int = 3, **compare: str
) -> Lock:
    factor = FACTOR.model_copy(update={"change": change})
    return Lock(
        name="s",
        seed=1,
        svload_version="0",
        study_sha256="",
        study_dir=".",
        factors=(factor,),
        cases=tuple(Case(name=f"c{n}", levels={"f": f"l{n}"}) for n in range(cases)),
        measure=Measure(duration_ns=1, replicates=2, replace_refused=replace_refused),
        comparisons=(COMPARISON.model_copy(update=compare),) if compared else (),
        source={},
    )


def replaced(lock: Lock, lost: dict[str, set[str]], *more: Batch) -> Batch | None:
    sealed = Sealed([batch(), *more], {"c0.r1": "digest"}, Verdicts(lost=lost))
    assert (policy_of(lock) is None) == (not lock.measure.replace_refused)
    return replace_refused(lock, sealed)


def test_refused_trials_are_replaced_only_where_the_study_says_so_and_only_so_often():
    lost: dict[str, set[str]] = {"c0.r1": set()}
    assert replaced(lock(0, compared=False), lost) is None
    new = replaced(lock(1, compared=False), lost)
    assert new is not None
    assert [(trial.trial, trial.block, trial.instead_of, trial.serves) for trial in new.trials] == [
        ("c0.r3", 0, "c0.r1", ())
    ]
    assert new.decided_from == {"c0.r1": "digest"}
    assert replaced(lock(1, compared=False), {"c0.r1": set(), "c0.r3": set()}, new) is None
    twice = replaced(lock(2, compared=False), {"c0.r1": set(), "c0.r3": set()}, new)
    assert twice is not None
    assert [(trial.trial, trial.instead_of) for trial in twice.trials] == [("c0.r4", "c0.r1")]
    assert replaced(lock(2, compared=False), lost, new) is None, "c0.r3 stands in for it"


def test_a_partner_is_repeated_for_the_claim_that_lost_its_pair_alone():
    new = replaced(lock(1), {"c1.r2": {"f: l1"}})
    assert new is not None
    found = {trial.case: trial for trial in new.trials}
    assert set(found) == {"c1", "c0"}
    assert (found["c1"].serves, found["c1"].instead_of) == ((), "c1.r2")
    assert (found["c0"].serves, found["c0"].instead_of) == (("f: l1",), "c0.r2")
    assert {trial.block for trial in new.trials} == {1}
    assert [trial.position for trial in new.trials] == [6, 7]
    assert {trial.whole_plot for trial in new.trials} == {0} and not any(
        trial.restart for trial in new.trials
    )


def test_a_refused_baseline_takes_the_partner_of_each_claim_that_it_cost():
    new = replaced(lock(1), {"c0.r1": {"f: l1", "f: l2"}})
    assert new is not None
    assert {trial.case: trial.serves for trial in new.trials} == {
        "c0": (),
        "c1": ("f: l1",),
        "c2": ("f: l2",),
    }


def test_both_sides_refused_are_one_repetition_that_counts_for_everything():
    new = replaced(lock(1), {"c0.r1": {"f: l1"}, "c1.r1": {"f: l1"}})
    assert new is not None
    assert {trial.case: trial.serves for trial in new.trials} == {"c0": (), "c1": ()}


def test_the_claims_pair_is_repeated_as_often_as_is_allowed_whichever_side_is_refused():
    first = replaced(lock(2), {"c1.r1": {"f: l1"}})
    assert first is not None
    partner = next(trial.trial for trial in first.trials if trial.case == "c0")
    second = replaced(lock(2), {"c1.r1": {"f: l1"}, partner: {"f: l1"}}, first)
    assert second is not None
    assert sorted(trial.case for trial in second.trials) == ["c0", "c1"]
    assert replaced(lock(2), {"c1.r1": {"f: l1"}, partner: {"f: l1"}}, first, second) is None


def test_what_has_a_pair_again_is_left_alone():
    first = replaced(lock(2), {"c1.r1": {"f: l1"}})
    assert first is not None
    assert replaced(lock(2), {"c1.r1": set()}, first) is None


def test_the_order_of_a_repetition_is_drawn():
    orders = set()
    for seed in range(20):
        new = replaced(lock(1).model_copy(update={"seed": seed}), {"c1.r1": {"f: l1"}})
        assert new is not None
        orders.add(tuple(trial.case for trial in new.trials))
    assert orders == {("c0", "c1"), ("c1", "c0")}


def test_a_repetition_over_a_restart_has_bring_ups_of_its_own():
    new = replaced(lock(1, change="restart"), {"c1.r1": {"f: l1"}})
    assert new is not None
    assert [trial.restart for trial in new.trials] == [True, True]
    assert [trial.whole_plot for trial in new.trials] == [1, 2]


def test_repetitions_of_several_blocks_run_block_by_block():
    new = replaced(lock(1), {"c1.r2": {"f: l1"}, "c2.r1": {"f: l2"}})
    assert new is not None
    assert [trial.block for trial in new.trials] == [0, 0, 1, 1]
    assert play(new, {}) == [trial.trial for trial in new.trials]
    assert len({trial.trial for trial in new.trials} | {trial.trial for trial in batch().trials}) == 10


def neighbours(new: Batch | None) -> set[frozenset[str]]:
    """The cases that run one right after the other."""
    assert new is not None
    return {frozenset((one.case, other.case)) for one, other in pairwise(new.trials)}


def test_a_refused_trial_touches_the_partner_of_each_claim():
    for seed in range(20):
        of_seed = lock(1).model_copy(update={"seed": seed})
        new = replaced(of_seed, {"c0.r1": {"f: l1", "f: l2"}})
        assert neighbours(new) == {frozenset(("c0", "c1")), frozenset(("c0", "c2"))}
        assert new == replaced(of_seed, {"c0.r1": {"f: l1", "f: l2"}}), "the same seed, the same order"
        new = replaced(of_seed, {"c1.r1": {"f: l1"}, "c2.r1": {"f: l2"}})
        assert neighbours(new) == {frozenset(("c0", "c1")), frozenset(("c0", "c2"))}


def square(change: str = "request") -> Lock:
    """Two factors of two levels, each compared: c0 and c1 differ in f, c0 and c2 in g."""
    factors = [Factor(name=name, levels=FACTOR.levels[:2], change=change if name == "g" else "request") for name in "fg"]  # type: ignore[arg-type]  # fmt: skip
    cases = [Case(name=f"c{n}", levels={"f": f"l{n % 2}", "g": f"l{n // 2}"}) for n in range(4)]
    comparisons = [COMPARISON.model_copy(update={"name": name, "factor": name}) for name in "fg"]
    return lock(1).model_copy(
        update={"factors": tuple(factors), "cases": tuple(cases), "comparisons": tuple(comparisons)}
    )


def test_joined_pairs_run_side_by_side():
    """Three pairs in a row, whichever of them was refused; of four in a ring three."""
    for seed in range(20):
        of_seed = square().model_copy(update={"seed": seed})
        new = replace_refused(of_seed, sealed_of(of_seed, {"c0.r1": {"f", "g"}, "c3.r1": {"f"}}))
        assert neighbours(new) == {frozenset(pair) for pair in (("c0", "c1"), ("c0", "c2"), ("c2", "c3"))}
        every = replace_refused(of_seed, sealed_of(of_seed, {"c0.r1": {"f", "g"}, "c3.r1": {"f", "g"}}))
        ring = {frozenset(pair) for pair in (("c0", "c1"), ("c0", "c2"), ("c2", "c3"), ("c1", "c3"))}
        assert len(neighbours(every) & ring) == 3


def test_pairs_within_a_bring_up_go_before_those_that_need_a_restart():
    for seed in range(20):
        of_seed = square("restart").model_copy(update={"seed": seed})
        new = replace_refused(of_seed, sealed_of(of_seed, {"c0.r1": {"f", "g"}, "c3.r1": {"f", "g"}}))
        assert {frozenset(("c0", "c1")), frozenset(("c2", "c3"))} < neighbours(new)
        assert new is not None
        assert [trial.restart for trial in new.trials] == [True, False, True, False]


def sealed_of(of: Lock, lost: dict[str, set[str]]) -> Sealed:
    return Sealed([batch(len(of.cases))], {}, Verdicts(lost=lost))


@given(st.permutations(range(8)), st.lists(st.booleans(), min_size=7, max_size=7), st.randoms())
def test_pairs_in_rows_are_side_by_side(order: list[int], joined: list[bool], random: Random):
    cases = [f"c{n}" for n in range(8)]
    pairs = [(cases[one], cases[other]) for (one, other), joins in zip(pairwise(order), joined, strict=True) if joins]  # fmt: skip
    random.shuffle(pairs)
    rows = side_by_side(cases, [pair if random.random() < 0.5 else pair[::-1] for pair in pairs])
    assert sorted(case for row in rows for case in row) == cases
    touching = {frozenset(pair) for row in rows for pair in pairwise(row)}
    assert touching == {frozenset(pair) for pair in pairs}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])))
def test_a_pair_stays_apart_only_for_want_of_room(numbers: list[tuple[int, int]]):
    cases = [f"c{n}" for n in range(6)]
    pairs = [(cases[one], cases[other]) for one, other in numbers]
    rows = side_by_side(cases, pairs)
    assert sorted(case for row in rows for case in row) == cases
    row_of = {case: number for number, row in enumerate(rows) for case in row}
    ends = {case for row in rows for case in (row[0], row[-1])}
    touching = {frozenset(pair) for row in rows for pair in pairwise(row)}
    for pair in pairs:
        assert frozenset(pair) in touching or row_of[pair[0]] == row_of[pair[1]] or not ends >= set(pair)
