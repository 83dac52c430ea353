"""Quantities with units, as people write them: `2 ms`, `1 GiB`, `99 %`, `500/s`. One table for the whole project."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

Dimension = Literal["time_s", "size_bytes", "ratio", "rate_rps", "count"]

_UNITS: dict[str, tuple[Dimension, float]] = {
    "ns": ("time_s", 1e-9),
    "us": ("time_s", 1e-6),
    "µs": ("time_s", 1e-6),
    "ms": ("time_s", 1e-3),
    "s": ("time_s", 1.0),
    "m": ("time_s", 60.0),
    "min": ("time_s", 60.0),
    "h": ("time_s", 3600.0),
    "d": ("time_s", 86400.0),
    "B": ("size_bytes", 1.0),
    "kB": ("size_bytes", 1e3),
    "MB": ("size_bytes", 1e6),
    "GB": ("size_bytes", 1e9),
    "TB": ("size_bytes", 1e12),
    "KiB": ("size_bytes", 1024.0),
    "MiB": ("size_bytes", 1024.0**2),
    "GiB": ("size_bytes", 1024.0**3),
    "TiB": ("size_bytes", 1024.0**4),
    "%": ("ratio", 0.01),
    "/s": ("rate_rps", 1.0),
    "rps": ("rate_rps", 1.0),
    "/min": ("rate_rps", 1 / 60),
}
_MEANT = {
    "kB KiB": "k kb kbyte kbytes",
    "MB MiB": "m mb mbyte mbytes",
    "GB GiB": "g gb gbyte gbytes",
    "TB TiB": "t tb",
    "KiB": "ki kib",
    "MiB": "mi mib",
    "GiB": "gi gib",
    "TiB": "ti tib",
    "B": "b byte bytes",
    "us": "us μs usec microseconds",
    "ms": "ms msec msecs millis milliseconds",
    "s": "s sec secs second seconds",
    "min": "m mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "/s": "/sec req/s requests/s r/s qps tps rps",
    "/min": "/m req/min requests/min rpm",
}
"""Units, the likeliest first → other spellings that may mean them, in lower case."""
_FINEST = 1e9
"""Times are counted in ns: a number that overflows in ns is not accepted."""
_QUANTITY = re.compile(r"^\s*([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([^\d\s].*?)?\s*$")
_MARKED = re.compile(r"^\s*[-+]?[0-9]+(?:[,_'’][0-9]+)+")
"""A number with a character that some read as a decimal point and others as a thousands separator."""


class Misread(ValueError):
    """A quantity that is refused although its likely readings are known. Its text names both."""

    def __init__(self, reason: str, readings: Sequence[str]) -> None:
        super().__init__(reason, readings)
        self.reason, self.readings = reason, readings
        self.meant = " or ".join(f"“{reading}”" for reading in readings)

    def __str__(self) -> str:
        return f"{self.reason}: write {self.meant}"


def parse_quantity(text: str | float | int, dimension: Dimension) -> float:
    """Return the number in base units (s, bytes, ratio, 1/s, count) that `text` states.

    A number without a unit is accepted in base units for counts and ratios only; a time or size needs its
    unit. Raises ValueError with the valid units for anything else.
    """
    if isinstance(text, bool):
        raise ValueError("expected a quantity, not a truth value")
    if isinstance(text, (int, float)):
        if not math.isfinite(text * _FINEST):
            raise ValueError(f"{text} is not a usable number")
        if dimension in ("count", "ratio", "rate_rps") or text == 0:
            return float(text)
        raise ValueError(f"a unit is missing ({', '.join(units_of(dimension))})")
    if not isinstance(text, str):
        raise ValueError("expected a quantity, such as 200 ms or 1 GiB")
    refuse_marks(text)
    match = _QUANTITY.match(text)
    if not match:
        raise ValueError(f"“{text}” is not a number with a unit ({', '.join(units_of(dimension)) or 'none'})")
    value = float(match[1])
    if not math.isfinite(value * _FINEST * (_UNITS[match[2]][1] if match[2] in _UNITS else 1.0)):
        raise ValueError(f"“{text}” is not a usable number")
    unit = match[2]
    if unit is None:
        return parse_quantity(value, dimension)
    if unit not in _UNITS or _UNITS[unit][0] != dimension:
        raise _no_unit(text, unit, dimension)
    scale = _UNITS[unit][1]
    # Digits beyond 15 are rounding: 0.7 · 0.01 is below 0.007, and 7 of 1,000 would be above 0.7 %.
    return value * scale if scale >= 1 else float(f"{value * scale:.15g}")


def _no_unit(text: str, unit: str, dimension: Dimension) -> ValueError:
    """Return why `text` is refused, which ends in `unit`, with what was probably meant or the valid units."""
    reason = f"the unit “{unit}” does not fit here"
    number = text.strip().removesuffix(unit)
    for units, spellings in _MEANT.items():
        meant = units.split()
        if _UNITS[meant[0]][0] == dimension and unit.lower() in spellings.split():
            return Misread(reason, [(number.rstrip() if one[0] == "/" else number) + one for one in meant])
    return ValueError(f"{reason} ({', '.join(units_of(dimension)) or 'none'})")


def refuse_marks(text: str) -> None:
    """Raise Misread if `text` begins with a number that contains a separator other than a point."""
    if marked := _MARKED.match(text):
        raise _ambiguous(text, marked[0].strip())


def _ambiguous(text: str, number: str) -> Misread:
    """Return why `text`, which begins with `number`, is refused, with both possible meanings."""
    whole = re.sub(r"[,_'’]", "", number)
    point = re.sub(r"[,_'’]", ".", number)
    rest = text.strip()[len(number) :]
    readings = [
        *([point] if point.count(".") == 1 and not rest.startswith(".") else []),
        *([] if whole.lstrip("+-").startswith("0") else [whole]),
    ]
    reason = f"“{text}” has a “,”, “_” or “'” in its number"
    return Misread(reason, [f"{reading}{rest}" for reading in readings or [whole]])


def written_dimension(text: str) -> Dimension | None:
    """Return the dimension of a quantity's unit; None without a unit, or if it is no quantity."""
    match = _QUANTITY.match(text)
    return _UNITS[match[2]][0] if match and match[2] in _UNITS else None


