"""After a load with timed-out requests, servers may still work for users who have gone: they must rest before
the next trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from svload.drive.generators import ShareResult
from svload.model.facts import ServiceFacts
from svload.model.units import show_duration
from svload.watch.proc import ProcessTable, used_between

LOOK_S, BOUND_S = 0.5, 60.0
RESTLESS_S = 5.0
"""The bound after servers have not come to rest within `BOUND_S`: some always poll."""
IDLE_CORES = 0.1
"""Cores that all servers together may use at rest: servers with background work never use none."""
_SAID_FROM_S = 2.0

Say = Callable[[str], None]


def timed_out(results: Iterable[ShareResult]) -> bool:
    """Return whether a server may still be working on a request that the load has given up."""
    return any(
        "timeout" in name and count
        for result in results
        for group in result.summary["groups"]
        for name, count in group["errors"].items()
    )


def roots_of(facts: Mapping[str, ServiceFacts]) -> list[int]:
    """Return the processes of the servers on this machine."""
    return [process.pid for one in facts.values() if not one.machine for process in one.processes]


def wait_for_rest(
    roots: Sequence[int],
    say: Say,
    should_stop: Callable[[], bool],
    bound_s: float = BOUND_S,
    look_s: float = LOOK_S,
) -> bool:
    """Wait at most `bound_s` until these processes and their children use almost no CPU; return whether they
    do.

    Work that only sleeps is not seen.
    """
    begun, table = time.monotonic(), ProcessTable()
    try:
        before, at = table.renew(), begun
        while roots and not should_stop():
            time.sleep(look_s)
            after, now = table.renew(), time.monotonic()
            mine = table.families(roots)
            cores = sum(one.seconds for one in used_between(before, after) if one.pid in mine) / (now - at)
            waited = show_duration(now - begun)
            if cores < IDLE_CORES:
                if now - begun >= _SAID_FROM_S:
                    say(f"requests timed out, and svload waited {waited} until the servers had finished")
                return True
            if now - begun >= bound_s:
                say(
                    f"requests timed out, and after {waited} the servers still use {cores:.2g} cores: "
                    "the next trial begins anyway"
                )
                return False
            before, at = after, now
        return True
    finally:
        table.close()
