"""Foreign requests as a trial's tables and totals: ramps found by the users, times clipped to the window
exactly (docs/method.md §1, §4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.model.columns import HISTOGRAM_METRICS
from svload.model.request_errors import ERRORS
from svload.model.results import FirstFailure, GroupSummary, StepSummary
from svload.store.foreign.buckets import buckets_of
from svload.store.foreign.requests import Ints, Requests, Users

Arrays = dict[str, NDArray[Any]]
MOST_ROWS = 1_000_000
"""Requests up to which each keeps its row; of more there are histograms, as of svload's own load above 1,000/s."""
MOST_GROUPS = 20
"""Thread groups or scenarios that become traffic groups; of more all are one."""
ALL = "all"
"""The one step of a group with too many labels, or none."""
MOST_STEPS = 50
"""Labels of a group that become steps; of more the group is one step."""
SERVICE = "server"
"""What an imported study calls the server that was asked."""
_RESPONSE, _FAILED, _SERVICE = (
    HISTOGRAM_METRICS.index(name) for name in ("response", "failed_response", "service")
)
_BUCKETS = 1 << 13
_PIECE = 2_000_000
SECOND_NS = 10**9
LEAST_KEPT = 0.5
"""Share of the requests that a window without ramps must hold; of less the whole file is measured."""


@dataclass(frozen=True)
class Made:
    """A trial as its file gives it: tables, totals by group, and how long it was."""

    started_wall: float
    window_ns: tuple[int, int]
    interval_ns: int
    groups: tuple[GroupSummary, ...]
    tables: Mapping[str, Arrays]
    steps: Mapping[str, tuple[str, ...]]
    """traffic group → its steps; one that is the group's whole"""
    users: Mapping[str, int]
    """most users by group, as the file says; empty: it does not"""
    vus: Mapping[str, int]
    """the same, or where the file does not say it the most that were at work at once"""
    group_names: Mapping[str, str]
    labels: Mapping[str, str]
    longest_ns: int
    notes: tuple[str, ...]
    clock_ns: int
    requests: int
    single: bool = True


def tabulate(requests: Requests, whole: bool = False) -> Made:
    """Tables and totals of a file's requests, measured without their ramps, or as a `whole`."""
    notes = list(requests.notes)
    if len(requests.groups) > MOST_GROUPS:
        notes.append(f"It has more than {MOST_GROUPS} groups of users: they are taken for one.")
        requests = _as_one(requests)
    low, high = window_of(requests, notes, whole)
    interval_ns = interval_of(high - low, requests.clock_ns)
    names = plain_names(requests.groups, taken=(SERVICE,))
    label_names = plain_names(requests.labels, taken=())
    step, steps = _steps(requests, names, label_names)
    done = requests.begun_ns + requests.spent_ns
    groups, intervals, histograms = [], [], []
    at_work: list[int] = []
    for number, name in enumerate(names):
        mine = slice(None) if len(names) == 1 else np.flatnonzero(requests.group == number)
        part = _Part(requests, mine, done[mine], step[mine], (low, high), interval_ns)
        users = requests.users_of_group[number] if requests.users_of_group else None
        if users is None:
            at_work.append(part.most_at_work())
        groups.append(part.summary(name, steps[name], users))
        intervals.append(part.intervals(number))
        histograms.append(part.histograms(number))
    if not requests.users_of_group:
        notes.append(f"Users are not told; at most {', '.join(map(str, at_work))} were at work at once.")
    tables = {"intervals": _stacked(intervals), "histograms": _stacked(histograms)}
    if len(requests) <= MOST_ROWS:
        tables["samples"] = _samples(requests, step)
    else:
        notes.append(
            f"It holds more than {MOST_ROWS:,} requests: they are kept as histograms (error ≤ 0.4 %), not one by one."
        )
    if requests.users is not None:
        tables["monitors"] = users_read(requests.users, int(done.max()))
    return Made(
        started_wall=requests.epoch_ns / 1e9,
        window_ns=(low, high),
        interval_ns=interval_ns,
        groups=tuple(groups),
        tables=tables,
        steps=steps,
        users=dict(zip(names, requests.users_of_group, strict=True)) if requests.users_of_group else {},
        vus=dict(zip(names, requests.users_of_group or at_work, strict=True)),
        group_names=dict(zip(names, requests.groups, strict=True)),
        labels={
            plain: whole
            for plain, whole in zip(label_names, requests.labels, strict=True)
            if any(plain in s for s in steps.values())
        },
        longest_ns=int(requests.spent_ns.max()),
        notes=tuple(notes),
        clock_ns=requests.clock_ns,
        requests=len(requests),
    )


