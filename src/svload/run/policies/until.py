"""The policy of `measure.until` and of a gate: blocks until an interval is narrow enough (docs/method.md §2)."""

from __future__ import annotations

from svload.analysis.contrasts import contrasts_of, most_blocks, wanted_widths
from svload.model.plan import Batch
from svload.model.study import Lock
from svload.run.policies.base import Sealed
from svload.study.order import block_of


def until(lock: Lock, sealed: Sealed) -> Batch | None:
    """One more block of the cases whose comparison is not narrow enough; None where all are, or no more may be made.

    Only the width is looked at, never the effect or its p: who adds blocks until p is small decides in 10 to 16 %
    of comparisons of equal things.
    """
    wanted, widths = wanted_widths(lock), sealed.verdicts.widths
    wide = {name for name, width in wanted.items() if (now := widths.get(name)) is not None and now > width}
    made = [trial for batch in sealed.batches for trial in batch.trials]
    block = max((trial.block for trial in made), default=0) + 1
    if not wide or block > most_blocks(lock):
        return None
    cases = {case for contrast in contrasts_of(lock) if contrast.name in wide for case in contrast.cases}
    told = ", ".join(
        f"{name} ± {_percent(widths[name])}, wanted ± {_percent(wanted[name])}" for name in sorted(wide)
    )
    return sealed.batch(f"block {block}: {told}", block_of(lock, block, made, cases))


def _percent(log_ratio: float | None) -> str:
    return f"{100 * (log_ratio or 0.0):.2g} %"
