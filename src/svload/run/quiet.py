"""Before the first trial: a warning about other users of this machine, or a bounded wait until there are
none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from svload.analysis.quiet import Look, disturbances
from svload.model.units import show_duration

LOOK_S = 1.0
QUIET_LOOKS = 3
"""This many looks in a row must find nothing, so that intermittent activity is waited for too."""
SAY_EVERY_S = 15.0


def warning(look: Look) -> str:
    """Return one sentence about what disturbs the machine now; "" if nothing does."""
    found = disturbances(look)
    if not found:
        return ""
    return (
        f"This machine is busy: {'; '.join(found)}. Results will be less precise or need more trials; "
        f"--wait-quiet 10m waits for a quiet machine first."
    )


def is_quiet(looks: Sequence[Look]) -> bool:
    """Return whether the last few looks found nothing."""
    last = looks[-QUIET_LOOKS:]
    return len(last) == QUIET_LOOKS and not any(disturbances(look) for look in last)


def wait_for_quiet(
    bound_s: float,
    look: Callable[[], Look],
    say: Callable[[str], None],
    should_stop: Callable[[], bool],
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Wait at most `bound_s` until the machine is quiet; `say` gets what is waited for. Return whether it is
    quiet."""
    begun, reported, looks = now(), float("-inf"), list[Look]()
    while not should_stop():
        looks = [*looks[1 - QUIET_LOOKS :], look()]
        waited_s, found = now() - begun, "; ".join(disturbances(looks[-1]))
        if is_quiet(looks):
            say(f"the machine is quiet (waited {show_duration(waited_s)})")
            return True
        if waited_s >= bound_s:
            say(f"the machine was not quiet within {show_duration(bound_s)}; the run starts anyway" + (f": {found}" if found else ""))  # fmt: skip
            return False
        if found and now() - reported >= SAY_EVERY_S:
            reported = now()
            say(
                f"waiting for a quiet machine, {show_duration(waited_s)} of {show_duration(bound_s)}: {found}"
            )
    return False
