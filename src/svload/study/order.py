"""The order of trials: seeded, blocked, with whole plots where a change needs a restart.
Depends on positions, never on names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from svload.model.errors import fail
from svload.model.plan import Batch, Point, TrialPlan, trial_name
from svload.model.study import Case, Lock
from svload.study.config import measure_of

SPLIT = ("restart", "rebuild")


def first_batch(lock: Lock) -> Batch:
    """All trials of a static study, in order. Replicates and blocks count from 1, positions and whole plots from 0.

    Each replicate is a block that holds every valid case once, in random order (docs/method.md §2). Factors
    whose change needs a restart make a split plot: inside a block their combinations (whole plots) are
    randomised first, then the cases of each. `restart` marks the first trial of every whole plot but the very
    first, before which services come up anyway. Without such a factor `bring_ups: n` spreads the blocks
    evenly over n whole plots, blocks that follow one another together. A case with fewer replicates is in the
    first blocks. Raises SvloadError study-open for a study whose values a search chooses.
    """
    if searched := [factor.name for factor in lock.factors if factor.open is not None]:
        raise fail("study-open", factor=searched[0])
    measures = {case.name: measure_of(lock, case) for case in lock.valid_cases}
    numbered = [(index, case) for index, case in enumerate(lock.cases) if case.excluded is None]
    split = any(factor.change in SPLIT for factor in lock.factors)
    shuffled = lock.measure.order == "randomised-blocks"
    trials: list[TrialPlan] = []
    plots, before = 0, 0
    for block in range(1, lock.measure.replicates + 1):
        bring_up = _bring_up(lock, block)
        present = [(index, case) for index, case in numbered if block <= measures[case.name].replicates]
        for plot in _whole_plots(lock, present, block, shuffled):
            for place, (index, case) in enumerate(plot):
                trials.append(
                    TrialPlan(
                        trial=trial_name(case.name, block),
                        case=case.name,
                        replicate=block,
                        block=block,
                        position=len(trials),
                        seed=draw(lock.seed, "load", block, index),
                        whole_plot=plots if split else bring_up,
                        restart=place == 0 and (plots > 0 if split else bring_up > before),
                        at=Point(duration_ns=measures[case.name].duration_ns),
                    )
                )
            plots += 1
        before = bring_up
    return Batch(number=0, because=_because(lock, split, shuffled), trials=tuple(trials))


def plot_of(lock: Lock, case: Case) -> tuple[int, ...]:
    """Which combination of restarting factors' levels a case has, as the levels' places;
    empty where no factor restarts."""
    return tuple(
        [level.name for level in factor.levels].index(case.levels[factor.name])
        for factor in lock.factors
        if factor.change in SPLIT and factor.open is None
    )


def side_by_side(cases: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The cases in rows, in which those of a pair are neighbours wherever an earlier pair leaves room.

    A case has two neighbours at most. So a pair stays apart where either already has two, or where it would
    close a ring. Where no case is in more than two pairs and they close no ring, every pair is side by side.
    """
    rows = {case: [case] for case in cases}
    for one, other in pairs:
        before, after = rows[one], rows[other]
        if before is after or one not in (before[0], before[-1]) or other not in (after[0], after[-1]):
            continue
        if before[-1] != one:
            before.reverse()
        if after[0] != other:
            after.reverse()
        before += after
        rows |= dict.fromkeys(after, before)
    return list({id(row): row for row in rows.values()}.values())


def draw(seed: int, *what: str | int) -> int:
    """A number of 53 bits (exact in JSON everywhere) that depends on `seed` and on `what`
    it is for, and on nothing else."""
    text = "/".join(str(part) for part in (seed, *what))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 11


def _bring_up(lock: Lock, block: int) -> int:
    """The bring-up of a block, from 0."""
    bring_ups = min(lock.measure.bring_ups, lock.measure.replicates)
    return (block - 1) * bring_ups // lock.measure.replicates


def _whole_plots(lock: Lock, numbered: Sequence[tuple[int, Case]], block: int, shuffled: bool) -> Iterator[list[tuple[int, Case]]]:  # fmt: skip
    """The block's cases by combination of restart factors, both levels in the order they run."""
    plots: dict[tuple[int, ...], list[tuple[int, Case]]] = {}
    for index, case in numbered:
        plots.setdefault(plot_of(lock, case), []).append((index, case))
    order = list(plots)
    if shuffled:
        order.sort(key=lambda plot: draw(lock.seed, "plot", block, *plot))
    for plot in order:
        cases = plots[plot]
        yield sorted(cases, key=lambda item: draw(lock.seed, "case", block, item[0])) if shuffled else cases


def _because(lock: Lock, split: bool, shuffled: bool) -> str:
    order = "in random order inside each block" if shuffled else "as listed"
    plots = ", whole plots by what needs a restart" if split else ""
    if not split and lock.measure.bring_ups > 1:
        plots = f", over {lock.measure.bring_ups} bring-ups"
    most = "at most " if len({measure_of(lock, case).replicates for case in lock.valid_cases}) > 1 else ""
    return f"{most}{lock.measure.replicates} replicates of {len(lock.valid_cases)} cases, {order}{plots}"
