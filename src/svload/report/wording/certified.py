"""Certificates in words, for every report on the instrument."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import exp
from typing import Any

from svload.model.certificates import InstrumentCertificate
from svload.model.units import show_duration, show_percent

NO_INSTRUMENT = "none: “svload doctor --certify” measures how far the instrument is off"


def instrument_words(certificate: InstrumentCertificate | dict[str, Any] | None) -> Iterator[str]:
    """Yield what is known of the instrument, one line each: when and where it was measured, and its bias at
    each service time."""
    if certificate is None:
        yield f"instrument certificate: {NO_INSTRUMENT}"
        return
    found = InstrumentCertificate.model_validate(certificate)
    yield f"instrument certificate: {_day(found.made_wall)}, {found.place}"
    for level in found.levels:
        yield (
            f"  at {show_duration(level.service_ns / 1e9)}: p50 {_signed(level.bias_p50_ns)}, p99 "
            f"{_signed(level.bias_p99_ns)} "
            f"from what the server did ({level.n:,} requests)"
        )


def instrument_line(certificate: InstrumentCertificate | None) -> str:
    """Return the same in one line, for tables of facts."""
    if certificate is None:
        return NO_INSTRUMENT
    text = "; ".join(
        f"{show_duration(level.service_ns / 1e9)}: {_signed(level.bias_p50_ns)} at p50, "
        f"{_signed(level.bias_p99_ns)} at p99"
        for level in certificate.levels
    )
    return f"{_day(certificate.made_wall)}, seen less done at a service time of {text}"


def percent_of_log(log_ratio: float) -> str:
    """Return a log ratio as a relative effect in percent."""
    return show_percent(exp(log_ratio) - 1)


def _signed(ns: int) -> str:
    return f"{'+' if ns >= 0 else '−'}{show_duration(abs(ns) / 1e9)}"


def _day(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d")
