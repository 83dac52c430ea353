"""Time stamps as text, as `jmeter.save.saveservice.timestamp_format` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

_FORM = re.compile(
    r"(?P<one>\d{1,4})(?P<sign>[-/.])(?P<two>\d{1,2})(?P=sign)(?P<three>\d{1,4})"
    r"[ T](?P<clock>\d{1,2}:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))? ?(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def _parts(cell: str) -> re.Match[str] | None:
    found = _FORM.fullmatch(cell.strip())
    return found if found and sorted((len(found["one"]), len(found["three"]))) in ([1, 4], [2, 4]) else None


def is_stamp(cell: str, day_first: bool | None = None) -> bool:
    """Return whether it is a date and a time of day; `day_first` as in `unix_ms`, None: either way."""
    found = _parts(cell)
    orders = (False, True) if day_first is None else (day_first,)
    return found is not None and any(_is_moment(found, order) for order in orders)


def _is_moment(parts: re.Match[str], day_first: bool) -> bool:
    try:
        _unix_ms(parts, day_first)
    except ValueError:
        return False
    return True


def has_fraction(cell: str) -> bool:
    """Return whether it has fractions of a second."""
    found = _parts(cell)
    return found is not None and found["fraction"] is not None


def has_zone(cell: str) -> bool:
    """Return whether it names its time zone."""
    found = _parts(cell)
    return found is not None and found["zone"] is not None


def day_first(cells: Iterable[str]) -> bool | None:
    """Return whether the day comes before the month: a number above 12 is the day. None: it can't be told;
    False where the year comes first, too."""
    found = [one for one in map(_parts, cells) if one and len(one["one"]) <= 2]
    if any(int(one["one"]) > 12 for one in found):
        return True
    return None if found and all(int(one["two"]) <= 12 for one in found) else False


def dates_of(cells: Iterable[str]) -> set[str]:
    """Return the different dates of these, each as its first moment, without those that begin with a year."""
    found = [one for one in map(_parts, cells) if one and len(one["one"]) <= 2]
    dates = {f"{one['one']}{one['sign']}{one['two']}{one['sign']}{one['three']} 00:00:00" for one in found}
    return set(filter(is_stamp, dates))


def closer_day_first(dates: Sequence[str]) -> bool | None:
    """Return whether dates that may be read either way lie closer together with the day first; None: equally
    close."""
    apart = [max(at) - min(at) for at in (unix_ms(dates, order) for order in (False, True)) if at]
    return apart[1] < apart[0] if len(set(apart)) == 2 else None


def unix_ms(cells: Sequence[str], day_first: bool | None) -> list[int]:
    """Return the Unix time in ms of each, in UTC if it names no zone. Raise ValueError for anything else.

    `day_first` decides what 3/4/2024 means; None: with points the day is first, else the month.
    """
    found = []
    for cell in cells:
        match = _parts(cell)
        if match is None:
            raise ValueError(f"timeStamp is no time: “{cell[:40]}”")
        found.append(_unix_ms(match, match["sign"] == "." if day_first is None else day_first))
    return found


def _unix_ms(parts: re.Match[str], day_first: bool) -> int:
    one, two, three = parts["one"], parts["two"], parts["three"]
    if len(one) == 4:
        year, month, day = one, two, three
    else:
        year, month, day = (three, two, one) if day_first else (three, one, two)
    zone = (parts["zone"] or "Z").replace("Z", "+00:00")
    at = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{parts['clock']:0>8}{zone}")
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1) + int((parts["fraction"] or "0").ljust(3, "0")[:3])
