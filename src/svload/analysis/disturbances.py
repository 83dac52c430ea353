"""The moments in which a trial was disturbed, found in the machine's own readings, never in the responses
(docs/method.md §3, *Counting*).

Four checks find them: gaps of the load's threads and long passes of their loops (`hiccups`), waits for a core
(`run-queue`), time that the hypervisor gave to others (`steal`), CPU of processes that are not part of the
measurement (`others-cpu`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.readings import Floats, Monitors, Series, mean_rate, of_monitor, readings_of
from svload.analysis.view import Window
from svload.model.facts import ServiceFacts
from svload.model.unix_url import PREFIX

Spans = Sequence[tuple[float, float]]
"""[begin, end) in ns from the load's start, ascending and apart."""
_SECOND_NS = 1e9


class Disturbance(NamedTuple):
    """One disturbed moment. `lost_s`: how long a thread stood still in it, or, for foreign CPU, how much of a
    core it cost."""

    check: str
    begin_ns: float
    end_ns: float
    where: str
    lost_s: float


@dataclass(frozen=True)
class Found:
    """Everything that one trial's readings show up to the end of its kept window."""

    moments: tuple[Disturbance, ...]

    def of(self, check: str) -> list[Disturbance]:
        """Return the moments that one check found."""
        return [one for one in self.moments if one.check == check]

    def share(self, check: str, window: Window) -> float:
        """Return the part of the window that one check's moments cover."""
        return covered(united(spans(self.of(check)), window)) / max(window.high_ns - window.low_ns, 1)


def disturbances_of(monitors: Monitors, window: Window) -> Found:
    """Find what disturbed the trial up to the end of its kept window."""
    cores = max(len(of_monitor(monitors, "host", "busy_seconds_total")), 1)
    waits = of_monitor(monitors, "generator", "run_queue_seconds_total")
    stolen = of_monitor(monitors, "host", "steal_seconds_total")
    foreign = foreign_here(monitors, cores)
    stolen |= of_monitor(monitors, "fleet", "steal_seconds_total")
    foreign |= _foreign_elsewhere(monitors)
    found = [
        *_gaps(monitors, "gap_seconds", "hiccup_seconds", limits.GAP_S),
        *_gaps(monitors, "pass_gap_seconds", "loop_pass_seconds", limits.HICCUP_PERIOD_S),
        *_begun_late(monitors),
        *_rates("run-queue", waits, limits.RUN_QUEUE, least_s=limits.GAP_S),
        *_steals(stolen),
        *_rates("others-cpu", foreign, limits.OTHERS_CPU),
    ]
    moments = tuple(one for one in found if one.begin_ns < window.high_ns)
    return Found(moments)


def foreign_here(monitors: Monitors, cores: int) -> dict[str, Series]:
    """Return others' CPU as a share of the cores where servers and load ran; as a share of all cores where it
    is not known which these were.

    On a machine with many cores, a process that takes the server's only core uses just a small part of the
    machine.
    """
    concerned = of_monitor(monitors, "others", "concerned_seconds_total")
    others = of_monitor(monitors, "others", "cpu_seconds_total")
    return concerned or {place: Series(one.at, one.values / cores) for place, one in others.items()}


def strangers_share(monitors: Monitors, window: Window) -> float | None:
    """Return the share of the machine that other programs had in the window: CPU of other processes, and the
    larger of what the hypervisor took and the gaps in which a load core ran nobody, over all cores' time.

    With several machines, return the largest. Where others' CPU was not read, use how long the load's threads
    waited for a core; where that is missing too, return None. A comparison weighs its pairs by it
    (docs/method.md §2); waits count only in that case, since servers cause them as well.
    """
    cores = len(of_monitor(monitors, "host", "busy_seconds_total"))
    others = of_monitor(monitors, "others", "cpu_seconds_total").get("")
    used = None if others is None else mean_rate(others, window)
    taken = _taken(monitors, window)
    shares = [] if used is None or not cores else [(used + taken) / cores]
    shares += [
        rate
        for series in _foreign_elsewhere(monitors).values()
        if (rate := mean_rate(series, window)) is not None
    ]
    waits = of_monitor(monitors, "generator", "run_queue_seconds_total").values()
    waited = [rate for series in waits if (rate := mean_rate(series, window)) is not None]
    if not shares and waited:
        shares = [sum(waited) / len(waited) + taken / max(cores, len(waited))]
    return min(max(shares), 1.0) if shares else None


def _taken(monitors: Monitors, window: Window) -> float:
    """Return how many cores' worth of time nobody on this machine had: stolen, or seen as gaps by the load's
    witnesses."""
    stolen = sum(
        mean_rate(series, window) or 0.0
        for series in of_monitor(monitors, "host", "steal_seconds_total").values()
    )
    gaps = within(list(_gaps(monitors, "gap_seconds", "hiccup_seconds", limits.GAP_S)), window)
    length_s = max(window.high_ns - window.low_ns, 1) / 1e9
    return max(stolen, sum(one.lost_s for one in gaps) / length_s)


