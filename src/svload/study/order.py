"""The order of trials: seeded, blocked, with whole plots where a change needs a restart.
Depends on positions, never on names."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from svload.model.errors import fail
from svload.model.plan import Batch, Point, TrialPlan, trial_name
from svload.model.study import Case, Lock
from svload.study.config import measure_of
from svload.study.tree import dicts_of, section_of

SPLIT = ("restart", "rebuild")
_ORDERS = {
    "randomised-blocks": "in random order inside each block",
    "as-listed": "as listed",
    "turns": "in turns inside each block",
}


def first_batch(lock: Lock) -> Batch:
    """Return all trials of a static study, in order. Replicates and blocks count from 1, positions and whole
    plots from 0.

    Each replicate is a block that holds every valid case once, in random order (docs/method.md §2). Factors
    whose change needs a restart make a split plot: inside a block their combinations (whole plots) are
    randomised first, then the cases of each. `restart` marks the first trial of every whole plot except the
    first one, before which services start anyway. Without such a factor `bring_ups: n` spreads the blocks
    evenly over n whole plots, consecutive blocks together. A case with fewer replicates is in the first
    blocks. Raises SvloadError study-open for a study whose values a search chooses.
    """
    if searched := [factor.name for factor in lock.factors if factor.open is not None]:
        raise fail("study-open", factor=searched[0])
    trials: list[TrialPlan] = []
    for block in range(1, lock.measure.replicates + 1):
        trials += block_of(lock, block, trials)
    return Batch(number=0, because=_because(lock), trials=tuple(trials))


def block_of(
    lock: Lock, block: int, made: Sequence[TrialPlan], only: Collection[str] | None = None
) -> list[TrialPlan]:
    """Return the trials of one more block, in running order, after those planned so far. `only`: of these
    cases.

    Blocks come in pairs, of which the second has the reversed order of the first: the effect of a trial on
    the next then meets both sides equally (docs/method.md §2). With turns each set of sides has its own
    bring-up, unless svload starts none of the servers.
    """
    measures = {case.name: measure_of(lock, case) for case in lock.valid_cases}
    wanted = only if only is not None else {name for name, one in measures.items() if block <= one.replicates}
    present = [
        (index, case)
        for index, case in enumerate(lock.cases)
        if case.name in wanted and case.name in measures
    ]
    split = is_split(lock)
    bring_up = _bring_up(lock, block)
    plot = made[-1].whole_plot + 1 if made and split else 0
    before = _bring_up(lock, made[-1].block) if made else 0
    trials: list[TrialPlan] = []
    for number, cases in enumerate(_whole_plots(lock, present, block), plot):
        for place, (index, case) in enumerate(cases):
            first = place == 0
            trials.append(
                TrialPlan(
                    trial=trial_name(case.name, block),
                    case=case.name,
                    replicate=block,
                    block=block,
                    position=len(made) + len(trials),
                    seed=draw(lock.seed, "load", block, index),
                    whole_plot=number if split else bring_up,
                    restart=first and (number > 0 if split else not trials and bring_up > before),
                    at=Point(duration_ns=measures[case.name].duration_ns),
                )
            )
    return trials


def plot_of(lock: Lock, case: Case) -> tuple[int, ...]:
    """Return a case's combination of restarting factors' levels, as level indices; empty if no factor
    restarts. With turns, of all factors but the turned one: its sides are up together."""
    in_turns = lock.measure.order == "turns"
    turned = turned_factor(lock) if in_turns else ""
    return tuple(
        [level.name for level in factor.levels].index(case.levels[factor.name])
        for factor in lock.factors
        if factor.open is None and (factor.name != turned if in_turns else factor.change in SPLIT)
    )


def is_split(lock: Lock) -> bool:
    """Return whether each combination in a block has its own bring-up."""
    if lock.measure.order != "turns":
        return any(factor.change in SPLIT for factor in lock.factors)
    return not all("at" in service for _, service in dicts_of(section_of(lock.source, "lab")))


def turned_factor(lock: Lock) -> str:
    """Return the factor whose levels take turns: that of the study's comparisons; empty in an A/A run, where
    a case takes turns with itself."""
    return lock.comparisons[0].factor if lock.comparisons else ""


def control_level(baseline: str) -> str:
    """Return the level of a study's control: the baseline again."""
    return f"{baseline}-again"


def sets_of_cases(cases: Sequence[Case], factor: str) -> list[list[Case]]:
    """Return cases that take turns with each other: they only differ in `factor`."""
    sets: dict[tuple[tuple[str, str], ...], list[Case]] = {}
    for case in cases:
        rest = tuple((name, level) for name, level in case.levels.items() if name != factor)
        sets.setdefault(rest, []).append(case)
    return list(sets.values())


def sets_of_turns(lock: Lock, trials: Sequence[TrialPlan]) -> list[list[TrialPlan]]:
    """Return the trials of one block as sets that are up together, in the order they run; the sides of each
    in the order of the study's cases."""
    place = {case.name: number for number, case in enumerate(lock.cases)}
    planned: dict[str, list[TrialPlan]] = {}
    for trial in trials:
        planned.setdefault(trial.case, []).append(trial)
    sets = sets_of_cases([lock.case(name) for name in planned], turned_factor(lock))
    made = ([trial for case in one for trial in planned[case.name]] for one in sets)
    return [sorted(one, key=lambda trial: (place[trial.case], trial.replicate)) for one in made]


def draw(seed: int, *what: str | int) -> int:
    """Return a number of 53 bits (exact in JSON everywhere) that only depends on `seed` and on its purpose
    `what`."""
    text = "/".join(str(part) for part in (seed, *what))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 11


def _bring_up(lock: Lock, block: int) -> int:
    """Return the bring-up of a block, from 0; blocks beyond the planned get new ones, of the same size."""
    bring_ups = min(lock.measure.bring_ups, lock.measure.replicates)
    return (block - 1) * bring_ups // lock.measure.replicates


def _whole_plots(lock: Lock, numbered: Sequence[tuple[int, Case]], block: int) -> Iterator[list[tuple[int, Case]]]:  # fmt: skip
    """Return the block's cases by combination of restart factors, both levels in the order they run."""
    plots: dict[tuple[int, ...], list[tuple[int, Case]]] = {}
    for index, case in numbered:
        plots.setdefault(plot_of(lock, case), []).append((index, case))
    order = list(plots)
    if not lock.measure.blocked:
        yield from plots.values()
        return
    turned = block % 2 == 0
    drawn = block - turned
    order.sort(key=lambda plot: draw(lock.seed, "plot", drawn, *plot), reverse=turned)
    for plot in order:
        yield sorted(plots[plot], key=lambda item: draw(lock.seed, "case", drawn, item[0]), reverse=turned)


def _because(lock: Lock) -> str:
    split = is_split(lock)
    order = _ORDERS[lock.measure.order]
    plots = ", whole plots by what needs a restart" if split and lock.measure.order != "turns" else ""
    if not split and lock.measure.bring_ups > 1:
        plots = f", over {lock.measure.bring_ups} bring-ups"
    most = "at most " if len({measure_of(lock, case).replicates for case in lock.valid_cases}) > 1 else ""
    return f"{most}{lock.measure.replicates} replicates of {len(lock.valid_cases)} cases, {order}{plots}"
