"""The bench's results, as a table for people. Nothing here measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

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
    missing: dict[str, str] = field(default_factory=dict)
    request_bytes: dict[str, int] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    specials: dict[str, Special] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    interrupted: bool = False

    def verdicts(self) -> dict[str, bool]:
        """Return each limit that was measured, and whether it is kept."""
        of_works = {outcome.name: outcome.passed for outcome in self.outcomes}
        return of_works | {name: special.passed for name, special in self.specials.items()}


def table(result: Result) -> str:
    """Return a table for people: a block for each work, then the limits."""
    lines = _head(result)
    for outcome in result.outcomes:
        lines += ["", *work_block(outcome)]
    for special in result.specials.values():
        lines += ["", *special.lines, *(f"  ! {why}" for why in special.failures)]
    lines += ["", "Limits"]
    for name, kept in result.verdicts().items():
        lines.append(f"  {'kept  ' if kept else 'MISSED'}  {name}{figure(result, name)}")
    lines += [f"  missing  {name}: {get}" for name, get in result.missing.items()]
    return "\n".join([*lines, *(f"  ! {trouble}" for trouble in result.troubles)])


def _head(result: Result) -> list[str]:
    effort, busy = EFFORTS[result.effort], result.machine["busy_before"]
    sizes = ", ".join(f"{name} {size}" for name, size in result.request_bytes.items() if size)
    lines = [
        f"{result.effort}: {effort.rounds} rounds of runs of {effort.short_s} and {effort.long_s} s in "
        f"random order (seed {result.seed}); server on core {SERVER_CORE}, client on core {CLIENT_CORE}",
        f"request bytes: {sizes}",
    ]
    if busy > QUIET_SHARE:
        lines.append(f"! busy before the first run ({busy:.0%} of the cores): these figures are not quiet")
    return lines


def work_block(outcome: Outcome) -> list[str]:
    """Return the lines of a work at one load: its title, then the tools, the cheapest first."""
    load = "at saturation" if outcome.rate_rps is None else f"at {outcome.rate_rps:.0f} req/s"
    lines = [f"{outcome.work.title}, {load}"]
    if outcome.foreign_share > QUIET_SHARE:
        lines.append(f"  ! not quiet: other processes took {outcome.foreign_share:.0%} of a core")
    best = outcome.best or "best peer"
    lines.append(f"  {'tool':<19} {'process µs':>10} {'core µs':>8} {'req/s':>8}   ÷ {best} (95 %)")
    for cell in sorted(outcome.cells, key=lambda one: one.median("process_us") or inf):
        cpu_us, core_us, rate_rps = (cell.median(one) for one in ("process_us", "core_us", "rate_rps"))
        shown = f"{cpu_us:>10.2f} {core_us:>8.2f} {rate_rps:>8.0f}" if cell.slopes else f"{'–':>28}"
        note = f"   ({cell.note})" if cell.note else ""
        lines.append(f"  {cell.tool:<19} {shown}   {outcome.ratio_of(cell.tool)}{note}")
        lines += [f"    ! {failure}" for failure in cell.failures]
    return lines


def figure(result: Result, name: str) -> str:
    """Return a limit and the measured value, as words."""
    for outcome in result.outcomes:
        if outcome.name == name:
            return f"  ≤ {outcome.work.limit:.2f} × {outcome.best}: {outcome.ratio}"
    return f"  {result.specials[name].figure}" if name in result.specials else ""
