"""Simulates one traffic group of a trial: every request's stamps, then the tables and totals that generators
would have made.

Virtual time only. The population is lognormal with a given median, so that analysis can be checked against
it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.model.request_errors import ERRORS
from svload.model.results import GroupSummary
from svload.store.foreign.tabulate import buckets_of

Ints = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
BODY_BYTES = 4096
ROWS = 2000
_FAILURES = ("connect_refused", "status", "timeout_first_byte")


@dataclass(frozen=True)
class GroupModel:
    """One group: its users or its rate, its clock in ns from the load's start, and the population of its responses."""

    name: str
    vus: int
    median_ns: float
    sigma: float
    window_ns: tuple[int, int]
    interval_ns: int
    curl: bool = False
    new_connections: bool = False
    tls: bool = False
    ramp_ns: int = 0
    start_ns: int = 0
    think_ns: int = 0
    rate_rps: float | None = None
    lag_ns: float = 20_000.0
    failures: float = 0.0
    generators: int = 1
    by_turn: tuple[float, ...] = ()
    """for a side that takes turns: the multiplier of its responses in each turn"""
    turn_ns: int = 0


@dataclass(frozen=True)
class Requests:
    """Every request of a group; times in ns from the load's start. `waiting` holds arrivals that never got a
    slot."""

    vu: Ints
    seq: Ints
    due: Ints
    ready: Ints
    begun: Ints
    done: Ints
    error: Ints
    waiting_due: Ints

    def __len__(self) -> int:
        return len(self.due)


def simulate(model: GroupModel, rng: np.random.Generator) -> Requests:
    """Return all requests that are due before the window's end, each followed to its end."""
    requests = _closed(model, rng) if model.rate_rps is None else _open(model, rng)
    if not model.failures:
        return requests
    failed = rng.random(len(requests)) < model.failures
    kinds = np.array([ERRORS.index(name) for name in _FAILURES])
    error = np.where(failed, kinds[rng.integers(0, len(kinds), len(requests))], 0)
    return replace(requests, error=error)


def _closed(model: GroupModel, rng: np.random.Generator) -> Requests:
    """Simulate VUs that send a request, wait and think; a VU's next request is due when it has thought."""
    spread = model.ramp_ns or max(model.think_ns, 5_000_000)
    vus = np.arange(model.vus)
    due = model.start_ns + spread * vus // model.vus
    steps: list[tuple[Ints, ...]] = []
    step = 0
    alive = due < model.window_ns[1]
    while alive.any():
        vus, due = vus[alive], due[alive]
        response, lag = _draw(model, rng, due)
        done = due + response
        steps.append((vus, np.full(len(vus), step), due, due, due + lag, done))
        due = done + model.think_ns
        alive = due < model.window_ns[1]
        step += 1
    columns = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    return _requests(columns, np.zeros(0, dtype=np.int64))


def _open(model: GroupModel, rng: np.random.Generator) -> Requests:
    """Simulate arrivals at a constant rate that take one of `vus` slots; if all are taken, they wait."""
    stop = model.window_ns[1]
    count = int((stop - model.start_ns) / 1e9 * model.rate_rps)
    due = model.start_ns + ((np.arange(count) + rng.random()) / model.rate_rps * 1e9).astype(np.int64)
    due = due[due < stop]
    response, lag = _draw(model, rng, due)
    ready, slots = np.empty_like(due), np.empty_like(due)
    heap = [(0, slot) for slot in range(model.vus)]
    for index, (at, takes) in enumerate(zip(due.tolist(), response.tolist(), strict=True)):
        free_at, slot = heap[0]
        ready[index], slots[index] = max(at, free_at), slot
        heapq.heapreplace(heap, (max(at, free_at) + takes, slot))
    served = ready < stop
    columns = [slots, np.arange(len(due)), due, ready, ready + lag, ready + response]
    return _requests([column[served] for column in columns], due[~served])


