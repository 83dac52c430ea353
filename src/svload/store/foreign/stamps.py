"""Time stamps in words, as `jmeter.save.saveservice.timestamp_format` writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

_CLOCK = r"[ T](?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))? ?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_FORMS = tuple(
    re.compile(date + _CLOCK, re.ASCII)
    for date in (
        r"(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})",
        r"(?P<one>\d{1,2})(?P<sign>[-/.])(?P<two>\d{1,2})(?P=sign)(?P<year>\d{4})",
    )
)


def is_stamp(cell: str) -> bool:
    """Whether it is a date and a time of day."""
    return any(form.fullmatch(cell.strip()) for form in _FORMS)


def has_fraction(cell: str) -> bool:
    """Whether it tells parts of a second."""
    return any((found := form.fullmatch(cell.strip())) and found["f"] for form in _FORMS)


def unix_ms(cells: Sequence[str]) -> list[int]:
    """Unix time in ms of each, in UTC where no zone is named. Raises ValueError for one that is no stamp.

    Of 3/4/2024 the file decides: a number above 12 is the day; with points the day is first, else the month.
    """
    found = []
    for cell in cells:
        match = next((match for form in _FORMS if (match := form.fullmatch(cell.strip()))), None)
        if match is None:
            raise ValueError(f"timeStamp is no time: “{cell[:40]}”")
        found.append(match.groupdict())
    pairs = [(int(one["one"]), int(one["two"])) for one in found if "one" in one]
    day_first = any(one > 12 for one, _ in pairs) or (
        any(one["sign"] == "." for one in found) and not any(two > 12 for _, two in pairs)
    )
    return [_unix_ms(one, day_first) for one in found]


def _unix_ms(parts: dict[str, str | None], day_first: bool) -> int:
    first, second = ("day", "month") if day_first else ("month", "day")
    date = {"month": parts.get("month"), "day": parts.get("day")}
    if "one" in parts:
        date = {first: parts["one"], second: parts["two"]}
    year, month, day, hour, minute, second_ = (
        int(str(text))
        for text in (parts["year"], date["month"], date["day"], parts["h"], parts["m"], parts["s"])
    )
    at = datetime(year, month, day, hour, minute, second_, tzinfo=_zone(parts["zone"]))
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1) + int((parts["f"] or "0").ljust(3, "0")[:3])


def _zone(text: str | None) -> timezone:
    if text in (None, "Z"):
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
