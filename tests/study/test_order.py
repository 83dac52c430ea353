"""The order of trials: blocks, whole plots, seeds; it depends on positions, never on names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evolve import evolve

from svload.model.study import Case, Factor, Level, Lock, Measure
from svload.study import draw, first_batch

from .conftest import SMALL


def lock_of(
    sizes: list[int],
    changes: list[str],
    replicates: int,
    seed: int,
    order: str = "randomised-blocks",
    last: int = 0,
) -> Lock:
    """Return a lock whose factors have `sizes` levels; every third combination is excluded. Names are
    numbered upwards, or downwards from `last`."""

    def name(kind: str, number: int) -> str:
        return f"{kind}{abs(last - number)}"

    def factor(n: int, size: int) -> Factor:
        levels = tuple(Level(name=name("l", k), value=k) for k in range(size))
        return Factor(name=name("f", n), levels=levels, change=changes[n])

    factors = tuple(factor(n, size) for n, size in enumerate(sizes))

    def case(n: int, numbers: tuple[int, ...]) -> Case:
        levels = {name("f", k): name("l", number) for k, number in enumerate(numbers)}
        return Case(name=name("c", n), levels=levels, excluded="so" if n % 3 == 2 else None)

    cases = tuple(case(n, numbers) for n, numbers in enumerate(product(*map(range, sizes))))
    return Lock(
        name="x", seed=seed, svload_version="0", study_sha256="", study_dir=".", factors=factors, cases=cases,
        measure=Measure(duration_ns=1, replicates=replicates, order=order), source={},
    )  # fmt: skip


designs = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["request", "live", "restart", "rebuild"])), min_size=1, max_size=4).map(
    lambda pairs: ([size for size, _ in pairs], [change for _, change in pairs])
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(designs, st.integers(1, 5), st.integers(0, 2**40))
def test_each_block_holds_every_case(design: tuple[list[int], list[str]], replicates: int, seed: int) -> None:
    lock = lock_of(*design, replicates, seed)
    batch = first_batch(lock)
    valid = [case.name for case in lock.valid_cases]
    assert [trial.position for trial in batch.trials] == list(range(len(valid) * replicates))
    blocks = [list(trials) for _, trials in groupby(batch.trials, key=lambda trial: trial.block)]
    assert len(blocks) == replicates
    for number, trials in enumerate(blocks, start=1):
        assert Counter(trial.case for trial in trials) == Counter(valid)
        assert {(trial.block, trial.replicate) for trial in trials} == {(number, number)}
    assert len({trial.seed for trial in batch.trials}) == len(batch.trials)
    assert all(trial.trial == f"{trial.case}.r{trial.replicate}" for trial in batch.trials)


@settings(max_examples=60, deadline=None)
@given(designs, st.integers(1, 4), st.integers(0, 2**40))
def test_restarts_make_whole_plots(design: tuple[list[int], list[str]], replicates: int, seed: int) -> None:
    lock = lock_of(*design, replicates, seed)
    hard = [factor.name for factor in lock.factors if factor.change in ("restart", "rebuild")]
    plots = [list(trials) for _, trials in groupby(first_batch(lock).trials, key=lambda one: one.whole_plot)]
    if not hard:
        assert len(plots) == 1
        assert not any(trial.restart for trial in plots[0])
        return
    kinds = {tuple(case.levels[name] for name in hard) for case in lock.valid_cases}
    assert len(plots) == len(kinds) * replicates
    for number, trials in enumerate(plots):
        assert {trial.whole_plot for trial in trials} == {number}
        assert [trial.restart for trial in trials] == [number > 0, *[False] * (len(trials) - 1)]
        assert len({tuple(lock.case(trial.case).levels[name] for name in hard) for trial in trials}) == 1
        assert len({trial.block for trial in trials}) == 1


def test_more_replicates_leave_the_first_blocks_as_they_are() -> None:
    few, many = (first_batch(lock_of([3, 3], ["request", "restart"], replicates, 7)) for replicates in (2, 5))
    assert many.trials[: len(few.trials)] == few.trials


def test_another_seed_is_another_order_with_other_loads() -> None:
    one, two = (first_batch(lock_of([3, 3, 3], ["request"] * 3, 4, seed)) for seed in (1, 2))
    assert [trial.case for trial in one.trials] != [trial.case for trial in two.trials]
    assert not {trial.seed for trial in one.trials} & {trial.seed for trial in two.trials}


def test_as_listed() -> None:
    lock = lock_of([2, 2], ["request", "request"], 2, 1, order="as-listed")
    assert [trial.case for trial in first_batch(lock).trials] == [case.name for case in lock.valid_cases] * 2


def test_every_place_of_a_block_is_as_likely_for_every_case() -> None:
    """χ² over 600 blocks of 4 cases: 9 degrees of freedom, its 99.99 % quantile is 33.7."""
    seen: Counter[tuple[int, str]] = Counter()
    for trial in first_batch(lock_of([6], ["request"], 600, 5)).trials:
        seen[trial.position % 4, trial.case] += 1
    assert len(seen) == 16
    assert sum((count - 150) ** 2 / 150 for count in seen.values()) < 33.7


@given(designs, st.integers(0, 2**40))
def test_names_leave_the_order(design: tuple[list[int], list[str]], seed: int) -> None:
    """Even if the names sort the other way round."""
    ours, theirs = (lock_of(*design, 3, seed, last=last) for last in (0, 1000))
    names = {one.name: other.name for one, other in zip(ours.cases, theirs.cases, strict=True)}
    for one, renamed in zip(first_batch(ours).trials, first_batch(theirs).trials, strict=True):
        name = names[one.case]
        assert renamed == evolve(one, case=name, trial=f"{name}.r{one.replicate}")


@given(st.integers(0, 2**60), st.integers(0, 1000))
def test_seeds_are_exact_in_json_everywhere(seed: int, what: int) -> None:
    assert 0 <= draw(seed, "load", what) < 2**53
    assert draw(seed, "load", what) == draw(seed, "load", what)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("workers: 4", 'workers: "${users}"', "restart"),
        ("kit: stone", 'kit: "stone-${users}"', "restart"),
        ("count: 100", 'count: "${users}"', "rebuild"),
        ("timeout: 5s", 'timeout: "${users}s"', "request"),
        ("workers: 4", 'workers: "${scheme.n}"', "restart"),
    ],
)
def test_what_a_change_of_a_factor_costs(load: Callable[..., Lock], old: str, new: str, change: str) -> None:
    text = SMALL.replace(old, new).replace("[http, https]", '{http: {n: "${users}"}, https: {n: 1}}')
    costs = {factor.name: factor.change for factor in load(text).factors}
    assert costs["users"] == change
    assert costs["way"] == "request"
