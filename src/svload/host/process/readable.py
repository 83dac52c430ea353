"""A bounded wait for a descriptor of any number, since select() accepts none above 1,023."""

from __future__ import annotations

import select


def readable(descriptor: int, within_s: float) -> bool:
    """Return whether within this time there is something to read, or the other end is closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(within_s, 0.0) * 1000))
