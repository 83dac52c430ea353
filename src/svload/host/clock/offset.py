"""How far another machine's clock stands from this one's, with the bound that the stamps prove. Pure.

A message takes no negative time: an exchange that left at s and was back at b (here), and was received at r
and answered at a (there), puts the offset r − s at most and a − b at least (Cristian 1989; Marzullo & Owicki
1983 for the intersection of many). Nothing is assumed of how the way there compares with the way back, so the
bound holds on lopsided links too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_DRIFT = 500e-6
"""How fast two clocks may run apart, s/s: the most that NTP's discipline slews a clock by."""
WIDEST_NS = 1_000_000
"""An offset known no better than this refuses what is timed one way (docs/method.md §3, clock)."""


@dataclass(frozen=True)
class Exchange:
    """One ping-pong: `sent_ns` and `back_ns` by this machine's clock, `received_ns`
    and `answered_ns` by the other's."""

    sent_ns: int
    received_ns: int
    answered_ns: int
    back_ns: int

    @property
    def round_trip_ns(self) -> int:
        """The time under way, there and back."""
        return (self.back_ns - self.sent_ns) - (self.answered_ns - self.received_ns)


@dataclass(frozen=True)
class Offset:
    """The other clock minus this one: `offset_ns` ± `bound_ns` at `at_ns` of this clock;
    `round_trip_ns` of the quickest exchange."""

    offset_ns: int
    bound_ns: int
    at_ns: int
    round_trip_ns: int

    @property
    def is_close(self) -> bool:
        """Whether times one way may rest on it."""
        return self.bound_ns <= WIDEST_NS

    def there(self, here_ns: int) -> int:
        """What the other clock reads when this one reads `here_ns`."""
        return here_ns + self.offset_ns

    def here(self, there_ns: int) -> int:
        """What this clock reads when the other one reads `there_ns`."""
        return there_ns - self.offset_ns


def estimate(exchanges: Sequence[Exchange], most_drift: float = MOST_DRIFT) -> Offset:
    """The offset at the middle of the quickest exchange. Raises ValueError where there is none, or
    where no offset fits them all.

    What an exchange says counts less the farther it lies from that moment: by `most_drift` of the distance.
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
    """One offset for all moments between two estimates: the bound holds both and the way from one to the other."""
    low = min(before.offset_ns - before.bound_ns, after.offset_ns - after.bound_ns)
    high = max(before.offset_ns + before.bound_ns, after.offset_ns + after.bound_ns)
    return Offset(
        (low + high) // 2,
        (high - low + 1) // 2,
        (before.at_ns + after.at_ns) // 2,
        min(before.round_trip_ns, after.round_trip_ns),
    )
