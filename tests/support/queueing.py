"""Queueing networks simulated event by event in virtual time, many at once: servers with known demands, and
so known limits.

A request visits the stations in turn, each with a number of servers and one queue (first come, first served).
Closed: users who wait for their answer, then think. Open: arrivals at given moments. All networks of a call
advance together, one event per step, as columns of arrays: a step costs as much as a few array operations, so
hundreds of models take minutes, not hours. tests/support/test_queueing.py checks it against mean value
analysis and Erlang's formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CHUNK = 2_000
"""The most networks that advance together: their state fits a core's cache."""
_LEFT = 0.6
"""Finished networks are set aside when fewer than this share still run."""


@dataclass(frozen=True)
class Station:
    """A mean service time of `mean_s`, and a number of servers; `cv` is the coefficient of variation of
    service (gamma): 1 exponential, 0 constant.
    """

    mean_s: float
    servers: int = 1
    cv: float = 1.0


@dataclass(frozen=True)
class Closed:
    """A closed network; think times are exponential."""

    stations: tuple[Station, ...]
    users: int
    think_s: float = 0.0


@dataclass(frozen=True)
class Seen:
    """What a run showed in its window of `window_s`: `completed` requests, their mean response, and times
    clipped to the window.

    `busy_s`: Σ over a station's servers; `think_total_s`: Σ over users. `longest_s` is the longest response.
    """

    window_s: float
    completed: int
    response_s: float
    longest_s: float
    busy_s: tuple[float, ...]
    think_total_s: float

    @property
    def throughput_rps(self) -> float:
        return self.completed / self.window_s


def simulate_closed(networks: Sequence[Closed], requests: int, seed: int, warm: int = 200) -> list[Seen]:
    """Run each network from its `warm`-th completion for `requests` more. Same arguments, same numbers."""
    rng = np.random.default_rng(seed)
    found: list[Seen | None] = [None] * len(networks)
    # Similar networks together: more users need a wider table, more stations more steps.
    order = sorted(range(len(networks)), key=lambda at: (networks[at].users, len(networks[at].stations)))
    for first in range(0, len(order), _CHUNK):
        chunk = order[first : first + _CHUNK]
        state = _State([networks[at] for at in chunk], rng)
        for at, seen in zip(chunk, state.run(requests, warm), strict=True):
            found[at] = seen
    return [one for one in found if one is not None]