def unread(monitors: Monitors, services: Iterable[ServiceFacts]) -> list[str]:
    """Return the services whose machine was not read: they were already running elsewhere."""
    readings = readings_of(monitors)
    return [
        one.service
        for one in services
        if one.endpoints
        and not (
            one.machine or one.processes or readings.of(one.service, "switches", "run_queue_seconds_total")
        )
        and not any(_is_here(end.address) for end in one.endpoints)
    ]


def _is_here(address: str) -> bool:
    try:
        return address.startswith(PREFIX) or address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


def _foreign_elsewhere(monitors: Monitors) -> dict[str, Series]:
    """Return others' CPU on the machines of a fleet that made load, each as a share of that machine's
    cores."""
    cores = Counter(core.partition("/")[0] for core in of_monitor(monitors, "fleet", "busy_seconds_total"))
    return {
        machine: Series(series.at, series.values / max(cores[machine], 1))
        for machine, series in of_monitor(monitors, "fleet", "others_cpu_seconds_total").items()
    }


def _gaps(monitors: Monitors, exact: str, look: str, longer_s: float) -> Iterator[Disturbance]:
    """Return gaps above a length: each gap where its readings locate it, else the look in which the longest
    one lay."""
    precise = of_monitor(monitors, "generator", exact)
    for thread, series in precise.items():
        for at, gap in zip(*series, strict=True):
            if gap > longer_s:
                yield Disturbance("hiccups", float(at - 1e9 * gap), float(at), thread, float(gap))
    for thread, series in {} if precise else of_monitor(monitors, "generator", look).items():
        for at in np.flatnonzero(series.values > longer_s):
            end, gap = float(series.at[at]), float(series.values[at])
            begin = min(float(series.at[at - 1]) if at else end, end - 1e9 * gap)
            yield Disturbance("hiccups", begin, end, thread, gap)


def _begun_late(monitors: Monitors) -> Iterator[Disturbance]:
    """Return the time from the load's start to the first look of a witness, where that is longer than two
    periods: a process that stood still just then reports no gap, since its witness had not started."""
    for thread, series in of_monitor(monitors, "generator", "hiccup_seconds").items():
        if len(series.at) < 2:
            continue
        first_ns, apart_ns = float(series.at[0]), float(np.median(np.diff(series.at)))
        if first_ns > 2 * apart_ns:
            yield Disturbance("hiccups", 0.0, first_ns, thread, first_ns / 1e9)


def _rates(check: str, of: Mapping[str, Series], weak: float, least_s: float = 0.0) -> Iterator[Disturbance]:
    """Return the looks in which a counter grew faster than its limit allows, and by more than `least_s`.

    A gap is no longer than the total wait of a thread in a look, and gaps below `least_s` are no disturbance.
    """
    for place, series in of.items():
        length_s, grown = np.diff(series.at) / 1e9, np.diff(series.values)
        share = grown / np.maximum(length_s, 1e-9)
        for at in np.flatnonzero((share > weak) & (grown > least_s)):
            yield Disturbance(check, float(series.at[at]), float(series.at[at + 1]), place, float(grown[at]))


def _steals(stolen: Mapping[str, Series]) -> Iterator[Disturbance]:
    """Return the looks in which a core lost time, within seconds that lost more than the limit: the kernel
    counts in ticks of 10 ms."""
    for core, series in stolen.items():
        at, values = series
        grown = np.diff(values)
        if not np.any(grown > 0):
            continue
        lost = _of_a_second(at, values) > limits.STEAL
        for look in np.flatnonzero((grown > 0) & lost):
            yield Disturbance("steal", float(at[look]), float(at[look + 1]), core, float(grown[look]))


def _of_a_second(at: Floats, values: Floats) -> Floats:
    """Return for each look the largest growth of the counter, as a share, in any second that contains the
    look; a shorter series counts as one second."""
    most = np.zeros(max(len(at) - 1, 0))
    later = np.minimum(np.searchsorted(at, at + _SECOND_NS), len(at) - 1)
    for first, last in enumerate(later[:-1]):
        span_s = max(float(at[last] - at[first]) / 1e9, 1.0)
        share = float(values[last] - values[first]) / span_s
        if share > 0:
            np.maximum(most[first:last], share, out=most[first:last])
    return most


def spans(moments: Iterable[Disturbance]) -> list[tuple[float, float]]:
    """Return the begin and end of each disturbance."""
    return [(one.begin_ns, one.end_ns) for one in moments]


def united(found: Iterable[tuple[float, float]], window: Window | None = None) -> list[tuple[float, float]]:
    """Merge spans into one list, joining those that touch; clip them to `window` where it is given."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(found):
        if window is not None:
            begin, end = max(begin, window.low_ns), min(end, window.high_ns)
        if end <= begin:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def within(moments: Iterable[Disturbance], window: Window) -> list[Disturbance]:
    """Return those that lie at least partly in the window."""
    return [one for one in moments if one.end_ns > window.low_ns and one.begin_ns < window.high_ns]


def covered(found: Spans) -> float:
    """Return their total length in ns; they must not overlap."""
    return sum(end - begin for begin, end in found)