def _as_one(requests: Requests) -> Requests:
    """All groups as one, whose users are everybody."""
    everybody = (int(requests.users.count.max()),) if requests.users is not None else ()
    group = np.zeros(len(requests), dtype=requests.group.dtype)
    return replace(requests, group=group, groups=("load",), users_of_group=everybody)


def window_of(requests: Requests, notes: list[str], whole: bool) -> tuple[int, int]:
    """[from, until) of what is measured, in ns from the first request: the file without its first and last ramp.

    By users where the file has them, else by starts a second. The whole file where `whole` asks for it, or
    where less than half of its requests would stay.
    """
    last = int(requests.begun_ns.max())
    everything = 0, int((requests.begun_ns + requests.spent_ns).max()) + 1
    level = requests.users if requests.users is not None else _starts(requests.begun_ns, last)
    if whole or level is None:
        return everything
    low, high = without_ramps(level, last)
    kept = np.count_nonzero((requests.begun_ns >= low) & (requests.begun_ns < high)) / len(requests)
    if kept < LEAST_KEPT:
        notes.append(
            f"Without its ramps only {kept:.0%} of the requests would stay: the whole file is measured, ramps included."
        )
        return everything
    if kept < 1:
        notes.append(
            f"Measured without its ramps: {kept:.1%} of the requests, from {low / 1e9:.1f} s to {high / 1e9:.1f} s "
            "(--window all measures the whole file)."
        )
    return low, high


