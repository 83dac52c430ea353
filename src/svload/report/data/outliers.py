"""Moments and trials that differ from the rest of their case, with what the servers did then. Needs numpy:
import late.

Robust distances: from the median, in units of 1.4826 × the median absolute deviation, which for a normal
population is its standard deviation (Iglewicz & Hoaglin, *How to Detect and Handle Outliers*, 1993, take 3.5
as the limit for single values). Outliers are named, not removed: every number includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svload.report.data.digest import SlowRequest, TrialDigest
from svload.report.data.resources import Resource, Series

MOMENTS = 5
TRIAL_LIMIT, MOMENT_LIMIT = 3.5, 5.0
_LEAST_TRIALS, _LEAST_RATIO, _LEAST_MOMENT_RATIO, _LEAST_RESOURCE_CHANGE = 4, 1.1, 2.0, 0.2
_NAMED_RESOURCES = 4
_RARE = 0.1
_FAILURES_FIRST = 10.0
_SIGMA_OF_MAD = 1.4826


@dataclass(frozen=True)
class Unusual:
    """A resource that differs from its usual values in this case."""

    resource: Resource
    value: float
    usual: float


@dataclass(frozen=True)
class Outlier:
    """One trial, or one moment of it (`at_s`), that is an outlier: `value_s` compared with the case's
    `usual_s`.

    `failures` are requests that failed in a moment of a case with hardly any failures; then the two times are
    0. `watched` is the number of resources examined, `unusual` those that differed from their usual values.
    """

    trial: str
    group: str
    at_s: tuple[float, float] | None
    value_s: float
    usual_s: float
    failures: float
    unusual: tuple[Unusual, ...]
    watched: int
    slow: SlowRequest | None


def outliers(digests: Sequence[TrialDigest], medians_s: dict[str, float], group: str) -> list[Outlier]:
    """Return the outliers of one case: trials with an outlying median response of `group`, then the `MOMENTS`
    most extreme moments of any group."""
    return [*_trials(digests, medians_s, group), *_moments(digests)]


def _trials(digests: Sequence[TrialDigest], medians_s: dict[str, float], group: str) -> Iterator[Outlier]:
    known = [one for one in digests if medians_s.get(one.name, 0.0) > 0]
    if len(known) < _LEAST_TRIALS:
        return
    values = np.log([medians_s[one.name] for one in known])
    middle, sigma = _robust(values)
    for one, value in zip(known, values.tolist(), strict=True):
        if abs(value - middle) > max(TRIAL_LIMIT * sigma, log(_LEAST_RATIO)):
            yield Outlier(
                trial=one.name,
                group=group,
                at_s=None,
                value_s=exp(value),
                usual_s=exp(middle),
                failures=0.0,
                unusual=_unusual_means(one, known),
                watched=len(one.resources),
                slow=None,
            )


class _Usual(NamedTuple):
    """A resource's usual value in a case's kept windows: median, 1.4826 × median absolute deviation."""

    middle: float
    sigma: float


class _Moment(NamedTuple):
    """An outlying bin: its distance, its place, and the usual slowest response (0 for failures)."""

    extremity: float
    trial: TrialDigest
    group: str
    at: int
    usual_s: float


def _moments(digests: Sequence[TrialDigest]) -> list[Outlier]:
    names = list(dict.fromkeys(name for one in digests for name in one.groups))
    found = [
        one for name in names for one in (*_slow_moments(digests, name), *_failing_moments(digests, name))
    ]
    found.sort(key=lambda moment: -moment.extremity)

    @cache
    def usual(resource: Resource) -> _Usual | None:
        return _usual(digests, resource)

    return [_outlier(moment, usual) for moment in found[:MOMENTS]]


def _slow_moments(digests: Sequence[TrialDigest], group: str) -> Iterator[_Moment]:
    """Yield bins whose slowest ok response is far above the case's usual one."""
    pooled = np.concatenate([_kept(one, _series(one, group, "slowest")) for one in digests] or [np.zeros(0)])
    pooled = np.log(pooled[pooled > 0])
    if len(pooled) < _LEAST_TRIALS:
        return
    middle, sigma = _robust(pooled)
    limit = max(MOMENT_LIMIT * sigma, log(_LEAST_MOMENT_RATIO))
    for one in digests:
        series = _series(one, group, "slowest")
        for at in np.flatnonzero(_inside(one, series) & (series.values > exp(middle + limit))).tolist():
            yield _Moment((log(series.values[at]) - middle) / limit, one, group, at, exp(middle))


