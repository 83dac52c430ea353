"""The bench's results, as a table for people and as JSON. Nothing here measures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from benches.figures import interval
from benches.measure import CLIENT_CORE, SERVER_CORE
from benches.works import EFFORTS, Outcome, Special

QUIET_SHARE = 0.05
"""Foreign CPU above this share of a core makes figures weak (docs/method.md §3)."""


@dataclass
class Result:
    """All results of one invocation."""

    effort: str
    seed: int
    machine: dict[str, Any]
    missing: dict[str, str]
    request_bytes: dict[str, int] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    specials: dict[str, Special] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    interrupted: bool = False

    def verdicts(self) -> dict[str, bool]:
        """Return each limit that was measured, and whether it is kept."""
        found = {name_of(outcome): outcome.passed for outcome in self.outcomes}
        found |= {name: special.passed for name, special in self.specials.items()}
        return found


def table(result: Result) -> str:
    """Return a table for people: a block for each work, then the limits."""
    lines = [_head(result)]
    for outcome in result.outcomes:
        lines += ["", _work_block(outcome)]
    for special in result.specials.values():
        lines += ["", *special.block()]
    lines += ["", "Limits"]
    lines += [
        f"  {'kept  ' if kept else 'MISSED'}  {name}{figure(result, name)}"
        for name, kept in result.verdicts().items()
    ]
    lines += [f"  missing  {name}: {get}" for name, get in result.missing.items()]
    lines += [f"  ! {trouble}" for trouble in result.troubles]
    return "\n".join(lines)


def _head(result: Result) -> str:
    effort = EFFORTS[result.effort]
    sizes = ", ".join(f"{name} {size}" for name, size in result.request_bytes.items() if size)
    busy = result.machine["busy_before"]
    lines = [
        f"{result.effort}: {effort.rounds} rounds of runs of {effort.short_s} and {effort.long_s} s in random "
        f"order (seed {result.seed}); "
        f"server on core {SERVER_CORE}, client on core {CLIENT_CORE}",
        f"request bytes: {sizes}",
    ]
    if busy > 0.05:
        lines.append(
            f"! this machine was busy before the first run ({busy:.0%} of its cores): these figures are not quiet"
        )
    return "\n".join(lines)


def _work_block(outcome: Outcome) -> str:
    load = "at saturation" if outcome.rate_rps is None else f"at {outcome.rate_rps:.0f} req/s"
    lines = [
        f"{outcome.work.title}, {load}",
        f"  {'tool':<19} {'process µs':>10} {'core µs':>8} {'req/s':>8}   ÷ {outcome.best or 'best peer'} (95 %)",
    ]
    if outcome.foreign_share > QUIET_SHARE:
        lines.insert(1, f"  ! not quiet: other processes took {outcome.foreign_share:.0%} of a core")
    for cell in sorted(outcome.cells, key=lambda one: one.median("process_us") or math.inf):
        ratio = outcome.ratio_of(cell)
        shown = [
            _number(cell.median(what), form)
            for what, form in (("process_us", "10.2f"), ("core_us", "8.2f"), ("rate_rps", "8.0f"))
        ]
        lines.append(
            f"  {cell.tool:<19} {' '.join(shown)}   {interval(ratio)}{f'   ({cell.note})' if cell.note else ''}"
        )
        lines += [f"    ! {failure}" for failure in cell.failures]
    return "\n".join(lines)


def figure(result: Result, name: str) -> str:
    """Return a limit and the measured value, as words."""
    for outcome in result.outcomes:
        if name_of(outcome) == name:
            return f"  ≤ {outcome.work.limit:.2f} × {outcome.best}: {interval(outcome.ratio)}"
    return f"  {result.specials[name].figure}" if name in result.specials else ""


def name_of(outcome: Outcome) -> str:
    """Return the key of a work, `…@half` at half the rate of saturation."""
    return outcome.work.key if outcome.rate_rps is None else f"{outcome.work.key}@half"


def _number(value: float | None, form: str) -> str:
    return format("–", ">" + form.split(".")[0]) if value is None else format(value, form)


def plain(result: Result) -> dict[str, Any]:
    """Return the result as JSON data; non-finite numbers are null."""

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): whole(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [whole(one) for one in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    found = {"format": 1, **asdict(result), "verdicts": result.verdicts()}
    data: dict[str, Any] = whole(found)
    return data
