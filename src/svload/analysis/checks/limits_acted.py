"""Did the limits of services take effect, and did links keep their latency? (docs/method.md §3, manipulation
checks)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, Part
from svload.analysis.ranges import harm
from svload.analysis.readings import Series, readings_of, total_rate, whole_of
from svload.analysis.recovery import service_of
from svload.analysis.view import Window, kept_window
from svload.model.facts import (
    BUFFERED,
    CPUS,
    DISK_READ,
    DISK_WRITE,
    LINK_LATENCY,
    LINK_RATE,
    LINK_SPEED,
    GroupFact,
    LinkFact,
    ServiceFacts,
)
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_percent, show_rate, show_size
from svload.store import TrialData


@dataclass(frozen=True)
class Kind:
    """One kind of limit: the setting for how much is allowed, the readings of what was used and of how long
    it held back.

    `held` empty: that is not counted, and it held back while it was used to 95 % from one reading to the
    next.
    """

    setting: str
    used: str
    held: str
    shown: Callable[[float], str]
    held_why: str


QUOTA = Kind(CPUS, "cpu_seconds_total", "throttled_seconds_total", lambda cores: f"{cores:g} cores", "quota")
LINK = Kind(
    LINK_RATE, "body_out_bytes_total", "link_held_seconds_total", lambda rate: f"{show_size(rate)}/s", "link"
)
READ = Kind(
    DISK_READ, "group_disk_read_bytes_total", "", lambda rate: f"{show_rate(rate)} of disk reads", "disk rate"
)
WRITE = replace(
    READ,
    setting=DISK_WRITE,
    used="group_disk_write_bytes_total",
    shown=lambda rate: f"{show_rate(rate)} of disk writes",
)
DISKS = (READ, WRITE)
OUT = Kind(LINK_SPEED, "link_out_bytes_total", "", lambda rate: f"{show_rate(rate)} of link", "link")
SPEEDS = (OUT, replace(OUT, used="link_in_bytes_total"))
"""Away from the server, and to it: a link acted if it acted in one direction."""
GROUP_USED = "group_cpu_seconds_total"
"""Total use of everything that shares a quota."""


@dataclass(frozen=True)
class Limit:
    """One limit in the kept window: use over what is allowed, and seconds held back (None: not read). It
    belongs to a service, or to a machine that contains several."""

    whose: str
    kind: Kind
    allowed: float
    use: float
    held_s: float | None

    @property
    def acted(self) -> bool:
        """docs/method.md §3: used to 95 %, or held back at all."""
        return bool(self.held_s) or self.use >= limits.LIMIT_ACTED

    def __str__(self) -> str:
        return (
            f"{self.whose} used {show_percent(self.use)} of its {self.kind.shown(self.allowed)} "
            f"and was {'held back' if self.kind.held else 'at it'} for {self.held_s or 0.0:.3g} s"
        )


class LimitsActed(Check):
    """WEAK where a limit of CPU, disk or link never acted, one of disk writes may not have held, or a link's
    packets were late."""

    name = "limits-acted"
    order = 34
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        window = kept_window(trial.summary, context.cut.cut_ns)
        parts = [*_limits_of(trial, window), *_disk_writes(trial), *_delay_lines(trial, window)]
        return self.of_parts(parts, "no service has a CPU, disk or link limit, and no link has a latency")


def _limits_of(trial: TrialData, window: Window) -> Iterator[Part]:
    """WEAK where a service used less than 95 % of its CPU quota, or of its disk's or link's rate, and was
    never held back by it in the kept window: a limit that never acted limits nothing."""
    found = [limit for facts in trial.lab.services for limit in _limits(trial, facts, window)]
    found += _of_groups(trial, window)
    found += [limit for facts in trial.lab.services for limit in _of_links(trial, facts, window)]
    unread = [limit for limit in found if limit.held_s is None]
    idle = [limit for limit in found if limit.held_s is not None and not limit.acted]
    text = "; ".join(str(limit) for limit in (idle or found))
    if unread:
        lacking = ", ".join(f"{limit.kind.held_why} of {limit.whose}" for limit in unread)
        yield Part("VALID", f"it was not measured how long the {lacking} held it back")
    if idle:
        remedy = "Make the limit smaller or the load larger, or leave the limit out."
        yield Part("WEAK", f"a limit was never reached: {text}", remedy)
    elif found and not unread:
        yield Part("VALID", f"limits were reached: {text}")


def _of_groups(trial: TrialData, window: Window) -> Iterator[Limit]:
    """Return each group's limits once, however many processes and services share it."""
    seen = set()
    for facts in trial.lab.services:
        for group in (
            facts.groups if facts.processes else ()
        ):  # a machine's group is read in a service within it
            if group.name not in seen:
                seen.add(group.name)
                yield from _of_group(trial, facts.service, group, window)


def _of_group(trial: TrialData, service: str, group: GroupFact, window: Window) -> Iterator[Limit]:
    def read(metric: str) -> list[Series]:
        return _series(trial, service, metric, group.name)

    if group.cpus:
        use, held_s = _used(read(GROUP_USED), window) / group.cpus, _held_s(read(QUOTA.held), window)
        yield Limit(group.name, QUOTA, group.cpus, use, held_s)
    for kind in DISKS:
        if allowed := group.held(kind.setting):
            yield _of_rate(group.name, kind, allowed, read(kind.used), window)