class _State:
    """The networks of one chunk: one row each, one column per user or station."""

    def __init__(self, networks: Sequence[Closed], rng: np.random.Generator) -> None:
        count, users = len(networks), max(one.users for one in networks)
        stations = max(len(one.stations) for one in networks)
        self.rng, self.rows = rng, np.arange(count)
        self.stations = np.array([len(one.stations) for one in networks])
        self.users = np.array([one.users for one in networks])
        self.think_s = np.array([one.think_s for one in networks])
        mean, shape = np.zeros((count, stations + 1)), np.ones((count, stations + 1))
        servers = np.zeros((count, stations), dtype=np.int64)
        for row, one in enumerate(networks):
            for column, station in enumerate(one.stations):
                mean[row, column], shape[row, column] = station.mean_s, _shape(station.cv)
                servers[row, column] = station.servers
            mean[row, -1] = one.think_s
        self.mean, self.shape, self.servers = mean, shape, servers
        self.exponential = bool((shape == 1.0).all())
        self.idle = servers.copy()
        there = np.arange(users) < self.users[:, None]
        # Users start spread over think time and service, so that the warm-up is short.
        spread = (self.think_s + mean[:, :-1].sum(1))[:, None] * rng.random((count, users))
        self.event_s = np.where(there, spread, np.inf)
        self.where = np.full((count, users), -1)
        self.due_s = np.zeros((count, users))
        self.queue = np.zeros((count, stations, users), dtype=np.int64)
        self.head = np.zeros((count, stations), dtype=np.int64)
        self.waiting = np.zeros((count, stations), dtype=np.int64)
        self.now = np.zeros(count)
        self.inside = np.zeros(count, dtype=np.int64)
        self.done = np.zeros(count, dtype=np.int64)
        self.begin, self.end = np.zeros(count), np.zeros(count)
        self.busy = np.zeros((count, stations))
        self.thinking = np.zeros(count)
        self.response, self.longest = np.zeros(count), np.zeros(count)
        self.origin = np.arange(count)

    def run(self, requests: int, warm: int) -> list[Seen]:
        """Run all of them to their end."""
        found: list[Seen | None] = [None] * len(self.origin)
        step = 0
        while len(self.origin):
            self.step(warm, requests)
            step += 1
            if step % 64 == 0 or len(self.origin) == 1:
                over = self.done >= warm + requests
                if over.all() or over.mean() > 1 - _LEFT:
                    for row in np.flatnonzero(over):
                        found[self.origin[row]] = self.seen(int(row), requests)
                    self.keep(~over)
        return [one for one in found if one is not None]

    def step(self, warm: int, requests: int) -> None:
        """Advance every network by its next event; finished ones do not change."""
        rows = self.rows
        user = self.event_s.argmin(axis=1)
        at = self.event_s[rows, user]
        live = self.done < warm + requests
        counted = live & (self.done >= warm)
        passed = np.where(counted, at - self.now, 0.0)
        self.busy += (self.servers - self.idle) * passed[:, None]
        self.thinking += (self.users - self.inside) * passed
        self.now = at
        place = self.where[rows, user]
        self._leave(place)
        ends = place + 1 == self.stations
        self._complete(ends, user, counted, warm, warm + requests)
        self._enter(place, ends, user)

    def _leave(self, place: NDArray[np.int64]) -> None:
        """Free a server of `place`: the request that waits there longest is served next."""
        left = np.flatnonzero(place >= 0)
        station = place[left]
        some = self.waiting[left, station] > 0
        self.idle[left[~some], station[~some]] += 1
        row, station = left[some], station[some]
        if len(row):
            head = self.head[row, station]
            following = self.queue[row, station, head]
            self.head[row, station] = (head + 1) % self.queue.shape[2]
            self.waiting[row, station] -= 1
            self.event_s[row, following] = self.now[row] + self._drawn(row, station)

    def _complete(
        self,
        ends: NDArray[np.bool_],
        user: NDArray[np.int64],
        counted: NDArray[np.bool_],
        warm: int,
        last: int,
    ) -> None:
        row = np.flatnonzero(ends)
        took = self.now[row] - self.due_s[row, user[row]]
        inside = counted[row]
        self.response[row] += np.where(inside, took, 0.0)
        self.longest[row] = np.maximum(self.longest[row], np.where(inside, took, 0.0))
        self.done[row] += 1
        self.inside[row] -= 1
        for moment, number in ((self.begin, warm), (self.end, last)):
            now = row[self.done[row] == number]
            moment[now] = self.now[now]
        self.where[row, user[row]] = -1
        thinks = np.full(len(row), self.mean.shape[1] - 1)
        self.event_s[row, user[row]] = self.now[row] + self._drawn(row, thinks)

    def _enter(self, place: NDArray[np.int64], ends: NDArray[np.bool_], user: NDArray[np.int64]) -> None:
        """Move users to the next station: from thinking, from the station before, or immediately again if
        they do not think."""
        again = ends & (self.think_s == 0)
        row = np.flatnonzero(~ends | again)
        who = user[row]
        station = np.where(ends[row], 0, place[row] + 1)
        fresh = station == 0
        self.due_s[row[fresh], who[fresh]] = self.now[row[fresh]]
        self.inside[row[fresh]] += 1
        self.where[row, who] = station
        free = self.idle[row, station] > 0
        served, waits = row[free], row[~free]
        self.idle[served, station[free]] -= 1
        self.event_s[served, who[free]] = self.now[served] + self._drawn(served, station[free])
        line = station[~free]
        tail = (self.head[waits, line] + self.waiting[waits, line]) % self.queue.shape[2]
        self.queue[waits, line, tail] = who[~free]
        self.waiting[waits, line] += 1
        self.event_s[waits, who[~free]] = np.inf

    def _drawn(self, row: NDArray[np.int64], column: NDArray[np.int64]) -> Floats:
        mean = self.mean[row, column]
        if self.exponential:
            return np.asarray(mean * self.rng.standard_exponential(len(row)))
        return mean * _unit(self.shape[row, column], self.rng)

    def seen(self, row: int, requests: int) -> Seen:
        """Return the results of a finished network."""
        return Seen(
            window_s=float(self.end[row] - self.begin[row]),
            completed=requests,
            response_s=float(self.response[row]) / requests,
            longest_s=float(self.longest[row]),
            busy_s=tuple(self.busy[row, : self.stations[row]].tolist()),
            think_total_s=float(self.thinking[row]),
        )

    def keep(self, which: NDArray[np.bool_]) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name != "rows":
                setattr(self, name, value[which])
        self.rows = np.arange(len(self.origin))


def _shape(cv: float) -> float:
    """Return the shape of a gamma distribution; infinite for a constant."""
    return 1 / cv**2 if cv > 0 else np.inf


def _unit(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw values with mean 1."""
    finite = np.where(np.isfinite(shape), shape, 1.0)
    return np.where(np.isfinite(shape), rng.standard_gamma(finite) / finite, 1.0)


def simulate_open(station: Station, due_s: Floats, seed: int) -> Floats:
    """Return the responses to arrivals at ascending moments (Kiefer & Wolfowitz's recursion)."""
    shape = np.full(len(due_s), _shape(station.cv))
    service = station.mean_s * _unit(shape, np.random.default_rng(seed))
    free = [0.0] * station.servers
    ends = []
    for arrival, takes in zip(due_s.tolist(), service.tolist(), strict=True):
        server = free.index(min(free))
        free[server] = max(arrival, free[server]) + takes
        ends.append(free[server])
    return np.asarray(ends) - due_s


def poisson(rate_rps: float, count: int, seed: int) -> Floats:
    """Return the moments of `count` arrivals."""
    return np.cumsum(np.random.default_rng(seed).standard_exponential(count) / rate_rps)
