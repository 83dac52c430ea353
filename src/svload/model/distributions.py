"""Distributions by the quantiles that a study states."""

from __future__ import annotations

from math import exp, log

NORMAL_P99 = 2.3263478740408408
"""The 99 % quantile of the standard normal distribution."""


def lognormal_mean(median: float, p99: float) -> float:
    sigma = log(p99 / median) / NORMAL_P99
    return median * exp(sigma * sigma / 2)
