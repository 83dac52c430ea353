"""The moments in which the machine's own readings show a disturbance of a trial, never its responses
(docs/method.md §3, *Counting*).

Four checks find them: gaps of the load's threads and passes of their loops (`hiccups`), waits for a
core (`run-queue`), time that the hypervisor gave to others (`steal`), CPU of processes that are no part
of the measurement (`others-cpu`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """One disturbed moment. `lost_s`: how long a thread stood still in it, or of foreign
    CPU how much of a core it cost."""

    check: str
    begin_ns: float
    end_ns: float
    where: str
    lost_s: float
    severe: bool
    """so strong that what is due in it may be left out"""
    gap: bool = False
    """one stretch of standing still: it delays nothing by more than its length"""


@dataclass(frozen=True)
class Found:
    """All that one trial's readings show up to its kept window's end."""

    moments: tuple[Disturbance, ...]
    rest: Mapping[str, float] = field(default_factory=dict)
    """by check: what remains below its WEAK limit, as a share of the window"""
    cores: int = 1
    """the machine's: others' CPU is told as a share of all of them, and may all have been of one"""

    @property
    def lost_s(self) -> float:
        """All that the moments cost, their threads and cores together; of foreign CPU as if one core had borne it."""
        return sum(one.lost_s * (self.cores if one.check == "others-cpu" else 1) for one in self.moments)

    def of(self, check: str) -> list[Disturbance]:
        """The moments that one check found."""
        return [one for one in self.moments if one.check == check]

    def lost_within(self, window: Window) -> float:
        """The time of the window that was lost to them: of each what it took, and together no more than they cover."""
        lost = 0.0
        for one in within(self.moments, window):
            inside_s = (min(one.end_ns, window.high_ns) - max(one.begin_ns, window.low_ns)) / 1e9
            lost += min(one.lost_s * (self.cores if one.check == "others-cpu" else 1), inside_s)
        return min(lost, covered(united(spans(self.moments), window)) / 1e9)

    def share(self, check: str, window: Window) -> float:
        """The part of the window that one check's moments cover."""
        return covered(united(spans(self.of(check)), window)) / max(window.high_ns - window.low_ns, 1)

    def within(self, check: str) -> float:
        """How much of its own moments a check's disturbance takes, all threads and cores apart: lost over
        disturbed time, the worst of them."""
        by_place: dict[str, tuple[float, float]] = {}
        for one in self.of(check):
            lost, length = by_place.get(one.where, (0.0, 0.0))
            by_place[one.where] = (lost + one.lost_s, length + (one.end_ns - one.begin_ns) / 1e9)
        return max((lost / length for lost, length in by_place.values() if length > 0), default=0.0)


def disturbances_of(monitors: Monitors, window: Window) -> Found:
    """What disturbed the trial up to its kept window's end, and what remains below the limits within it.

    What ended before the window may still be felt in it: who counts knows that.
    """
    cores = max(len(of_monitor(monitors, "host", "busy_seconds_total")), 1)
    waits = of_monitor(monitors, "generator", "run_queue_seconds_total")
    stolen = of_monitor(monitors, "host", "steal_seconds_total")
    foreign = _foreign_here(monitors, cores)
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
    series = {"run-queue": waits, "steal": stolen, "others-cpu": foreign}
    rest = {
        check: max((_rest(one, place, window, moments, check) for place, one in of.items()), default=0.0)
        for check, of in series.items()
    }
    return Found(moments, rest, cores)


def _foreign_here(monitors: Monitors, cores: int) -> dict[str, Series]:
    """Others' CPU as a share of the cores where servers and load ran; of all of them where nobody looked where that was.

    On a machine with many cores what takes all of the server's one is a small part of the whole.
    """
    concerned = of_monitor(monitors, "others", "concerned_seconds_total")
    others = of_monitor(monitors, "others", "cpu_seconds_total")
    return concerned or {place: Series(one.at, one.values / cores) for place, one in others.items()}


def strangers_share(monitors: Monitors, window: Window) -> float | None:
    """Share of the machine that strangers had in the window: CPU of other processes, and the larger of what
    the hypervisor took and of the gaps in which a core of the load ran nobody, over all cores' time.

    Of several machines the largest. Where others' CPU was not read, how long the load's threads waited for a core; where
    that was not either, None. A comparison weighs its pairs by it (docs/method.md §2), and waits are in it only so:
    they are the server's doing as well.
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
    """Cores' worth of time that nobody on this machine had: stolen, or seen as gaps by the load's witnesses."""
    stolen = sum(
        mean_rate(series, window) or 0.0
        for series in of_monitor(monitors, "host", "steal_seconds_total").values()
    )
    gaps = within(list(_gaps(monitors, "gap_seconds", "hiccup_seconds", limits.GAP_S)), window)
    length_s = max(window.high_ns - window.low_ns, 1) / 1e9
    return max(stolen, sum(one.lost_s for one in gaps) / length_s)


def unread(monitors: Monitors, services: Iterable[ServiceFacts]) -> list[str]:
    """The services whose machine nobody read: they ran already, elsewhere."""
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
    """Others' CPU on the machines of a fleet that made load, each as a share of its own cores."""
    cores = Counter(core.partition("/")[0] for core in of_monitor(monitors, "fleet", "busy_seconds_total"))
    return {
        machine: Series(series.at, series.values / max(cores[machine], 1))
        for machine, series in of_monitor(monitors, "fleet", "others_cpu_seconds_total").items()
    }


