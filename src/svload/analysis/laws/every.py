"""All laws over one set of runs: shared by a study's load factor, an imported table and a search for
capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svload.analysis import limits
from svload.analysis.laws.levels import Bounds, Kind, Level, Limit, Resource, Run, by_load, levels_of, placed
from svload.analysis.laws.n_star import (
    NO_GROUND,
    Ground,
    alone_of,
    ground_of,
    n_star,
    think_limit,
    top_interval,
    top_rps,
)
from svload.analysis.laws.throughput import Scalability, agree, flat_levels, n_break, n_peak, scalability


@dataclass(frozen=True)
class Laws:
    """The results of the laws on runs at several loads.

    `limit` is N* for users, the saturation think time for think times, the full rate 1/max(Dᵢ/mᵢ) for rates.
    `balances` hold one entry per run that Little's law can be applied to. `agree`: N_break lies within 25 %
    of the limit; None where one of them is not bracketed.
    """

    kind: Kind
    levels: tuple[Level, ...]
    balances: tuple[Balance, ...]
    ground: Ground | None
    bounds: Bounds | None
    limit: Limit
    break_at: Limit
    peak: Limit
    scalability: Scalability | None
    flat: tuple[Level, ...]
    agree: bool | None


def laws_of(runs: Sequence[Run], resources: Sequence[Resource], kind: Kind) -> Laws | None:
    """Apply every law that these runs allow; None with fewer than two levels."""
    levels = levels_of(runs, kind)
    if len(levels) < 2:
        return None
    used = [run for level in levels for run in level.runs]
    limit, ground = _limit(used, resources, kind)
    fit = scalability(used) if kind == "users" else None
    break_at = n_break(used, kind)
    return Laws(
        kind=kind,
        levels=levels,
        balances=tuple(one for run in used if (one := balance(run)) is not None),
        ground=ground,
        bounds=_bounds(used, levels, ground, kind),
        limit=limit,
        break_at=break_at,
        peak=n_peak(used, fit) if kind == "users" else Limit(None, reason="of users alone"),
        scalability=fit,
        flat=flat_levels(levels, kind),
        agree=agree(limit, break_at),
    )


def _limit(runs: Sequence[Run], resources: Sequence[Resource], kind: Kind) -> tuple[Limit, Ground | None]:
    if kind == "users":
        return n_star(runs, resources)
    if kind == "think":
        return think_limit(runs, resources)
    ground = ground_of(runs, resources, kind)
    found = top_interval(runs, ground, kind) if ground else None
    if found is None:
        return Limit(None, reason=f"{NO_GROUND} at the highest rate"), ground
    name = ground.bottleneck.resource.name if ground and ground.bottleneck else "flat throughput"
    limit = Limit(found.value, found.low, found.high, reason=f"from {name}")
    return placed(limit, [level.at for level in levels_of(runs, kind)]), ground


def _bounds(runs: Sequence[Run], levels: Sequence[Level], ground: Ground | None, kind: Kind) -> Bounds | None:
    most_rps = top_rps(ground, runs, kind) if ground else None
    if ground is None or most_rps is None:
        return None
    least = by_load(levels, kind)[0]
    alone_s = least.response_s if kind == "rate" else alone_of(least, ground, most_rps).response_s
    return Bounds(most_rps, alone_s)


@dataclass(frozen=True)
class Balance:
    """The law on one run: `accounted` users compared with those that there were. `edge`: the largest share by
    which the window's edges can shift it."""

    users: float
    accounted: float
    edge: float | None


def balance(run: Run) -> Balance | None:
    """Compare N with X·(R + Z) of a closed loop (Little 1961; Denning & Buzen 1978); None for an open one,
    and where the window is known to hold fewer than twenty mean cycles.

    The law is exact if every time is clipped to the window on both sides. With completions, which is all that
    a table has, a request counts whole in the window that it ends in: the bias is at most (longest cycle)/T.
    """
    n = run.users
    if n is None or n <= 0:
        return None
    if run.window_s is not None and run.window_s < limits.LAW_CYCLES * run.cycle_s:
        return None
    edge = (
        run.longest_cycle_s / run.window_s
        if run.window_s is not None and run.longest_cycle_s is not None
        else None
    )
    return Balance(n, run.throughput_rps * run.cycle_s, edge)