def _draw(model: GroupModel, rng: np.random.Generator, due: Ints) -> tuple[Ints, Ints]:
    """Return (response since readiness, the generator's lag in it); a clean lag is part of the former."""
    response = model.median_ns * np.exp(model.sigma * rng.standard_normal(len(due)))
    if model.by_turn:
        response *= np.array(model.by_turn)[np.minimum(due // model.turn_ns, len(model.by_turn) - 1)]
    lag = rng.exponential(model.lag_ns, len(due))
    if model.lag_ns < model.median_ns / 10:
        lag = np.minimum(lag, response / 2)
    else:
        response = response + lag
    return response.astype(np.int64), lag.astype(np.int64)


def _requests(columns: list[Ints], waiting_due: Ints) -> Requests:
    vu, seq, due, ready, begun, done = columns
    return Requests(vu, seq, due, ready, begun, done, np.zeros(len(vu), dtype=np.int64), waiting_due)


def share_tables(model: GroupModel, requests: Requests, generator: int, rows: bool) -> dict[str, Arrays]:
    """Return the tables of one of the group's generators (its VUs are every `generators`-th)."""
    mine = requests.vu % model.generators == generator
    part = Requests(
        **{name: column[mine] for name, column in vars(requests).items() if name != "waiting_due"},
        waiting_due=requests.waiting_due[generator :: model.generators],
    )
    tables = {"intervals": _intervals(model, part), "rows": _rows(model, part)}
    tables["histograms"] = _histograms(model, part)
    if rows:
        tables["samples"] = _samples(model, part)
    return tables


def _first_byte(requests: Requests) -> Ints:
    return requests.done - (requests.done - requests.begun) // 20


def _row_of(model: GroupModel, requests: Requests) -> Ints:
    start = requests.vu * ROWS // model.vus if model.rate_rps is None else 0
    return (start + requests.seq) % ROWS


def _read_lag(requests: Requests) -> Ints:
    """Return a read lag of 5 µs for every request up to 1,000/s, else for one in 64, −1 elsewhere."""
    span_ns = int(requests.due.max() - requests.due.min()) if len(requests) else 0
    every = len(requests) * 1e9 <= 1_000 * max(span_ns, 1)
    return np.where(every | (requests.seq % 64 == 0), 5_000, -1)


def _intervals(model: GroupModel, requests: Requests) -> Arrays:
    ok = requests.error == 0
    due_all = np.concatenate([requests.due, requests.waiting_due]) // model.interval_ns
    by_due, by_done = requests.due // model.interval_ns, requests.done // model.interval_ns
    size = int(max(due_all.max(initial=-1), by_done.max(initial=-1))) + 1

    def count(at: Ints, weights: NDArray[Any] | None = None) -> NDArray[np.uint64]:
        if weights is None:
            return np.bincount(at, minlength=size).astype("<u8")
        total = np.zeros(size, dtype="<u8")
        np.add.at(total, at, weights.astype("<u8"))
        return total

    return {
        "group": np.zeros(size, dtype="<u2"),
        "interval": np.arange(size, dtype="<u4"),
        "due": count(due_all),
        "begun": count(by_due),
        "ok": count(by_due[ok]),
        "failed": count(by_due[~ok]),
        "dropped": np.zeros(size, dtype="<u8"),
        "completed_ok": count(by_done[ok]),
        "completed_failed": count(by_done[~ok]),
        "bytes_received": count(by_done[ok]) * np.uint64(BODY_BYTES + 180),
        "response_sum_ns": count(by_due, requests.done - requests.due),
    }


def _histograms(model: GroupModel, requests: Requests) -> Arrays:
    ok = requests.error == 0
    interval = requests.due // model.interval_ns
    response, lag = requests.done - requests.due, requests.begun - requests.ready
    read_lag = _read_lag(requests)
    everything = np.ones(len(requests), dtype=bool)
    metrics = (
        (response, ok),
        (response, ~ok),
        (requests.done - requests.begun, ok),
        (lag, everything),
        (requests.ready - requests.due, everything),
        (response - lag - np.maximum(read_lag, 0), ok),
        (read_lag, read_lag >= 0),
        (_first_byte(requests) - requests.begun, ok),
        (response, ok & (read_lag >= 0)),
        (response - lag - read_lag, ok & (read_lag >= 0)),
    )
    keys = [
        (interval[which].astype(np.uint64) << np.uint64(32))
        | np.uint64(metric << 24)
        | buckets_of(values[which]).astype(np.uint64)
        for metric, (values, which) in enumerate(metrics)
    ]
    found, counts = np.unique(np.concatenate(keys), return_counts=True)
    return {
        "group": np.zeros(len(found), dtype="<u2"),
        "interval": (found >> np.uint64(32)).astype("<u4"),
        "metric": (found >> np.uint64(24) & np.uint64(255)).astype("u1"),
        "bucket": (found & np.uint64(0xFFFFFF)).astype("<u4"),
        "count": counts.astype("<u8"),
    }


def _rows(model: GroupModel, requests: Requests) -> Arrays:
    asked = np.bincount(_row_of(model, requests), minlength=1).astype("<u8")
    row = np.flatnonzero(asked)
    return {"group": np.zeros(len(row), dtype="<u2"), "row": row.astype("<u4"), "asked": asked[row]}


def _samples(model: GroupModel, requests: Requests) -> Arrays:
    count = len(requests)
    ok, refused = requests.error == 0, requests.error == ERRORS.index("connect_refused")
    answered = ok | (requests.error == ERRORS.index("status"))
    first_byte = _first_byte(requests)
    service = first_byte - requests.begun
    fresh = np.full(count, model.new_connections) | (requests.seq == 0)
    connect = np.where(fresh & ~refused, service // 20, 0)
    appconnect = np.where(fresh & ~refused & model.tls, service // 4, 0)
    pretransfer = np.maximum(connect, appconnect) + 1_000
    resumed = model.tls & (requests.seq > 0) & model.new_connections
    vu, seq = requests.vu.astype("<u4"), requests.seq.astype("<u4")
    first = {"group": np.zeros(count, dtype="<u2"), "vu": vu, "seq": seq}
    return first | {
        "row": _row_of(model, requests).astype("<i8"),
        "due_ns": requests.due.astype("<i8"),
        "ready_ns": requests.ready.astype("<i8"),
        "begun_ns": requests.begun.astype("<i8"),
        "written_ns": np.where(refused, -1, requests.begun + pretransfer).astype("<i8"),
        "first_byte_ns": np.where(answered, first_byte, -1).astype("<i8"),
        "done_ns": requests.done.astype("<i8"),
        "status": np.where(ok, 200, np.where(answered, 503, 0)).astype("<u2"),
        "error": requests.error.astype("<u2"),
        "request_bytes": np.full(count, 110, dtype="<u4"),
        "header_bytes": np.where(answered, 180, 0).astype("<u4"),
        "body_bytes": np.where(ok, BODY_BYTES, 0).astype("<u8"),
        "connection": (requests.vu + requests.seq * model.vus * model.new_connections).astype("<u4"),
        "reused": (~fresh).astype("u1"),
        "tls": (np.where(resumed, 2, 1) * model.tls * ~refused).astype("u1"),
        "lookup_ns": np.zeros(count, dtype="<i8"),
        "connect_ns": connect.astype("<i8"),
        "appconnect_ns": appconnect.astype("<i8"),
        "pretransfer_ns": pretransfer.astype("<i8"),
        "redirect_ns": np.zeros(count, dtype="<i8"),
        "redirects": np.zeros(count, dtype="<u2"),
        "read_lag_ns": _read_lag(requests).astype("<i8"),
    }


def summarise(model: GroupModel, requests: Requests) -> GroupSummary:
    """Return the group's totals over all shares, with every identity exact."""
    low, high = model.window_ns

    def clipped(begin: Ints, end: Ints) -> int:
        return int(np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0).sum())

    ok = requests.error == 0
    refused = requests.error == ERRORS.index("connect_refused")
    unexpected = requests.error == ERRORS.index("status")
    inside = (requests.done >= low) & (requests.done < high)
    completions = np.sort(requests.done[inside])
    edges = np.concatenate([[low], completions, [high]])
    begun, waiting = len(requests), len(requests.waiting_due)
    waited = clipped(requests.due, requests.ready) + clipped(requests.waiting_due, np.full(waiting, high))
    residence = clipped(requests.due, requests.done) + clipped(requests.waiting_due, np.full(waiting, high))
    connections = begun if model.new_connections else len(np.unique(requests.vu))
    full = min(connections, len(np.unique(requests.vu))) * model.tls
    asked, lagged = clipped(requests.begun, requests.done), clipped(requests.ready, requests.begun)
    first_due = requests.due[requests.seq == 0] if model.rate_rps is None else np.zeros(0, dtype=np.int64)
    active = int(np.maximum(high - np.maximum(first_due, low), 0).sum())
    failed = Counter(requests.error[~ok].tolist())
    return GroupSummary(
        name=model.name,
        due=begun + waiting,
        begun=begun,
        waiting=waiting,
        dropped=0,
        in_flight=0,
        ok=int(ok.sum()),
        failed=int((~ok).sum()),
        written=int((~refused).sum()),
        completed_in_window=int(inside.sum()),
        ok_in_window=int((inside & ok).sum()),
        errors={ERRORS[code]: count for code, count in sorted(failed.items())},
        status={"200": int(ok.sum())} | ({"503": int(unexpected.sum())} if unexpected.any() else {}),
        connections_opened=connections,
        tls_full=full,
        tls_resumed=(connections - full) * model.tls,
        bytes_sent=110 * int((~refused).sum()),
        bytes_received=int(ok.sum()) * (BODY_BYTES + 180),
        body_bytes=int(ok.sum()) * BODY_BYTES,
        think_ns=max(active - waited - asked - lagged, 0),
        request_ns=asked,
        lag_ns=lagged,
        wait_ns=waited,
        active_ns=active,
        in_flight_mean=residence / (high - low),
        left_at_end=waiting,
        residence_ns=residence,
        longest_silence_ns=int(np.diff(edges).max()),
    )
