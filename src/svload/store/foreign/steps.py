"""Steps put into another order: a step is its place among its group's, so that trials of one run must have the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from svload.model.results import GroupSummary, StepSummary
from svload.store.foreign.tabulate import Made
from svload.store.parquet import Arrays, sum_by_key


def with_steps(
    tables: Mapping[str, Arrays], made: Made, wanted: Mapping[str, Sequence[str]]
) -> dict[str, Arrays]:
    """A trial's tables whose `step` is the place in `wanted` (by traffic group); a step that
    is not there becomes the first."""
    places = []
    for group in made.groups:
        steps = list(wanted[group.name])
        places.append([steps.index(step) if step in steps else 0 for step in made.steps[group.name]])
    widest = max(len(one) for one in places)
    table = np.array([[*one, *[0] * (widest - len(one))] for one in places], dtype="<u2")

    def moved(cells: Arrays) -> Arrays:
        if not len(cells.get("step", ())):
            return cells
        return {**cells, "step": table[cells["group"], np.minimum(cells["step"], widest - 1)]}

    summed_up = {name: sum_by_key(name, [moved(tables[name])]) for name in ("intervals", "histograms")}
    return {**tables, **summed_up, "samples": moved(tables["samples"])}


def summed(group: GroupSummary, wanted: Sequence[str]) -> GroupSummary:
    """The group with these steps: zeros for one that it did not ask, and the sum of all where they are one."""
    mine = {step.name: step for step in group.steps}
    if not set(mine) <= set(wanted):
        whole = StepSummary(
            name=wanted[0],
            due=group.due,
            begun=group.begun,
            dropped=group.dropped,
            ok=group.ok,
            failed=group.failed,
            errors=group.errors,
            status=group.status,
        )
        return group.model_copy(update={"steps": (whole,)})
    none = StepSummary(name="", due=0, begun=0, dropped=0, ok=0, failed=0)
    return group.model_copy(
        update={"steps": tuple(mine.get(name) or none.model_copy(update={"name": name}) for name in wanted)}
    )
