"""What is typed after an option, as a value."""

from __future__ import annotations

from svload.model.errors import fail


def seconds(text: str, option: str) -> float:
    """`text` in seconds. Raises SvloadError usage, which names the option."""
    from svload.model.units import parse_quantity

    try:
        return parse_quantity(text, "time_s")
    except ValueError as why:
        raise fail("usage", reason=f"{option} {text}: {why}", hint="Write it like 10s or 2h.") from why