def _gaps(monitors: Monitors, exact: str, look: str, longer_s: float) -> Iterator[Disturbance]:
    """Gaps above a length: each where its readings tell so, else the look in which the longest lay."""
    precise = of_monitor(monitors, "generator", exact)
    for thread, series in precise.items():
        for at, gap in zip(*series, strict=True):
            if gap > longer_s:
                yield Disturbance("hiccups", float(at - 1e9 * gap), float(at), thread, float(gap), True, True)
    for thread, series in {} if precise else of_monitor(monitors, "generator", look).items():
        for at in np.flatnonzero(series.values > longer_s):
            end, gap = float(series.at[at]), float(series.values[at])
            begin = min(float(series.at[at - 1]) if at else end, end - 1e9 * gap)
            yield Disturbance("hiccups", begin, end, thread, gap, _is_fine((end - begin) / 1e9 - gap), True)


def _begun_late(monitors: Monitors) -> Iterator[Disturbance]:
    """From the load's begin to the first look of a witness that came later than two looks lie apart: a process that stood
    still just then has no gap to tell of, for its witness had not begun."""
    for thread, series in of_monitor(monitors, "generator", "hiccup_seconds").items():
        if len(series.at) < 2:
            continue
        first_ns, apart_ns = float(series.at[0]), float(np.median(np.diff(series.at)))
        if first_ns > 2 * apart_ns:
            yield Disturbance("hiccups", 0.0, first_ns, thread, first_ns / 1e9, False, True)


def short_gaps(monitors: Monitors, window: Window) -> list[Disturbance]:
    """The longest gap of each look of the window, where it is so short that no gap of it is kept by itself.

    Nobody knows where in the look it lay: it is told at the look's end.
    """
    found = []
    for thread, series in of_monitor(monitors, "generator", "hiccup_seconds").items():
        for at, gap in zip(*series, strict=True):
            if 0 < gap <= limits.GAP_S and window.low_ns < at <= window.high_ns:
                found.append(Disturbance("hiccups", float(at - 1e9 * gap), float(at), thread, float(gap), False, True))  # fmt: skip
    return found


def _is_fine(look_s: float) -> bool:
    """Whether readings are so close that what is due between two of them may be left out: whole
    seconds left out make a number worse.
    """
    return look_s <= limits.FINE_LOOK_S


def _rates(
    check: str,
    of: Mapping[str, Series],
    weak_refused: tuple[float, float],
    least_s: float = 0.0,
) -> Iterator[Disturbance]:
    """The looks in which a counter grew faster than its WEAK limit allows, and by more than `least_s`.

    All that a thread waited in a look makes no longer a gap than that, and gaps so short are no disturbance.
    """
    weak, refused = weak_refused
    for place, series in of.items():
        length_s, grown = np.diff(series.at) / 1e9, np.diff(series.values)
        share = grown / np.maximum(length_s, 1e-9)
        for at in np.flatnonzero((share > weak) & (grown > least_s)):
            yield Disturbance(
                check,
                float(series.at[at]),
                float(series.at[at + 1]),
                place,
                float(grown[at]),
                bool(share[at] > refused and _is_fine(length_s[at])),
                check == "run-queue",
            )


def _steals(stolen: Mapping[str, Series]) -> Iterator[Disturbance]:
    """The looks in which a core lost time, within seconds that lost more than the WEAK limit: the
    kernel counts in ticks of 10 ms."""
    weak, refused = limits.STEAL
    for core, series in stolen.items():
        at, values = series
        grown = np.diff(values)
        if not np.any(grown > 0):
            continue
        lost = _of_a_second(at, values) > weak
        for look in np.flatnonzero((grown > 0) & lost):
            length_s = float(at[look + 1] - at[look]) / 1e9
            # A tick that was counted may stand for up to half of one more.
            most_s = float(grown[look]) + limits.STEAL_TICK_S / 2
            severe = most_s > refused * length_s and _is_fine(length_s)
            yield Disturbance(
                "steal", float(at[look]), float(at[look + 1]), core, float(grown[look]), severe, True
            )


def _of_a_second(at: Floats, values: Floats) -> Floats:
    """By look: the largest share that the counter grew in any second that holds the look; a
    shorter series counts as one second."""
    most = np.zeros(max(len(at) - 1, 0))
    later = np.minimum(np.searchsorted(at, at + _SECOND_NS), len(at) - 1)
    for first, last in enumerate(later[:-1]):
        span_s = max(float(at[last] - at[first]) / 1e9, 1.0)
        share = float(values[last] - values[first]) / span_s
        if share > 0:
            np.maximum(most[first:last], share, out=most[first:last])
    return most


def _rest(series: Series, place: str, window: Window, moments: Iterable[Disturbance], check: str) -> float:
    inside = series.enclosing(window)
    if inside.seconds <= 0:
        return 0.0
    told = sum(one.lost_s for one in within(moments, window) if one.check == check and one.where == place)
    return max(inside.change - told, 0.0) / inside.seconds


def spans(moments: Iterable[Disturbance], around_ns: float = 0.0) -> list[tuple[float, float]]:
    """Their begins and ends, widened on both sides."""
    return [(one.begin_ns - around_ns, one.end_ns + around_ns) for one in moments]


def united(found: Iterable[tuple[float, float]], window: Window | None = None) -> list[tuple[float, float]]:
    """Spans as one list, those that touch joined; only what lies in `window` where it is given."""
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
    """Those that lie in the window, at least in part."""
    return [one for one in moments if one.end_ns > window.low_ns and one.begin_ns < window.high_ns]


def covered(found: Spans) -> float:
    """Their length in ns; they must be apart."""
    return sum(end - begin for begin, end in found)
