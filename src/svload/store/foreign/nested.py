"""Classify samples that lie within another sample of their thread: parts of a request, or requests of a
transaction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from svload.store.foreign.bounds import shortened
from svload.store.foreign.requests import Ints

MS = 1_000_000
PLAIN, TRANSACTION, UNKNOWN = 0, 1, 2
"""What may hold other samples: a request, whose samples are its parts; a transaction, whose samples are
requests; or either, in a file without the columns that distinguish them."""
_PART = re.compile(r"(?P<whole>.+)-\d+", re.DOTALL)
_KEPT = -1
_MOST_CROSSING = 0.01
"""Share of the rows that may begin within an earlier sample of their thread and end after it."""
_AT_ONCE = 100_000
"""Rows that are looked at together: as Python's numbers they take 300 bytes each."""
_NAMED = 5
_LONGEST = 80
"""Characters of a label in a sentence."""


def whole_of(labels: Sequence[str]) -> Ints:
    """Return for each label X-n the index of X among the labels; −1 if there is none."""
    place = {label: number for number, label in enumerate(labels)}
    found = [_PART.fullmatch(label) for label in labels]
    return np.array([place.get(match["whole"], -1) if match else -1 for match in found], dtype=np.int64)


def requests_among(
    begun_ns: Ints, spent_ns: Ints, thread: Ints, label: Ints, kind: Ints, labels: Sequence[str]
) -> tuple[NDArray[np.bool_] | None, list[str]]:
    """Return (which rows are requests, None: all; sentences about what was left out).

    A row within a row of its thread is its part, unless the outer one is a transaction. A transaction is left
    out if it holds samples, which are kept instead; an empty one is a request like any other.
    """
    ended = begun_ns + spent_ns
    order = np.lexsort((kind != TRANSACTION, -ended, begun_ns, thread))
    within, outermost, crossing = _within(begun_ns[order], ended[order], thread[order])
    if not within.any():
        return None, []
    if crossing > _MOST_CROSSING * len(order):
        return None, [
            "Samples of one thread overlap, as if threads of several machines had one name: parts of samples "
            "and transactions can't be distinguished from requests."
        ]
    nested = within | outermost
    rows, begins = order[nested], np.flatnonzero(outermost[nested])
    whole = whole_of(labels).tolist()
    roles = np.full(len(order), _KEPT, dtype=np.int8)
    for some in _pieces(rows, begins):
        out = _left_out(
            some.tolist(),
            thread[some].tolist(),
            begun_ns[some].tolist(),
            ended[some].tolist(),
            label[some].tolist(),
            kind[some].tolist(),
            whole,
        )
        roles[list(out)] = list(out.values())
    notes: list[str] = []
    for role in (TRANSACTION, PLAIN):
        counts = np.bincount(label[roles == role], minlength=len(labels)).tolist()
        notes += left_out(Counter({labels[code]: count for code, count in enumerate(counts) if count}), role)
    return roles == _KEPT, notes


def _pieces(rows: Ints, begins: Ints) -> Iterator[Ints]:
    """Yield the rows some at a time, cut before samples that lie within no other."""
    first = 0
    while first < len(rows):
        place = int(np.searchsorted(begins, first + _AT_ONCE))
        last = int(begins[place]) if place < len(begins) else len(rows)
        yield rows[first:last]
        first = last


def left_out(counted: Counter[str], role: int) -> list[str]:
    """Return the sentence about rows that are not requests, by label: transactions, or parts of other
    samples. Empty if there are none."""
    if not counted:
        return []
    what = (
        "rows of transactions are left out, since the samples in them stand for themselves"
        if role == TRANSACTION
        else "parts of other samples (redirects, embedded resources) are left out"
    )
    named = ", ".join(
        f"{shortened(label, _LONGEST)}: {count:,}" for label, count in counted.most_common(_NAMED)
    )
    more = f", and {len(counted) - _NAMED} more labels" if len(counted) > _NAMED else ""
    return [f"{counted.total():,} {what} ({named}{more})."]


def _within(begun: Ints, ended: Ints, thread: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Return, for rows sorted by thread and start, which begin within an earlier one, which hold those that
    follow, and how many end after all earlier ones, which no thread's own samples do.

    Stamps are whole milliseconds, so a sample may seem to start 1 ms before the previous one ended.
    """
    first = np.concatenate([[True], thread[1:] != thread[:-1]])
    # Ends thread by thread, each above all of the previous thread, so that one running maximum is enough: in
    # ms, because Unix times in ns of more than four threads on top of each other exceed 64 bits.
    begun, ended = begun // MS, ended // MS
    lift = np.cumsum(first).astype(np.int64) * (int(ended.max()) + 2)
    reached = np.maximum.accumulate(ended + lift) - lift
    inside = (reached[:-1] - begun[1:] > 1) & ~first[1:]
    crossing = int(np.count_nonzero(inside & (ended[1:] - reached[:-1] > 1)))
    within = np.concatenate([[False], inside])
    return within, ~within & np.concatenate([inside, [False]]), crossing


def _left_out(
    rows: list[int],
    thread: list[int],
    begun: list[int],
    ended: list[int],
    label: list[int],
    kind: list[int],
    whole: list[int],
) -> dict[int, int]:
    """Return row → TRANSACTION or PLAIN (a part), for the rows that are not requests."""
    out: dict[int, int] = {}
    holders: list[int] = []  # indices of the samples that are still open, the outermost first
    for place, row in enumerate(rows):
        while holders and (
            thread[holders[-1]] != thread[place]
            or ended[holders[-1]] - begun[place] <= MS
            or ended[place] > ended[holders[-1]] + MS
        ):
            holders.pop()
        if holders:
            holder = holders[-1]
            # One of length 0 at its start is as likely the previous sample. One with the same name, start and
            # end is a duplicate row.
            same_begin = begun[place] == begun[holder]
            empty = ended[place] == begun[place] and whole[label[place]] != label[holder]
            twice = (
                ended[place] == ended[holder]
                and label[place] == label[holder]
                and kind[holder] != TRANSACTION
            )
            if same_begin and (empty or twice):
                continue
            held_as = kind[holder]
            if held_as == UNKNOWN:
                held_as = PLAIN if whole[label[place]] == label[holder] else TRANSACTION
            if out.get(rows[holder]) == PLAIN or held_as == PLAIN:
                out[row] = PLAIN
            else:
                out[rows[holder]] = TRANSACTION
        holders.append(place)
    return out
