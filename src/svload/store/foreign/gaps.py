"""Find gaps within a foreign file: a pause of one load, or several runs written one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from svload.store.foreign.bounds import unreadable
from svload.store.foreign.requests import Requests, Users

LEAST_GAP_NS = 60 * 10**9
LEAST_GAP_STARTS = 20
"""A gap is longer than 60 s and than 20 × the median time between two starts."""
_NAMED = 3


def one_run(path: Path, requests: Requests) -> Requests:
    """Return the requests with a note for each pause. Raise SvloadError import-unreadable if they are several
    runs.

    Between two runs users leave or start again; within one run a pause does not change their number.
    """
    starts = np.sort(requests.begun_ns)
    between = np.diff(starts)
    usual = float(np.median(between)) if len(between) else 0.0
    gaps = np.flatnonzero(between > max(LEAST_GAP_NS, LEAST_GAP_STARTS * usual))
    if not len(gaps):
        return requests
    texts = [f"{between[at] / 1e9:.0f} s from {starts[at] / 1e9:.0f} s on" for at in gaps.tolist()]
    edges = [0, *(int(starts[at + 1]) for at in gaps.tolist()), int(starts[-1]) + 1]
    users = requests.users
    again = [
        users is not None
        and _begin_again(users, (edges[place], edges[place + 1], edges[place + 2]), int(starts[at]))
        for place, at in enumerate(gaps.tolist())
    ]
    if any(again):
        where = ", ".join(text for text, apart in zip(texts, again, strict=True) if apart)
        raise unreadable(
            path,
            None,
            f"it holds {1 + sum(again)} runs, one after the other: nothing began for {where}",
            "Cut it into a file for each run and import them as replicates: LEVEL=FILE LEVEL=FILE.",
        )
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    note = f"Nothing began for {', '.join(texts[:_NAMED])}{more}: taken as a pause of the load."
    return replace(requests, notes=(*requests.notes, note))


def _begin_again(users: Users, edges: tuple[int, int, int], last_start_ns: int) -> bool:
    """Return if fewer than half of the users were left at the gap's start, or there at its end."""
    before, gap_end, after = edges
    last = int(users.at_ns.searchsorted(gap_end, side="left")) - 1
    seen_before = users.count[int(users.at_ns.searchsorted(before, side="left")) : last + 1]
    seen_after = users.count[last + 1 : int(users.at_ns.searchsorted(after, side="left"))]
    left_ramp = len(seen_before) > 1 and int(seen_before[-1]) < 0.5 * int(seen_before.max())
    new_ramp = len(seen_after) > 1 and int(seen_after[0]) < 0.5 * int(seen_after.max())
    return bool(left_ramp or new_ramp)
