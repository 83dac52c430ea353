"""The offset of another machine's clock from this one's, with the bound that the timestamps prove. Pure.

A message takes no negative time: an exchange that left at s and returned at b (here), and was received at r
and answered at a (there), proves that the offset is at most r − s and at least a − b (Cristian 1989; Marzullo
& Owicki 1983 for the intersection of many). Nothing is assumed about the symmetry of the two directions, so
the bound holds on asymmetric links too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_DRIFT = 500e-6
"""The maximum drift between two clocks, s/s: the maximum rate at which NTP's discipline slews a clock."""
WIDEST_NS = 1_000_000
"""With a larger bound of the offset, one-way times are refused (docs/method.md §3, clock)."""


@dataclass(frozen=True)
class Exchange:
    """One ping-pong: `sent_ns` and `back_ns` by this clock, `received_ns`, `answered_ns` by the other."""

    sent_ns: int
    received_ns: int
    answered_ns: int
    back_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Return the time in transit, there and back."""
        return (self.back_ns - self.sent_ns) - (self.answered_ns - self.received_ns)


@dataclass(frozen=True)
class Offset:
    """The other clock minus this one: `offset_ns` ± `bound_ns` at `at_ns` of this clock; `round_trip_ns` is
    that of the fastest exchange."""

    offset_ns: int
    bound_ns: int
    at_ns: int
    round_trip_ns: int

    def there(self, here_ns: int) -> int:
        """Return the other clock's time when this one reads `here_ns`."""
        return here_ns + self.offset_ns

    def here(self, there_ns: int) -> int:
        """Return this clock's time when the other one reads `there_ns`."""
        return there_ns - self.offset_ns


def estimate(exchanges: Sequence[Exchange], most_drift: float = MOST_DRIFT) -> Offset:
    """Return the offset at the middle of the fastest exchange. Raises ValueError without exchanges, or if no
    offset fits them all.

    The bounds of an exchange are widened by `most_drift` times its distance from that moment.
    """
    if not exchanges:
        raise ValueError("no exchange was made")
    quickest = min(exchanges, key=lambda one: one.round_trip_ns)
    at_ns = (quickest.sent_ns + quickest.back_ns) // 2
    least = most = None
    for one in exchanges:
        apart = round(max(abs(one.sent_ns - at_ns), abs(one.back_ns - at_ns)) * most_drift)
        low, high = one.answered_ns - one.back_ns - apart, one.received_ns - one.sent_ns + apart
        least = low if least is None else max(least, low)
        most = high if most is None else min(most, high)
    assert least is not None
    assert most is not None
    if least > most:
        raise ValueError("no offset fits all exchanges: a clock was set meanwhile")
    return Offset((least + most) // 2, (most - least + 1) // 2, at_ns, quickest.round_trip_ns)


def over(before: Offset, after: Offset) -> Offset:
    """Return one offset for all moments between two: its bound covers both and the change."""
    low = min(before.offset_ns - before.bound_ns, after.offset_ns - after.bound_ns)
    high = max(before.offset_ns + before.bound_ns, after.offset_ns + after.bound_ns)
    return Offset(
        (low + high) // 2,
        (high - low + 1) // 2,
        (before.at_ns + after.at_ns) // 2,
        min(before.round_trip_ns, after.round_trip_ns),
    )
