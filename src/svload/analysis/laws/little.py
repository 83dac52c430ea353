"""Little's law, L = λ·W, and its form for closed loops, N = X·(R + Z) (Little 1961; Denning & Buzen 1978, the
interactive response time law).

The law is exact if every time is clipped to the window: Σ clipped times over T, on both sides. With
completions, which is all that a table has, a request counts whole in the window that it ends in: the bias is
at most (longest cycle)/T, and with T below twenty mean cycles there is no result.
"""

from __future__ import annotations

from dataclasses import dataclass

from svload.analysis import limits
from svload.analysis.laws.levels import Run


@dataclass(frozen=True)
class Balance:
    """The law on one run: `accounted` users compared with those that there were. `edge`: the largest share by
    which the window's edges can shift it."""

    users: float
    accounted: float
    edge: float | None


def balance(run: Run) -> Balance | None:
    """Compare N with X·(R + Z) of a closed loop; None for an open one, and where the window is known to hold
    fewer than twenty mean cycles."""
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
