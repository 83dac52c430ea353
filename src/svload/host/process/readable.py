"""Wait for a descriptor with a bound, whatever its number: select() takes none above 1,023."""

from __future__ import annotations

import select


def readable(descriptor: int, within_s: float) -> bool:
    """Whether there is something to read, or its other end is gone, within this time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(within_s, 0.0) * 1000))
