"""From runs to figures: slopes, ratios paired by round, gap errors. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from statistics import geometric_mean

import numpy as np

from benches.measure import Cost


@dataclass(frozen=True)
class Slope:
    """Cost of one additional request, from a short and a long run of the same round."""

    process_us: float
    rate_rps: float


def slope(short: Cost, long: Cost) -> Slope:
    """Return (CPU of the long run − CPU of the short one) / (requests long − short): start-up and end cost
    cancel. Raise ValueError if the long run made no more requests, took no more CPU or lasted no longer."""
    requests, wall_s = long.requests - short.requests, long.wall_s - short.wall_s
    process_s = long.process_s - short.process_s
    if requests <= 0 or process_s <= 0 or wall_s <= 0:
        more = f"{requests} requests more, took {process_s:.3f} s more and lasted {wall_s:.3f} s longer"
        raise ValueError(f"the long run made {more}")
    return Slope(process_s / requests * 1e6, requests / wall_s)


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval; the interval is open (inf) with fewer than two rounds."""

    value: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})" if self.rounds else "–"


def paired_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio:
    """Return ours over theirs: Student's t on log ratios of rounds with both (docs/method.md §2, blocks)."""
    from scipy.stats import sem, t

    rounds = sorted(ours.keys() & theirs.keys())
    logs = np.log([ours[number] / theirs[number] for number in rounds])
    if len(logs) < 2:
        return Ratio(float(np.exp(logs[0])) if rounds else nan, 0.0, inf, len(logs))
    half = t.ppf(0.975, len(logs) - 1) * sem(logs)
    return Ratio(*np.exp(logs.mean() + half * np.array([0, -1, 1])).tolist(), len(logs))


def best_of(costs: Mapping[str, Mapping[int, float]]) -> str | None:
    """Return the tool with the lowest geometric mean. Choosing by the same rounds only favours the peers."""
    means = {name: geometric_mean(rounds.values()) for name, rounds in costs.items() if rounds}
    return min(means, key=means.__getitem__, default=None)


def gap_error_ms(stamps_ns: Sequence[int], rate_rps: float, skip_s: float = 0.5) -> float:
    """Return the p99 of how far gaps between arrivals after the first `skip_s` are from even ones. Raise
    ValueError under 100 gaps."""
    stamps = np.sort(stamps_ns)
    kept = stamps[stamps >= stamps[:1] + skip_s * 1e9]
    errors_ms = np.abs(np.diff(kept) / 1e6 - 1e3 / rate_rps)
    if len(errors_ms) < 100:
        raise ValueError(f"only {len(errors_ms)} gaps were seen")
    return float(np.quantile(errors_ms, 0.99, method="inverted_cdf"))
