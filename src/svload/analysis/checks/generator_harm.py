"""How much of each shown percentile is the generator's own doing: Q(response) over Q(response − generator lag − read lag)."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, percent
from svload.analysis.measures import SHOWN
from svload.analysis.quantiles import Ranked, bucket_middles, least_n_eff, ranked_counts, ranked_values
from svload.analysis.view import GroupView
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


class Harm(NamedTuple):
    """One figure: `share` is Q over Q′ less one; what it is of; the two values in ns."""

    share: float
    what: str
    with_ns: float
    without_ns: float


class GeneratorHarm(Check):
    """WEAK above 5 %, REFUSED above 20 %, for each percentile that is shown, and, where no p99 is, for the mean by generator lag alone.

    Generator lag is known of every request; a generator that stood still leaves few independent ones, and so no p99. Read lag is sampled (one read in 64): with it harm is computed on the sampled requests,
    for percentiles that so many can carry. Where there are histograms alone, which pair nothing, it is computed on the mean, with the
    lower end of the interval of the read lag's: one late read among a few is no mean.
    """

    name = "generator-harm"
    row = "generator's harm"
    order = 20

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The worst figure over groups and percentiles."""
        most = worst_harm(context)
        if most is None:
            return self.result("VALID", "No percentile is shown, so the generator can have harmed none.")
        grade = above(most.share, limits.HARM)
        shown = f"{most.what} is {show_duration(most.with_ns / 1e9)}, {show_duration(max(most.without_ns, 0.0) / 1e9)} without the generator's own delays"
        verdict = (
            f"the generator adds {percent(most.share)} at most to a shown percentile"
            if grade == "VALID"
            else f"the generator adds {percent(most.share)}"
        )
        remedy = "Give the generator a core of its own (or more generators), or ask for less load."
        return self.result(
            grade, f"{shown}: {verdict}.", most.share, limits.HARM[0 if grade != "REFUSED" else 1], remedy
        )


def worst_harm(context: Context) -> Harm | None:
    """The largest figure over groups and percentiles; None where no percentile is shown."""
    found = (harm for group in context.groups for harm in _harms(group, context))
    return max(found, key=lambda harm: harm.share, default=None)


def _harms(group: GroupView, context: Context) -> Iterator[Harm]:
    shown = [stat for stat in SHOWN if _is_shown(context, group, stat)]
    if group.rows is None:
        pairs = (
            ranked_counts(group.histogram("response"), group.due),
            ranked_counts(group.histogram("response_without_lag"), group.due),
        )
        yield from _of_percentiles(f"{group.name}.response", shown, *pairs)
        yield from _of_mean_histograms(group)
        if _judges_mean(context, group) and group.histogram("response").any():
            mean_ns = _mean(group.histogram("response"))
            yield _harm(_mean_of(group), mean_ns, mean_ns - _mean(group.histogram("generator_lag")))
        return
    rows = group.rows
    ok = rows["ok"]
    response, clean = rows["response_ns"][ok], (rows["response_ns"] - rows["lag_ns"])[ok]
    yield from _of_percentiles(
        f"{group.name}.response", shown, ranked_values(response, group.due), ranked_values(clean, group.due)
    )
    if _judges_mean(context, group) and len(response):
        yield _harm(_mean_of(group), float(response.mean()), float(clean.mean()))
    read_lag = rows["read_lag_ns"][ok]
    sampled = read_lag >= 0
    yield from _of_sample(group, shown, response[sampled], clean[sampled] - read_lag[sampled])


def _is_shown(context: Context, group: GroupView, stat: str) -> bool:
    estimate = context.metrics.get(f"{group.name}.response.{stat}")
    return estimate is not None and estimate.value is not None


def _judges_mean(context: Context, group: GroupView) -> bool:
    """Whether no p99 tells of a generator that stood still, as it makes all that came late alike."""
    return _is_shown(context, group, "mean") and not _is_shown(context, group, "p99")


def _of_percentiles(
    what: str, stats: list[str], response: Ranked, clean: Ranked, among: str = ""
) -> Iterator[Harm]:
    for stat in stats:
        p = float(stat[1:]) / 100
        with_ns, without_ns = response.quantile(p), clean.quantile(p)
        if with_ns is not None and without_ns is not None:
            yield _harm(f"{what}.{stat}{among}", with_ns, without_ns)


def _of_sample(
    group: GroupView, shown: list[str], response: NDArray[np.generic], clean: NDArray[np.generic]
) -> Iterator[Harm]:
    among = f" of the {len(response)} requests with a read stamp"
    carried = [stat for stat in shown if len(response) >= least_n_eff(float(stat[1:]) / 100)]
    if carried:
        yield from _of_percentiles(
            f"{group.name}.response", carried, ranked_values(response), ranked_values(clean), among
        )


def _of_mean_histograms(group: GroupView) -> Iterator[Harm]:
    """Harm on the mean: E(response − lag − read lag) needs the margins alone."""
    response, lag, read_lag = (group.histogram(name) for name in ("response", "generator_lag", "read_lag"))
    if min(response.sum(), read_lag.sum()) >= limits.LEAST_READ_LAGS:
        with_ns = _mean(response)
        without_ns = with_ns - _mean(lag) - _least_mean(read_lag)
        yield _harm(_mean_of(group), with_ns, without_ns)


def _mean_of(group: GroupView) -> str:
    return f"the mean {group.name}.response"


def _mean(counts: NDArray[np.int64]) -> float:
    filled = np.flatnonzero(counts)
    return float(np.average(bucket_middles(filled), weights=counts[filled])) if len(filled) else 0.0


def _least_mean(counts: NDArray[np.int64]) -> float:
    """The lower end of the mean's 95 % interval (normal, `TAIL` below it), at least 0."""
    filled = np.flatnonzero(counts)
    values, weights = bucket_middles(filled), counts[filled]
    mean = float(np.average(values, weights=weights))
    variance = float(np.average((values - mean) ** 2, weights=weights))
    return max(mean + float(ndtri(limits.TAIL)) * sqrt(variance / float(weights.sum())), 0.0)


def _harm(what: str, with_ns: float, without_ns: float) -> Harm:
    share = with_ns / without_ns - 1 if without_ns > 0 else (0.0 if with_ns <= 0 else float("inf"))
    return Harm(share, what, with_ns, without_ns)
