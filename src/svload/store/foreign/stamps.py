"""Time stamps as text, as `jmeter.save.saveservice.timestamp_format` writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_FORM = re.compile(
    r"(?P<one>\d{1,4})(?P<sign>[-/.])(?P<two>\d{1,2})(?P=sign)(?P<three>\d{1,4})"
    r"[ T](?P<clock>\d{1,2}:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))? ?(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def _parts(cell: str) -> re.Match[str] | None:
    found = _FORM.fullmatch(cell.strip())
    return found if found and sorted((len(found["one"]), len(found["three"]))) in ([1, 4], [2, 4]) else None


def is_stamp(cell: str) -> bool:
    """Return whether it is a date and a time of day."""
    return _parts(cell) is not None


def has_fraction(cell: str) -> bool:
    """Return whether it has fractions of a second."""
    found = _parts(cell)
    return found is not None and found["fraction"] is not None


def unix_ms(cells: Sequence[str]) -> list[int]:
    """Return the Unix time in ms of each, in UTC if it names no zone. Raise ValueError for anything else.

    The file decides what 3/4/2024 means: a number above 12 is the day; with points the day is first, else the
    month.
    """
    found = []
    for cell in cells:
        match = _parts(cell)
        if match is None:
            raise ValueError(f"timeStamp is no time: “{cell[:40]}”")
        found.append(match)
    open_ = [one for one in found if len(one["one"]) <= 2]
    day_first = any(int(one["one"]) > 12 for one in open_) or (
        any(one["sign"] == "." for one in open_) and not any(int(one["two"]) > 12 for one in open_)
    )
    return [_unix_ms(one, day_first) for one in found]


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