def _failing_moments(digests: Sequence[TrialDigest], group: str) -> Iterator[_Moment]:
    """Yield bins with failures, if fewer than a tenth of the case's bins have any."""
    pooled = np.concatenate([_kept(one, _series(one, group, "failures")) for one in digests] or [np.zeros(0)])
    if not len(pooled) or not 0 < float((pooled > 0).mean()) < _RARE:
        return
    for one in digests:
        series = _series(one, group, "failures")
        for at in np.flatnonzero(_inside(one, series) & (series.values > 0)).tolist():
            yield _Moment(_FAILURES_FIRST + float(series.values[at]), one, group, at, 0.0)


def _outlier(moment: _Moment, usual: Callable[[Resource], _Usual | None]) -> Outlier:
    _, trial, group, at, usual_s = moment
    series = _series(trial, group, "slowest")
    half = (series.at_s[1] - series.at_s[0]) / 2 if len(series.at_s) > 1 else trial.end_s / 2
    # The last bin is cut where the load ends; its rate is over what is left of it.
    span = (float(series.at_s[at] - half), min(float(series.at_s[at] + half), trial.end_s))
    failures = _series(trial, group, "failures").values[at] * (span[1] - span[0]) if usual_s == 0 else 0.0
    slow = (one for one in trial.groups[group].slow if span[0] <= one.due_s < span[1])
    return Outlier(
        trial=trial.name,
        group=group,
        at_s=span,
        value_s=float(series.values[at]) if usual_s > 0 else 0.0,
        usual_s=usual_s,
        failures=float(failures),
        unusual=_unusual_then(trial, usual, span),
        watched=len(trial.resources),
        slow=next(slow, None),
    )


def _usual(digests: Sequence[TrialDigest], resource: Resource) -> _Usual | None:
    """Return the usual values of a resource; None if there are too few readings."""
    pooled = np.concatenate(
        [_kept(one, one.resources[resource]) for one in digests if resource in one.resources]
    )
    return _robust(pooled) if len(pooled) >= _LEAST_TRIALS else None


def _unusual_then(
    trial: TrialDigest, usual: Callable[[Resource], _Usual | None], span: tuple[float, float]
) -> tuple[Unusual, ...]:
    """Return the resources whose value in or near the moment differs from the case's kept windows."""
    found = []
    for resource, series in trial.resources.items():
        known = usual(resource)
        if known is None:
            continue
        during = series.values[(series.at_s >= span[0]) & (series.at_s <= span[1])]
        if not len(during):
            during = series.values[[int(np.argmin(np.abs(series.at_s - (span[0] + span[1]) / 2)))]]
        found.append((resource, during, known))
    return _most_unusual(found)


def _unusual_means(trial: TrialDigest, digests: Sequence[TrialDigest]) -> tuple[Unusual, ...]:
    """Return the resources whose mean over the kept window differs from the other trials' means."""
    found = []
    for resource, series in trial.resources.items():
        means = [
            float(kept.mean())
            for one in digests
            if resource in one.resources and len(kept := _kept(one, one.resources[resource]))
        ]
        own = _kept(trial, series)
        if len(own) and len(means) >= _LEAST_TRIALS:
            found.append((resource, np.array([own.mean()]), _robust(np.array(means))))
    return _most_unusual(found)


def _most_unusual(found: Sequence[tuple[Resource, NDArray[np.float64], _Usual]]) -> tuple[Unusual, ...]:
    ranked = []
    for resource, values, (middle, sigma) in found:
        least = max(MOMENT_LIMIT * sigma, _LEAST_RESOURCE_CHANGE * abs(middle), 1e-9)
        value = float(values[int(np.argmax(np.abs(values - middle)))])
        if abs(value - middle) > least:
            ranked.append((-abs(value - middle) / least, Unusual(resource, value, middle)))
    ranked.sort(key=lambda pair: pair[0])
    return tuple(one for _, one in ranked[:_NAMED_RESOURCES])


def _robust(values: NDArray[np.float64]) -> _Usual:
    middle = float(np.median(values))
    return _Usual(middle, _SIGMA_OF_MAD * float(np.median(np.abs(values - middle))))


def _series(trial: TrialDigest, group: str, name: str) -> Series:
    return trial.groups[group].series[name] if group in trial.groups else Series(np.zeros(0), np.zeros(0))


def _inside(trial: TrialDigest, series: Series) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (series.at_s >= trial.kept_s[0]) & (series.at_s <= trial.kept_s[1])
    return inside


def _kept(trial: TrialDigest, series: Series) -> NDArray[np.float64]:
    values = series.values[_inside(trial, series)]
    return values[np.isfinite(values)]