def _starts(begun_ns: Ints, last: int) -> Users | None:
    """Requests that began in each second that has any, as a level over time; None of a file shorter than 10 s."""
    if last < 10 * SECOND_NS:
        return None
    seconds, counts = _unique(begun_ns // SECOND_NS)
    pauses = np.setdiff1d(seconds + 1, seconds)
    at = np.concatenate([seconds, pauses])
    count = np.concatenate([counts, np.zeros(len(pauses), dtype=counts.dtype)])
    order = np.argsort(at)
    return Users(at[order] * SECOND_NS, count[order])


def without_ramps(level: Users, last: int) -> tuple[int, int]:
    """From when `level` first reaches 90 % of its 90th percentile over time until it last leaves it, or `last`."""
    lasts = np.diff(np.append(level.at_ns, max(last, int(level.at_ns[-1]))))
    order = np.argsort(level.count, kind="stable")
    share = np.cumsum(lasts[order])
    usual = level.count[order][np.searchsorted(share, 0.9 * share[-1])] if share[-1] else level.count.max()
    there = np.flatnonzero(level.count >= 0.9 * usual)
    low = 0 if there[0] == 0 else int(level.at_ns[there[0]])
    after = int(there[-1]) + 1
    high = min(int(level.at_ns[after]), last) if after < len(level.at_ns) else last
    return low, max(high, low)


def interval_of(length_ns: int, clock_ns: int) -> int:
    """Width of the tables' intervals: a 600th of the window, from 1 ms to 1 s, and no finer than the file's clock."""
    return max(min(length_ns // 600, 10**9), 10**6, clock_ns)


def plain_names(names: Iterable[str], taken: tuple[str, ...]) -> tuple[str, ...]:
    """Each name as a study takes it (a letter of any alphabet, then letters, digits, - and _), all different."""
    used = {*taken, "request", "vu", "iteration", "port"}
    found = []
    for number, name in enumerate(names):
        plain = re.sub(r"[^\w-]+", "-", name).strip("-_")[:60]
        plain = plain if plain[:1].isalpha() else f"n{number}{'-' if plain else ''}{plain}"
        base, again = plain, 1
        while plain.lower() in used:
            again += 1
            plain = f"{base}-{again}"
        used.add(plain.lower())
        found.append(plain)
    return tuple(found)


def _steps(
    requests: Requests, groups: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[Ints, dict[str, tuple[str, ...]]]:
    """(each request's step within its group, the steps of each group in the order of its labels)."""
    step = np.zeros(len(requests), dtype=np.uint16)
    found: dict[str, tuple[str, ...]] = {}
    for number, group in enumerate(groups):
        mine = slice(None) if len(groups) == 1 else np.flatnonzero(requests.group == number)
        counts = np.bincount(requests.label[mine], minlength=len(labels))
        there = np.flatnonzero(counts)
        if 1 < len(there) <= MOST_STEPS:
            places = np.zeros(len(labels), dtype=np.uint16)
            places[there] = np.arange(len(there))
            step[mine] = places[requests.label[mine]]
            found[group] = tuple(labels[place] for place in there)
        else:
            found[group] = (labels[there[0]],) if len(there) == 1 else (ALL,)
    return step, found


class _Part:
    """One group's requests, and what is made of them."""

    def __init__(
        self, requests: Requests, mine: Any, done: Ints, step: Ints, window: tuple[int, int], interval_ns: int
    ) -> None:
        self.begun, self.spent, self.ok = requests.begun_ns[mine], requests.spent_ns[mine], requests.ok[mine]
        self.done, self.step, self.window, self.interval_ns = done, step, window, interval_ns
        self.status, self.error = requests.status[mine], requests.error[mine]
        self.received = requests.received_bytes[mine] if requests.received_bytes is not None else None
        self.sent = requests.sent_bytes[mine] if requests.sent_bytes is not None else None
        self.connects = int(np.count_nonzero(requests.connect[mine])) if requests.connect is not None else 0

    def summary(self, name: str, steps: tuple[str, ...], users: int | None) -> GroupSummary:
        """The totals. What the users did between requests is think time: all of their time that no request took."""
        low, high = self.window
        count, ok = len(self.begun), int(self.ok.sum())
        inside = (self.done >= low) & (self.done < high)
        spent = self._clipped()
        active = (users or 0) * (high - low)
        failed = np.flatnonzero(~self.ok)
        return GroupSummary(
            name=name, due=count, begun=count, waiting=0, dropped=0, ok=ok, failed=count - ok, in_flight=0, written=count,
            completed_in_window=int(inside.sum()), ok_in_window=int((inside & self.ok).sum()),
            errors=_errors(self.error[failed]), status=_counted(self.status),
            steps=tuple(self._step(number, step) for number, step in enumerate(steps)),
            connections_opened=self.connects,
            bytes_sent=int(self.sent.sum(dtype=np.int64)) if self.sent is not None else 0,
            bytes_received=int(self.received.sum(dtype=np.int64)) if self.received is not None else 0,
            request_ns=spent, think_ns=max(active - spent, 0), active_ns=active, in_flight_mean=spent / max(high - low, 1), left_at_end=0,
            residence_ns=spent, longest_silence_ns=self._silence(inside), last_done_ns=int(self.done.max(initial=-1)),
            first_failure=self._first_failure(failed), last_failed_ns=int(self.done[failed].max(initial=-1)),
        )  # fmt: skip

    def most_at_work(self) -> int:
        """The most requests under way at once."""
        begun, done = np.sort(self.begun), np.sort(self.done)
        return max(int((np.arange(1, len(begun) + 1) - np.searchsorted(done, begun, side="right")).max()), 1)

    def _clipped(self) -> int:
        """Σ of the requests' time within the window."""
        low, high = self.window
        total = 0
        for first in range(0, len(self.begun), _PIECE):
            piece = slice(first, first + _PIECE)
            total += int(
                np.maximum(np.minimum(self.done[piece], high) - np.maximum(self.begun[piece], low), 0).sum()
            )
        return total

    def _silence(self, inside: NDArray[np.bool_]) -> int:
        low, high = self.window
        ends = self.done[inside]
        if np.any(np.diff(ends) < 0):
            ends = np.sort(ends)
        return int(np.diff(np.concatenate([[low], ends, [high]])).max())

    def _first_failure(self, failed: Ints) -> FirstFailure | None:
        if not len(failed):
            return None
        first = failed[int(np.argmin(self.done[failed]))]
        return FirstFailure(
            at_ns=int(self.done[first]),
            error=ERRORS[int(self.error[first])] or "other",
            status=int(self.status[first]),
            body="",
        )

    def _step(self, number: int, name: str) -> StepSummary:
        mine = self.step == number
        ok, count = int((mine & self.ok).sum()), int(mine.sum())
        return StepSummary(
            name=name,
            due=count,
            begun=count,
            dropped=0,
            ok=ok,
            failed=count - ok,
            errors=_errors(self.error[mine & ~self.ok]),
            status=_counted(self.status[mine]),
        )

    def intervals(self, group: int) -> Arrays:
        """By interval of the begin, and of the end."""
        size = int(self.done.max()) // self.interval_ns + 1
        begun = self.step.astype(np.int64) * size + self.begun // self.interval_ns
        done = self.step.astype(np.int64) * size + self.done // self.interval_ns
        # One row for each interval that has something: a file of two rows a month apart takes two.
        keys = np.union1d(_unique(begun)[0], _unique(done)[0])
        begun, done = np.searchsorted(keys, begun), np.searchsorted(keys, done)

        def count(at: Ints) -> NDArray[np.uint64]:
            return np.bincount(at, minlength=len(keys)).astype("<u8")

        def total(at: Ints, weights: Ints | None) -> NDArray[np.uint64]:
            if weights is None:
                return np.zeros(len(keys), dtype="<u8")
            return np.rint(np.bincount(at, weights=weights, minlength=len(keys))).astype("<u8")

        return {
            "group": np.full(len(keys), group, dtype="<u2"),
            "step": (keys // size).astype("<u2"),
            "interval": (keys % size).astype("<u4"),
            "due": count(begun),
            "begun": count(begun),
            "ok": count(begun[self.ok]),
            "failed": count(begun[~self.ok]),
            "dropped": np.zeros(len(keys), dtype="<u8"),
            "completed_ok": count(done[self.ok]),
            "completed_failed": count(done[~self.ok]),
            "bytes_received": total(done, self.received),
            "response_sum_ns": total(begun, self.spent),
        }

    def histograms(self, group: int) -> Arrays:
        """Response and service of the ok requests, response of the failed: their service, since
        no file says when they were due."""
        found: dict[int, list[tuple[Ints, Ints]]] = {_RESPONSE: [], _FAILED: []}
        size = int(self.begun.max()) // self.interval_ns + 1
        for first in range(0, len(self.begun), _PIECE):
            piece = slice(first, first + _PIECE)
            at = self.step[piece].astype(np.int64) * size + self.begun[piece] // self.interval_ns
            key = at * _BUCKETS + buckets_of(self.spent[piece])
            ok = self.ok[piece]
            for metric, which in ((_RESPONSE, ok), (_FAILED, ~ok)):
                if which.any():
                    found[metric].append(_unique(key[which]))
        parts = []
        for metric, pieces in found.items():
            if not pieces:
                continue
            keys, counts = _summed(pieces)
            of = [metric, _SERVICE] if metric == _RESPONSE else [metric]
            parts += [_histogram(group, one, keys, counts, size) for one in of]
        return _stacked(parts)


def _unique(keys: Ints) -> tuple[Ints, Ints]:
    """Different keys, ascending, and how often each came; by counting where they lie close together."""
    low = int(keys.min())
    width = int(keys.max()) - low + 1
    if width <= 32 * len(keys):
        counts = np.bincount(keys - low)
        there = np.flatnonzero(counts)
        return there + low, counts[there]
    found, counts = np.unique(keys, return_counts=True)
    return found, counts


def _summed(pieces: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if len(pieces) == 1:
        return pieces[0]
    keys, counts = (np.concatenate(cells) for cells in zip(*pieces, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts)


def _histogram(group: int, metric: int, keys: Ints, counts: Ints, size: int) -> Arrays:
    at = keys // _BUCKETS
    return {
        "group": np.full(len(keys), group, dtype="<u2"),
        "step": (at // size).astype("<u2"),
        "interval": (at % size).astype("<u4"),
        "metric": np.full(len(keys), metric, dtype="u1"),
        "bucket": (keys % _BUCKETS).astype("<u4"),
        "count": counts.astype("<u8"),
    }


def _stacked(parts: list[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _errors(codes: Ints) -> dict[str, int]:
    found, counts = np.unique(codes, return_counts=True)
    named: dict[str, int] = {}
    for code, count in zip(found.tolist(), counts.tolist(), strict=True):
        name = ERRORS[code] or "other"
        named[name] = named.get(name, 0) + count
    return named


def _counted(status: Ints) -> dict[str, int]:
    counts = np.bincount(status, minlength=1)
    return {str(code): int(counts[code]) for code in np.flatnonzero(counts).tolist() if code}


def _samples(requests: Requests, step: Ints) -> Arrays:
    """A row a request, in the order of their begins."""
    order = np.lexsort((requests.group, requests.begun_ns))
    count = len(order)
    begun, done = requests.begun_ns[order], (requests.begun_ns + requests.spent_ns)[order]
    vu = requests.vu[order].astype(np.int64) if requests.vu is not None else np.zeros(count, dtype=np.int64)

    def cells(column: Ints | None, dtype: str, default: int = 0) -> Ints:
        return column[order].astype(dtype) if column is not None else np.full(count, default, dtype=dtype)

    first_byte = cells(requests.first_byte, "<i8") * requests.detail_ns
    connect = cells(requests.connect, "<i8") * requests.detail_ns
    zeros = np.zeros(count, dtype="<i8")
    return {
        "group": requests.group[order].astype("<u2"),
        "vu": np.maximum(vu, 0).astype("<u4"),
        "seq": _sequence(vu).astype("<u4"),
        "step": step[order].astype("<u2"),
        "row": np.full(count, -1, dtype="<i8"),
        "due_ns": begun.astype("<i8"),
        "ready_ns": begun.astype("<i8"),
        "begun_ns": begun.astype("<i8"),
        "written_ns": (begun + np.minimum(connect, done - begun)).astype("<i8"),
        "first_byte_ns": np.where(first_byte > 0, begun + np.minimum(first_byte, done - begun), -1).astype(
            "<i8"
        ),
        "done_ns": done.astype("<i8"),
        "status": requests.status[order].astype("<u2"),
        "error": requests.error[order].astype("<u2"),
        "request_bytes": cells(requests.sent_bytes, "<u4"),
        "header_bytes": np.zeros(count, dtype="<u4"),
        "body_bytes": cells(requests.received_bytes, "<u8"),
        "connection": np.maximum(vu, 0).astype("<u4"),
        "reused": (connect == 0).astype("u1"),
        "tls": np.zeros(count, dtype="u1"),
        "lookup_ns": zeros,
        "connect_ns": connect.astype("<i8"),
        "appconnect_ns": zeros,
        "pretransfer_ns": zeros,
        "redirect_ns": zeros,
        "redirects": np.zeros(count, dtype="<u2"),
        "read_lag_ns": np.full(count, -1, dtype="<i8"),
        "share": np.zeros(count, dtype="<u2"),
    }


def _sequence(vu: Ints) -> Ints:
    """The how-manieth request of its user each is, from 0."""
    order = np.argsort(vu, kind="stable")
    sorted_vu = vu[order]
    first = np.concatenate([[True], sorted_vu[1:] != sorted_vu[:-1]])
    begins = np.flatnonzero(first)
    place = np.arange(len(vu)) - np.repeat(begins, np.diff(np.concatenate([begins, [len(vu)]])))
    found = np.empty(len(vu), dtype=np.int64)
    found[order] = place
    return found


def users_read(users: Users, last_ns: int) -> Arrays:
    """The number of users over time as readings, one at each change and one at the end."""
    at = np.concatenate([users.at_ns, [max(last_ns, int(users.at_ns[-1]))]]).astype("<i8")
    value = np.concatenate([users.count, users.count[-1:]]).astype("<f8")

    def texts(text: str) -> NDArray[Any]:
        return np.full(len(at), text, dtype=object)

    return {
        "offset_ns": at,
        "service": texts(""),
        "monitor": texts("imported"),
        "entity": texts(""),
        "metric": texts("users"),
        "value": value,
    }