def _of_links(trial: TrialData, facts: ServiceFacts, window: Window) -> Iterator[Limit]:
    """Return each link once, in the direction with more use."""
    for link in facts.links:
        if allowed := link.held(LINK_SPEED):
            ways = (
                _of_rate(
                    link.name, kind, allowed, _series(trial, facts.service, kind.used, link.name), window
                )
                for kind in SPEEDS
            )
            yield max(ways, key=lambda one: (one.acted, one.use))


def _of_rate(whose: str, kind: Kind, allowed: float, read: Sequence[Series], window: Window) -> Limit:
    """Return a limit that held back while its counter grew by 95 % of what is allowed, or faster."""
    held_s = 0.0
    for series in read:
        inside = series.enclosing(window)
        lasted_s = np.diff(inside.at) / 1e9
        at_it = np.diff(inside.values) >= limits.LIMIT_ACTED * allowed * lasted_s
        held_s += float(lasted_s[at_it].sum())
    return Limit(whose, kind, allowed, _used(read, window) / allowed, held_s if read else None)


def _limits(trial: TrialData, facts: ServiceFacts, window: Window) -> Iterator[Limit]:
    """Return a link's limit; and, in a trial of an svload that gave each process a quota of its own, all
    quotas together."""
    for kind in (LINK,) if facts.groups else (QUOTA, LINK):
        found = next((setting.found for setting in facts.settings if setting.name == kind.setting), None)
        if found:
            allowed = float(found) * (max(1, len(facts.processes)) if kind is QUOTA else 1)
            used, held = (_series(trial, facts.service, metric) for metric in (kind.used, kind.held))
            yield Limit(facts.service, kind, allowed, _used(used, window) / allowed, _held_s(held, window))


def _held_s(read: Sequence[Series], window: Window) -> float | None:
    return sum(series.enclosing(window).growth for series in read) if read else None


def _used(read: Sequence[Series], window: Window) -> float:
    """Return the cores, or bytes a second, used on average in the window."""
    return total_rate(read, window) or 0.0


def _series(trial: TrialData, service: str, metric: str, entity: str | None = None) -> list[Series]:
    """Return a service's readings of a metric: one entity's, or the whole service's."""
    found = readings_of(trial.monitors).metric(service, metric)
    return whole_of(found) if entity is None else [found[entity]] if entity in found else []


VERSION_1 = "blkio"
"""The controller of such a group under version 1 of the kernel's control groups."""


def _disk_writes(trial: TrialData) -> Iterator[Part]:
    """WEAK where a service's disk writes are limited, from the start or by a planned fault, by version 1 of
    the kernel's control groups, which cannot attribute a later write."""
    groups = [(facts.service, group) for facts in trial.lab.services for group in facts.groups]
    limited = {group.name: VERSION_1 in group.paths for _, group in groups if group.held(DISK_WRITE)}
    for event in trial.lab.faults:
        if DISK_WRITE in event.limits and event.disturbs:
            mine = (group for service, group in groups if service == service_of(event))
            limited[event.target] = any(VERSION_1 in group.paths for group in mine)
    escaped = sorted(name for name, old in limited.items() if old)
    if escaped:
        yield Part(
            "WEAK",
            f"the limit of disk writes of {' and '.join(escaped)} may not have held: {BUFFERED}",
            "Use a machine with version 2 (Debian 12's own kernel), limit reads alone, or let the server write "
            "synchronously.",
        )
    elif limited:
        yield Part("VALID", "disk writes are limited, including buffered ones")


def _delay_lines(trial: TrialData, window: Window) -> Iterator[Part]:
    """WEAK where packets left a link's delay line, a process of this machine, later than due by more than 5 %
    of its latency on average, or it used 90 % of a core."""
    for facts in trial.lab.services:
        for link in facts.links:
            if link.delay_line:
                yield _delay_line(trial, facts.service, link, window)


def _delay_line(trial: TrialData, service: str, link: LinkFact, window: Window) -> Part:
    grown: dict[str, float] = {}
    lasted_s = 0.0
    for metric in ("delayed_packets_total", "delay_late_seconds_total", "delay_cpu_seconds_total"):
        read = _series(trial, service, metric, link.name)
        if not read:
            return Part("VALID", f"it was not measured how late the delay line of {link.name} was")
        inside = read[0].enclosing(window)
        grown[metric], lasted_s = inside.growth, inside.seconds
    late_s = 2 * grown["delay_late_seconds_total"] / max(grown["delayed_packets_total"], 1.0)
    cores = grown["delay_cpu_seconds_total"] / lasted_s if lasted_s else 0.0
    asked_s = link.held(LINK_LATENCY) or 0.0
    share = late_s / (asked_s or late_s or 1.0)
    late = share > limits.DELAY_LATE or cores > limits.DELAY_CPU
    return Part(
        "WEAK" if late else "VALID",
        f"the round trip of {link.name}, {show_duration(asked_s)}, was {show_duration(late_s)} longer on average, and "
        f"its delay line used {show_percent(cores)} of a core",
        "Reduce the load on that link, use a longer latency, or leave more of the machine idle.",
        (harm("timing", share, 0.0),) if late else (),
    )
