"""The policy of `measure.until` and of a gate: blocks are added until an interval is narrow enough
(docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from svload.analysis.capacity.search import spent_s
from svload.analysis.contrasts import contrasts_of, most_blocks, wanted_widths
from svload.model.plan import Batch, TrialPlan
from svload.model.study import Lock
from svload.model.units import show_percent
from svload.run.policies.base import Sealed
from svload.study.order import block_of


def until(lock: Lock, sealed: Sealed) -> Batch | None:
    """Return one more block of the cases whose comparison is not narrow enough, or of all cases if it was
    planned and waited for its time (`--for`); None if all are narrow enough, or no more may be made.

    Only the width is looked at, never the effect or its p: who adds blocks until p is small decides in 10 to 16 %
    of comparisons of equal things. The one exception is a gate of sides that take turns: it needs no more blocks once
    it is decided at a much stricter level.
    """
    wanted, widths = wanted_widths(lock), sealed.verdicts.widths
    wide = {name for name, width in wanted.items() if (now := widths.get(name)) is not None and now > width}
    wide -= sealed.verdicts.decided
    made = [trial for batch in sealed.batches for trial in batch.trials]
    block = max((trial.block for trial in made), default=0) + 1
    planned = block <= lock.measure.replicates
    if not (wide or planned) or block > most_blocks(lock):
        return None
    cases = {case for contrast in contrasts_of(lock) if contrast.name in wide for case in contrast.cases}
    if planned:
        cases = {case.name for case in lock.valid_cases}
    ends, more = sorted(sealed.verdicts.sealed_s.values()), len(cases)
    if lock.measure.order == "turns":
        ends, more = _ends_of_blocks(made, sealed.verdicts.sealed_s), 1
    if not _fits(lock.measure.within_s, sealed.verdicts.begun_s, ends, more):
        return None
    text = ", ".join(
        f"{name} ± {show_percent(widths[name] or 0.0, 2)}, wanted ± {show_percent(wanted[name], 2)}"
        for name in sorted(wide)
    )
    return sealed.batch(f"block {block}: {text or 'planned'}", block_of(lock, block, made, cases))


def _ends_of_blocks(made: Sequence[TrialPlan], sealed_s: Mapping[str, float]) -> list[float]:
    """Return when each block of trials made together was sealed."""
    ends: dict[int, float] = {}
    for trial in made:
        if trial.trial in sealed_s:
            ends[trial.block] = max(ends.get(trial.block, 0.0), sealed_s[trial.trial])
    return sorted(ends.values())


def _fits(within_s: float | None, begun_s: float | None, ends: Sequence[float], more: int) -> bool:
    """Return whether this many more trials, or blocks of turns, end within the time that `--for` gives,
    judged by the duration of earlier ones, which were sealed at `ends`."""
    if within_s is None or len(ends) < 2:
        return True
    gaps = [after - before for before, after in pairwise(ends)]
    each_s = median(gaps)
    first_s = each_s if begun_s is None else max(ends[0] - begun_s, 0.0)
    return spent_s(gaps, first_s, each_s) + more * each_s <= within_s