def units_of(dimension: Dimension) -> list[str]:
    """Return the spellings of `dimension`, smallest unit first."""
    return [unit for unit, (known, _) in _UNITS.items() if known == dimension]


def duration_ns(text: str | float | int) -> int:
    """Return a duration as whole nanoseconds; raises ValueError."""
    return round(parse_quantity(text, "time_s") * 1e9)


def size_bytes(text: str | float | int) -> int:
    """Return a size as whole bytes; an integer without a unit is bytes. Raises ValueError."""
    return (
        int(text)
        if isinstance(text, int) and not isinstance(text, bool)
        else round(parse_quantity(text, "size_bytes"))
    )


def bytes_per_s(text: str | float | int) -> int:
    """Return a data rate, from bytes or bits, as whole bytes per second: `20 MB/s`, `10 Mbit/s`. Raises
    ValueError."""
    reason = "write a rate of data, such as 20 MB/s or 10 Mbit/s"
    if not isinstance(text, str) or not text.strip().endswith("/s"):
        raise ValueError(reason)
    amount = text.strip().removesuffix("/s").strip()
    of_bits = amount.endswith("bit")
    try:
        found = size_bytes(amount.removesuffix("bit") + "B" if of_bits else amount)
    except Misread as why:
        if of_bits:
            raise ValueError(reason) from why
        raise Misread(why.reason, [f"{reading}/s" for reading in why.readings]) from None
    rate = found // 8 if of_bits else found
    if rate <= 0:
        raise ValueError(reason)
    return rate


def show_rate(rate_bytes_per_s: float) -> str:
    """Return `20 MB/s`, in the units in which data rates are written."""
    for unit in ("GB", "MB", "kB"):
        if rate_bytes_per_s >= _UNITS[unit][1]:
            return f"{three_figures(rate_bytes_per_s / _UNITS[unit][1])} {unit}/s"
    return f"{round(rate_bytes_per_s)} B/s"


def show_duration(seconds: float) -> str:
    """Return `0.4 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`: at most three figures."""
    if seconds < 0:
        return "−" + show_duration(-seconds)
    whole = round(seconds)
    if whole >= 3600:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min"
    if seconds >= 100:
        return f"{whole // 60} min {whole % 60} s"
    for unit, factor in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if round(seconds / factor) < 1000:
            return f"{three_figures(seconds / factor)} {unit}"
    return f"{three_figures(seconds)} s"


def show_level(level: float, is_rate: bool) -> str:
    """Return a level of a load in stages: `50 users`, `300/s`."""
    shown = show_number(level)
    return f"{shown}/s" if is_rate else f"{shown} user{'' if level == 1 else 's'}"


def show_size(size: float) -> str:
    """Return `512 B`, `40 KiB`, `1.2 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size / _UNITS[unit][1]) < 1024:
            return f"{three_figures(size / _UNITS[unit][1]) if unit != 'B' else round(size)} {unit}"
    return f"{three_figures(size / _UNITS['TiB'][1])} TiB"


def three_figures(number: float) -> str:
    """Return `0.123`, `12.3`, `1234`: never with an exponent, which is hard to read before a unit."""
    return f"{number:.0f}" if abs(number) >= 99.95 else show_number(number, 3)


def show_percent(share: float, figures: int = 3) -> str:
    """Return a share in percent with this number of significant figures, no exponent: `12.3 %`, `1,240 %`."""
    return f"{rounded(100 * share, figures)} %"


def show_number(number: float, figures: int = 6) -> str:
    """Return a number with this number of significant figures, or more if its whole part has more: `250.5`,
    `1,234,567`, `0.00005`, with separators and never with an exponent."""
    text, _, exponent = f"{number:,.{figures}g}".partition("e")
    if not exponent:
        return text
    decimals = max(figures - 1 - int(exponent), 0)
    return f"{number:,.{decimals}f}".rstrip("0") if decimals else f"{number:,.0f}"


def rounded(number: float, figures: int) -> str:
    """Return a number rounded to this number of significant figures: `62,000`, as `show_number` shows it."""
    return show_number(float(f"{number:.{figures}g}"), figures)
