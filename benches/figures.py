"""From runs to figures: slopes, ratios paired by round, gap errors. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, stdev


@dataclass(frozen=True)
class Run:
    """One counted run: requests as the server counted them, CPU in s."""

    requests: int
    process_s: float
    core_s: float
    wall_s: float


@dataclass(frozen=True)
class Slope:
    """Cost of one additional request, from a short and a long run of the same round."""

    process_us: float
    core_us: float
    rate_rps: float


def slope(short: Run, long: Run) -> Slope:
    """Return (CPU of the long run − CPU of the short one) / (requests long − short): start-up and end cost
    cancel.

    Raise ValueError if the long run made no more requests, or took no more CPU.
    """
    requests = long.requests - short.requests
    process_s = long.process_s - short.process_s
    if requests <= 0 or process_s <= 0:
        raise ValueError(f"the long run made {requests} requests more and took {process_s:.3f} s more")
    return Slope(
        process_us=process_s / requests * 1e6,
        core_us=(long.core_s - short.core_s) / requests * 1e6,
        rate_rps=requests / max(long.wall_s - short.wall_s, 1e-9),
    )


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval; the interval is open (inf) with fewer than two rounds."""

    value: float
    low: float
    high: float
    rounds: int


def paired_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio:
    """Return ours over theirs: Student's t on log ratios of rounds with both (docs/method.md §2, blocks)."""
    rounds = sorted(ours.keys() & theirs.keys())
    if not rounds:
        return Ratio(math.nan, 0.0, math.inf, 0)
    logs = [math.log(ours[number] / theirs[number]) for number in rounds]
    middle = fmean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(middle), 0.0, math.inf, len(logs))
    from scipy.stats import t

    half = float(t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))


def interval(ratio: Ratio | None) -> str:
    """Return a ratio with its interval, or – if there is none."""
    if ratio is None or not ratio.rounds:
        return "–"
    return f"{ratio.value:.3f} ({ratio.low:.3f} … {ratio.high:.3f})"


def best_of(costs: Mapping[str, Mapping[int, float]]) -> str | None:
    """Return the tool with the lowest geometric mean. Choosing by the same rounds only favours the peers."""
    means = {name: geometric_mean(rounds.values()) for name, rounds in costs.items() if rounds}
    return min(means, key=lambda name: means[name]) if means else None


@dataclass(frozen=True)
class Pacing:
    """Deviation of the gaps between arrivals from the requested ones, in ms: spread, and the 99 % error."""

    stdev_ms: float
    p99_ms: float
    gaps: int


def pacing(stamps_ns: Sequence[int], rate_rps: float, skip_s: float = 0.5) -> Pacing:
    """Return gap errors of ordered `stamps_ns` after the first `skip_s`. Raise ValueError under 100 gaps."""
    ordered = sorted(stamps_ns)
    kept = [stamp for stamp in ordered if stamp >= ordered[0] + skip_s * 1e9] if ordered else []
    errors_ms = [(b - a) / 1e6 - 1e3 / rate_rps for a, b in itertools.pairwise(kept)]
    if len(errors_ms) < 100:
        raise ValueError(f"only {len(errors_ms)} gaps were seen")
    sizes = sorted(abs(error) for error in errors_ms)
    return Pacing(stdev(errors_ms), sizes[math.ceil(0.99 * len(sizes)) - 1], len(errors_ms))
