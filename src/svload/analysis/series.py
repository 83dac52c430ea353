"""A run over time: warm-up cut (MSER-5 or the first cycle), one cut for a case, steadiness (docs/method.md §1).

Ramps are outside the window by definition; everything here sees the window alone. Offsets
in ns from the window's begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import median

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from svload.analysis import limits
from svload.analysis.inference import bin_means, block_length, resampled_blocks, t_reach
from svload.analysis.quantiles import bucket_middles
from svload.analysis.readings import Monitors, of_monitor
from svload.analysis.view import GroupView
from svload.model.results import Grade
from svload.model.units import show_duration

Stops = Sequence[tuple[float, float]]
"""(offset in ns from the load's start at which it was reported, length in ns) of each gap in which a thread
of the load could not run."""
NO_STOPS: Stops = ()


def stops_of(monitors: Monitors) -> Stops:
    """Return every gap that the witnesses beside the load's threads saw; none without a witness."""
    gaps = of_monitor(monitors, "generator", "hiccup_seconds")
    return tuple(
        (float(at), 1e9 * float(gap)) for series in gaps.values() for at, gap in zip(*series, strict=True)
    )


def is_own_doing(groups: Iterable[GroupView], stops: Stops, cut_ns: int) -> bool:
    """Return whether the generator's own delays exceed the refused limit of its harm in the first `cut_ns` of
    the window.

    Open loop: the mean response over that without generator lag. Closed loop, where a generator that stands
    still delays no request but reads late: the longest gap over this part of the window.
    """
    if cut_ns <= 0:
        return False
    groups = tuple(groups)
    if any(not group.closed and _lag_share(group, cut_ns) > limits.OWN_DOING for group in groups):
        return True
    low_ns = min((group.window.low_ns for group in groups), default=0)
    # A gap is reported at the look after it: that time less its length is the latest possible begin.
    longest = max((gap for at, gap in stops if at > low_ns and at - gap < low_ns + cut_ns), default=0.0)
    return longest > limits.OWN_DOING * cut_ns


def _lag_share(group: GroupView, cut_ns: int) -> float:
    """Return mean response over mean response without generator lag, less one, of the requests due in this
    part."""
    if group.rows is not None:
        part = group.rows["ok"] & (group.rows["due_ns"] < group.window.low_ns + cut_ns)
        spent_ns = float(group.rows["response_ns"][part].sum())
        lag_ns = float(group.rows["lag_ns"][part].sum())
    else:
        intervals = -(-cut_ns // group.window.interval_ns)
        spent_ns, lag_ns = (_sum_ns(group, name, intervals) for name in ("response", "generator_lag"))
    if lag_ns <= 0:
        return 0.0
    return lag_ns / (spent_ns - lag_ns) if spent_ns > lag_ns else float("inf")


def _sum_ns(group: GroupView, metric: str, intervals: int) -> float:
    at, bucket, count = group.entries(metric)
    part = at < intervals
    return float(np.dot(bucket_middles(bucket[part]), count[part]))


Floats = NDArray[np.float64]
MSER = "MSER-5"
_BINS = 30
_LEAST_BINS = 8
_RESAMPLES = 300
_FEW_PER_INTERVAL = 5
_MOST_RHO = 0.95


@dataclass(frozen=True)
class Cut:
    """One trial's own warm-up cut. `at_half`: the window's first half was not enough to find where warm-up
    ends."""

    cut_ns: int
    at_half: bool
    method: str
    group: str = ""


@dataclass(frozen=True)
class CaseCut:
    """The cut of a case, the grade that it gives to one of its trials, and a sentence about it."""

    cut_ns: int
    grade: Grade
    sentence: str


def mser5(values: ArrayLike) -> tuple[int, bool]:
    """Return (observations to drop, whether the first half was not enough) by MSER-5 (White, Cobb & Spratt
    2000).

    Batches of five; d minimises Σ_{i≥d}(y − ȳ_d)²/(k − d)² over the first half of the batches. The half was
    not enough where the minimum lies at the end of that range, or where the series clearly settles in the
    third quarter (`_settles_late`).
    """
    x = np.asarray(values, dtype=float)
    size = limits.MSER_BATCH
    batches = len(x) // size
    if batches < 4:
        return 0, False
    y = x[: batches * size].reshape(batches, size).mean(axis=1)
    score = _mser(y)
    half = int(batches * limits.CUT_AT_MOST)
    best = int(np.argmin(score[: half + 1]))
    return best * size, best >= half or _settles_late(y, score, best)


def _mser(y: Floats) -> Floats:
    """Return MSER's statistic for every number of dropped batches."""
    y = y - y.mean()
    left = np.arange(len(y), 0, -1, dtype=float)
    sums, squares = np.cumsum(y[::-1])[::-1], np.cumsum((y**2)[::-1])[::-1]
    return np.asarray(np.maximum(squares - sums**2 / left, 0.0) / left**2)


def _settles_late(y: Floats, score: Floats, best: int) -> bool:
    """Return whether a minimum in the third quarter is three times below the first half's best, at a level
    that differs by 10 %.

    A step that ends at 60 % of the run has its best cut of the first half at 0, so a check for the end of the
    range alone never finds it (0 of 200 simulated runs, all 200 with this); steady series with ρ ≤ 0.97 per
    observation are not affected.
    """
    first = int(len(y) * limits.CUT_AT_MOST) + 1
    late = score[first : int(len(y) * limits.LATE_SEARCH)]
    if not len(late) or float(late.min()) * limits.LATE_CLEAR >= float(score[best]):
        return False
    settled = first + int(np.argmin(late))
    before, after = float(y[best:settled].mean()), float(y[settled:].mean())
    return abs(before - after) > limits.DRIFT * abs(after)


def is_stall(values: ArrayLike, dropped: int) -> bool:
    """Return whether the first `dropped` of the observations, which MSER-5 would drop, hold a stall and no
    warm-up.

    A warm-up begins with the run. Where the first tenth of that part is already at the level of what would be
    kept, the server had settled; values ten times above that level are then its own behaviour, and dropping
    them would hide it. MSER-5 alone takes any stretch of extreme values in the first half for the initial
    one.
    """
    x = np.asarray(values, dtype=float)
    head = x[: max(int(dropped * limits.STALL_HEAD), limits.MSER_BATCH)]
    if not limits.MSER_BATCH < dropped < len(x):
        return False
    level = float(np.quantile(x[dropped:], limits.STALL_LEVEL))
    return float(np.median(head)) <= level and float(x[:dropped].max()) > limits.STALL_CLEAR * level


def own_cut(groups: Sequence[GroupView], stops: Stops = NO_STOPS) -> Cut:
    """Return a trial's cut from its groups in the uncut window: the latest of theirs. `stops` are the gaps
    that the load's witnesses saw.

    Delays by the generator itself are no warm-up: a cut that would drop them is not made, so that the kept
    window shows them and the generator's harm is judged on them. Otherwise a generator that stood still in
    the first half would be cut away and the trial called valid. A stall of the server is no warm-up either.
    """
    if any(backlog_grows(group) for group in groups):
        return Cut(0, False, "the backlog grows, so there is no steady state to wait for")
    cuts = [_group_cut(group) for group in groups if group.window.size and group.shape == "constant"]
    if not cuts:
        return Cut(0, False, _uncut(groups))
    latest = max(cuts, key=lambda cut: (cut.cut_ns, cut.at_half))
    dropped = _no_warm_up(groups, stops, latest) if latest.method == MSER else ""
    return (
        Cut(0, False, f"what MSER-5 would drop is {dropped}: nothing is cut", latest.group)
        if dropped
        else latest
    )


def _no_warm_up(groups: Sequence[GroupView], stops: Stops, cut: Cut) -> str:
    """Return a description of what a cut would drop if that is no warm-up; "" if it is."""
    if is_own_doing(groups, stops, cut.cut_ns):
        return "the generator's own delay"
    offset_ns, response_ns = response_series(next(group for group in groups if group.name == cut.group))
    stalled = is_stall(response_ns, int(np.count_nonzero(offset_ns < cut.cut_ns)))
    return "a stall after a settled start" if stalled else ""


def _uncut(groups: Sequence[GroupView]) -> str:
    """Return why nothing is cut where no group seeks a steady state (docs/method.md §1: ramping executors are
    shown over time only)."""
    shapes = {group.shape for group in groups}
    tables = {
        "ramping": "load in stages is shown over time",
        "finite": "a fixed amount of work is measured completely",
    }
    return (
        " and ".join(tables[shape] for shape in ("ramping", "finite") if shape in shapes)
        or "there is nothing to cut"
    )


def backlog_growth(group: GroupView) -> tuple[float, float]:
    """Return (due − completed) over due, in the window and in its second half; 0 where nothing was due.
    Dropped arrivals count as not completed."""
    cells = group.intervals
    unserved = cells["due"] - cells["completed_ok"] - cells["completed_failed"]
    half = group.window.size // 2
    due, late_due = int(cells["due"].sum()), int(cells["due"][half:].sum())
    return (
        float(unserved.sum()) / due if due else 0.0,
        float(unserved[half:].sum()) / late_due if late_due else 0.0,
    )


def backlog_grows(group: GroupView) -> bool:
    """Return whether an open loop's backlog grew by more than 5 % of what was due: overload (docs/method.md
    §3), which has no steady state.

    It must still grow in the second half: a load that starts in the window first fills the pipe.
    """
    return not group.closed and min(backlog_growth(group)) > limits.BACKLOG


def _group_cut(group: GroupView) -> Cut:
    completed = int((group.intervals["completed_ok"] + group.intervals["completed_failed"]).sum())
    if min(completed, group.window.size) < limits.MSER_OBSERVATIONS:
        return _first_cycle(group)
    offset_ns, response = response_series(group)
    dropped, late_response = mser5(response)
    interval_ns = group.window.interval_ns
    response_ns = int(offset_ns[dropped]) if dropped else 0
    dropped, late_throughput = mser5(throughput_series(group))
    half_ns = int(group.window.size * interval_ns * limits.CUT_AT_MOST)
    cut_ns = min(max(response_ns, dropped * interval_ns), half_ns)
    at_half = late_response or late_throughput
    return Cut(half_ns if at_half else cut_ns, at_half, MSER, group.name)


def response_series(group: GroupView) -> tuple[Floats, Floats]:
    """Return (offset in ns, response in ns): means by due interval, or single requests where an interval has
    few."""
    done = group.intervals["ok"] + group.intervals["failed"]
    if group.rows is not None and len(group.rows) < _FEW_PER_INTERVAL * group.window.size:
        finished = group.rows["done_ns"] >= 0
        offset = group.rows["due_ns"][finished] - group.window.low_ns
        return offset.astype(float), group.rows["response_ns"][finished].astype(float)
    at = np.flatnonzero(done)
    response: Floats = group.intervals["response_sum_ns"][at].astype(float) / done[at]
    return at.astype(float) * float(group.window.interval_ns), response


def throughput_series(group: GroupView) -> Floats:
    return (group.intervals["completed_ok"] + group.intervals["completed_failed"]).astype(float)


def _first_cycle(group: GroupView) -> Cut:
    """Cut by cycles where there are too few observations for MSER-5: the first cycle of the users (closed
    loop), nothing of an open loop.

    The cycle is the median over users of the time between their first two due times in the window; a user
    without a second one counts as one with a cycle longer than the window. The users' starts are spread, so
    the last start is added.
    """
    few = f"fewer than {limits.MSER_OBSERVATIONS} observations"
    rows = group.rows
    if not group.closed or rows is None or not len(rows):
        return Cut(0, False, f"{few}: nothing is cut", group.name)
    order = np.lexsort((rows["due_ns"], rows["vu"]))
    vu, due = rows["vu"][order], rows["due_ns"][order]
    first = np.flatnonzero(np.concatenate([[True], vu[1:] != vu[:-1]]))
    has_second = np.concatenate([vu[1:] == vu[:-1], [False]])[first]
    second = np.where(has_second, due[np.minimum(first + 1, len(due) - 1)], np.iinfo(np.int64).max // 2)
    length_ns = group.window.high_ns - group.window.low_ns
    cycle_ns = float(np.median(second - due[first]))
    started = rows["seq"] == 0
    last_start_ns = int(rows["due_ns"][started].max()) - group.window.low_ns if started.any() else 0
    cut_ns = last_start_ns + cycle_ns
    at_half = cut_ns >= length_ns * limits.CUT_AT_MOST
    capped = int(length_ns * limits.CUT_AT_MOST) if at_half else int(cut_ns)
    return Cut(capped, bool(at_half), f"{few}: the first cycle of each user is cut", group.name)


def settled_ns(cuts: Sequence[Cut], window_ns: int) -> int | None:
    """Return when a case has settled: the median of its replicates' own cuts, so that more replicates do not
    cut more of each. None: not in the first half."""
    half_ns = int(window_ns * limits.CUT_AT_MOST)
    middle = median([half_ns if cut.at_half else min(cut.cut_ns, half_ns - 1) for cut in cuts])
    return None if middle >= half_ns else int(middle)


def case_cut(cuts: Sequence[Cut], window_ns: int, matched_ns: int = 0) -> list[CaseCut]:
    """Return one cut for all replicates of a case, and the grade of each (docs/method.md §1, in the order
    given).

    It is that of the slowest of the cases that it is compared with (`matched_ns`), so that all have the same
    window. A case that has not settled in its first half is too short (REFUSED); a single such trial is WEAK:
    MSER-5 cuts steady but correlated series there by chance.
    """
    own_ns = settled_ns(cuts, window_ns)
    common_ns = max(int(window_ns * limits.CUT_AT_MOST) if own_ns is None else own_ns, matched_ns)
    too_short = own_ns is None and not (len(cuts) == 1 and cuts[0].method == MSER)
    return [_case_cut(cut, common_ns, window_ns, too_short, len(cuts)) for cut in cuts]


def _case_cut(cut: Cut, common_ns: int, window_ns: int, too_short: bool, replicates: int) -> CaseCut:
    shown = f"{show_duration(common_ns / 1e9)} of {show_duration(window_ns / 1e9)}"
    if too_short:
        whose = "most replicates have" if replicates > 1 else "the trial has"
        sentence = (
            f"Too short: {whose} not settled in the first half of {show_duration(window_ns / 1e9)} "
            f"({cut.method})."
        )
        return CaseCut(common_ns, "REFUSED", sentence)
    if cut.at_half:
        sentence = (
            f"By its own series ({cut.group}) this trial had not settled in its first half; the case's "
            f"cut is {shown} ({cut.method})."
            if replicates > 1
            else f"{cut.group} had not settled in its first half ({cut.method}): {shown} are left out."
        )
        return CaseCut(common_ns, "WEAK", sentence)
    return CaseCut(common_ns, "VALID", f"Warm-up cut: {shown} ({cut.method}).")


@dataclass(frozen=True)
class Drift:
    """The slope over the whole window relative to the median; its 95 % interval where the slope is large
    enough to matter."""

    relative: float
    interval: tuple[float, float] | None = None

    @property
    def unsteady(self) -> bool:
        """docs/method.md §1: more than 10 % of the median, and the interval excludes 0."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)


@lru_cache(maxsize=64)
def _pairs(points: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    first, second = np.triu_indices(points, 1)
    return first, second, second - first


def theil_sen(values: Floats) -> Floats:
    """Return the median of all pairwise slopes (per step) of each row of `values` (series × points)."""
    rows = np.atleast_2d(values)
    first, second, apart = _pairs(rows.shape[1])
    slopes = (rows[:, second] - rows[:, first]) / apart
    return np.asarray(np.median(slopes, axis=1))


def drift(values: ArrayLike, tail: float = limits.TAIL) -> Drift | None:
    """Return the drift of evenly spaced values: Theil–Sen on at most 30 means, interval by a seeded
    moving-block bootstrap of its residuals.

    `tail` lies on either side of the interval. None for fewer than 8 values or a median of 0.
    """
    x = np.asarray(values, dtype=float)
    bins = min(_BINS, len(x))
    if bins < _LEAST_BINS:
        return None
    y = bin_means(x, bins)
    middle = float(np.median(y))
    if middle <= 0:
        return None
    slope = float(theil_sen(y)[0])
    relative = slope * bins / middle
    if abs(relative) <= limits.DRIFT:
        return Drift(relative)
    line = slope * np.arange(bins)
    residuals = y - line - np.median(y - line)
    slopes = theil_sen(line + resampled_blocks(residuals, _RESAMPLES))
    stretch = _small_sample(bins, tail) * _beyond_blocks(y)
    low, high = slope + stretch * (np.quantile(slopes, [limits.TAIL, 1 - limits.TAIL]) - slope)
    return Drift(relative, (float(low) * bins / middle, float(high) * bins / middle))


def _small_sample(points: int, tail: float) -> float:
    """Return the factor that widens a 95 % bootstrap interval from few blocks: t over normal with blocks − 2
    degrees, and residuals of a fitted line are too small.

    Without it the interval of white noise misses 0 in 14 % of cases at 30 points instead of 5 %.
    """
    freedom = points / block_length(points) - 2
    return float(t_reach(freedom, tail) / ndtri(1 - limits.TAIL)) * sqrt(points / (points - 2))


def _beyond_blocks(y: Floats) -> float:
    """Return the factor for the correlation that blocks cut through: the standard deviation of an AR(1)'s
    mean over what blocks of it show.

    Its coefficient is the lag-1 correlation around a parabola, so that a curved drift is not taken for
    correlation; the parabola's three coefficients lower it by about (3 + 5ρ)/n (Kendall 1954), which is added
    back. Without it a steady series with ρ = 0.9 from one observation to the next drifts "surely" in 24 % of
    cases at 100 observations, with it in 10 %; all warm-ups of 30 % and more with ρ ≤ 0.5 are still found at
    100.
    """
    points = len(y)
    at = np.linspace(-1, 1, points)
    residuals = y - np.polyval(np.polyfit(at, y, 2), at)
    power = float((residuals**2).sum())
    if power <= 0:
        return 1.0
    rho = float((residuals[1:] * residuals[:-1]).sum()) / power
    rho = min(max(rho + (3 + 5 * max(rho, 0.0)) / points, 0.0), _MOST_RHO)
    lags = np.arange(1, block_length(points))
    seen = 1 + 2 * float(((1 - lags / block_length(points)) * rho**lags).sum())
    return sqrt((1 + rho) / (1 - rho) / seen)
