"""Did the factor do what it says, and was each trial what its case says: expectations, repeats, connections
and TLS sessions, files in the page cache or read from a disk? (docs/method.md §3, manipulation checks)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, Part, worst
from svload.analysis.criteria import criterion_of, find, show
from svload.analysis.measures import counter_deltas
from svload.analysis.readings import readings_of, whole_of
from svload.analysis.recovery import disturbing, ended_services, service_of
from svload.analysis.view import GroupView, Window, first_feeder
from svload.model.executors import ClosedLoop
from svload.model.facts import FILES, RESIDENT_FILES
from svload.model.faults import ENDS_PROCESSES
from svload.model.request_errors import BEFORE_TLS
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.units import show_percent, show_size
from svload.store import TrialData


class Manipulation(Check):
    """REFUSED where an `expect` of the case does not hold or cannot be read (except for a service that ended
    in the trial), rows of a walk were requested again before it was over, TLS or connections were not used as
    requested, or files that should be in the page cache were not.

    WEAK where files that were dropped from the page cache were still there.
    """

    name = "manipulation"
    order = 30
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        parts = [
            *_expects(trial, config, context),
            *_repeats(config, context),
            *tls_sessions(trial, context),
            connection_reuse(trial, context),
            *warm_files(trial, config, context),
            *cold_files(trial, config, context),
        ]
        return self.of_parts(parts)


def _expects(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    held, broken = [], []
    fallen = {death.service.partition("[")[0] for death in trial.lab.deaths} | ended_services(trial)
    for text in config.expects:
        criterion = criterion_of(text, config, context.owners)
        estimate = find(criterion.ref, context.metrics)
        shown = show(criterion.ref, estimate.value)
        if estimate.value is not None and criterion.holds(estimate.value):
            held.append(f"{text} (it was {shown})")
        elif estimate.value is None and criterion.ref.owner in fallen:
            held.append(f"{text} (its counters were lost with {criterion.ref.owner})")
        elif estimate.value is None:
            broken.append(f"{text} could not be read: {estimate.reason}")
        else:
            broken.append(f"expected {text}, got {shown}")
    if broken:
        remedy = "Make the level take effect (check the service's settings and reset), or correct its expect."
        yield Part("REFUSED", f"the factor did not take effect: {'; '.join(broken)}", remedy)
    elif held:
        yield Part("VALID", f"the factors took effect: {'; '.join(held)}")


def _repeats(config: CaseConfig, context: Context) -> Iterator[Part]:
    """Check repeats: `take: walk` plans none before the whole table was seen; other ways of taking rows
    do."""
    walks = {feeder.name for feeder in config.feeders if feeder.take == "walk"}
    walking = [group for group in context.groups if first_feeder(group.spec) in walks]
    again = [(group.name, group.summary.early_repeats) for group in walking if group.summary.early_repeats]
    if again:
        text = ", ".join(f"{name} {count:,} times" for name, count in again)
        remedy = "This is a bug in the load engine or the feeder: report it with this trial."
        yield Part("REFUSED", f"rows were requested again before the walk was complete: {text}", remedy)
    elif walking:
        names = ", ".join(group.name for group in walking)
        yield Part("VALID", f"no row was requested again before the whole table had been walked ({names})")


_NEVER_OPEN = [
    "connect_refused",
    "connect_timeout",
    "connect_reset",
    "connect_unreachable",
    "emfile",
    "eaddrnotavail",
    "enobufs",
    "unauthorised_target",
    "lookup",
]
_EACH_CLOSED = 0.9
"""Where a larger share of requests than this opened an unplanned connection, the server keeps none alive."""


class Used(NamedTuple):
    """A group's connections: the share of requests on unplanned ones, that in words, and whether the study
    asks for this use of them."""

    off: float
    text: str
    asked: bool

    @property
    def grade(self) -> Grade:
        """Return the grade. A server that ends connections does so to real users, too; but where the use of
        connections is compared, or each request should have a new one, the case is not what its name says."""
        return "REFUSED" if self.off > limits.REUSE and self.asked else "VALID"


def connection_reuse(trial: TrialData, context: Context) -> Part:
    """Check for one connection per request with `new`, one per user (or slot) with `keep-alive`: REFUSED
    beyond 2 % of requests on others, where the study compares how connections are used, or asks for a new one
    each; else only reported.

    After a failure, or a planned end of the server, the user's next request opens a new connection.
    """
    ends = [service_of(one) for one in disturbing(trial) if one.do in ENDS_PROCESSES]
    found = [
        _used(
            group, group.name in context.compared_reuse, sum(service in group.spec.hosts for service in ends)
        )
        for group in context.groups
    ]
    grade = worst(*(used.grade for used in found))
    text = "; ".join(used.text for used in found if used.grade != "VALID" or grade == "VALID")
    planned = max((one.off for one in found), default=0.0) <= limits.REUSE
    return Part(
        grade,
        f"connections were used {'as planned' if planned else 'not as planned'}: {text}",
        "Set connection: new in the group, or let the server (or its front end) keep connections open.",
    )


def _used(group: GroupView, compared: bool, ends: int = 0) -> Used:
    """Check one group. `ends`: how often a planned fault ended the server, and with it every kept
    connection."""
    summary = group.summary
    begun = max(summary.begun, 1)
    if group.spec.connection == "new" or all(request.ends_connection for request in group.spec.requests):
        never = sum(summary.errors.get(name, 0) for name in _NEVER_OPEN)
        redirected = any(request.follow_redirects for request in group.spec.requests)
        redirects = summary.connections_opened if redirected else summary.begun
        missing = summary.begun - never - summary.in_flight - summary.connections_opened
        extra = summary.connections_opened - max(summary.begun, redirects)
        off = max(missing, extra, 0) / begun
        text = (
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests "
            f"({show_percent(off)} off a new one each)"
        )
        return Used(off, text, True)
    slots = _slots(group)
    slots = None if slots is None else slots * (1 + ends)
    if slots is None:
        text = f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests"
        return Used(0.0, text, compared)
    extra = max(summary.connections_opened - slots - summary.failed, 0)
    if extra / begun > _EACH_CLOSED:
        text = (
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests, not "
            f"{slots:,}: the server closes each after its response"
        )
        return Used(extra / begun, text, compared)
    text = (
        f"{group.name} opened {summary.connections_opened:,} instead of {slots:,}, with {summary.failed:,} "
        f"failures ({show_percent(extra / begun)} of requests on others)"
    )
    return Used(extra / begun, text, compared)


def _slots(group: GroupView) -> int | None:
    """Return the number of planned connections; where the server chose HTTP/1.1, users share none."""
    executor = group.spec.executor
    slots = executor.most_vus if isinstance(executor, ClosedLoop) else executor.max_vus
    if slots is None or group.summary.http2.fallbacks:
        return slots
    anywhere = any(request.url is not None for request in group.spec.requests)
    return None if anywhere else group.spec.connections(slots) * len(group.spec.endpoints)


def tls_sessions(trial: TrialData, context: Context) -> Iterator[Part]:
    """REFUSED where an https group has a connection without a session, an http group one with a session, or
    resumption was not as requested: by the generators' counts, the rows, and the servers' counters where they
    are offered."""
    wrong = [texts for group in context.groups for texts in _wrong(group)]
    counted, off = _by_servers(trial, context)
    wrong += off
    secure = [group.summary for group in context.groups if "https" in _schemes(group)]
    if wrong:
        yield Part(
            "REFUSED",
            f"TLS was not as requested: {'; '.join(wrong)}",
            "Check the service's TLS front end and the study's scheme.",
        )
    elif secure:
        full, resumed = sum(one.tls_full for one in secure), sum(one.tls_resumed for one in secure)
        yield Part(
            "VALID",
            f"all HTTPS requests ran on TLS sessions: {full:,} full handshakes, {resumed:,} resumed{counted}",
        )


_AS_HTTP = {"tcp": "http", "tls": "https"}


def _schemes(group: GroupView) -> set[str]:
    """Return the schemes of a group's requests; an empty one where variables form the address."""
    return {_AS_HTTP.get(request.scheme, request.scheme) for request in group.spec.requests}


def _wrong(group: GroupView) -> list[str]:
    summary, sessions = group.summary, group.summary.tls_full + group.summary.tls_resumed
    schemes = _schemes(group)
    if len(schemes) != 1 or "" in schemes:
        # It is not known which of its connections should have a session.
        return []
    if schemes == {"http"}:
        return [f"{group.name} asks for http and had {sessions} TLS sessions"] if sessions else []
    excused = sum(summary.errors.get(name, 0) for name in BEFORE_TLS) + summary.in_flight
    wrong = []
    if summary.connections_opened - sessions > excused:
        wrong.append(
            f"{group.name} opened {summary.connections_opened:,} connections and had {sessions:,} TLS sessions"
        )
    if group.rows is not None and bool((group.rows["ok"] & (group.rows["tls"] == 0)).any()):
        wrong.append(f"{group.name} has answers without a TLS session")
    if summary.ok and not sessions:
        wrong.append(f"{group.name} had no TLS session at all")
    if not group.spec.tls_resumption and summary.tls_resumed:
        wrong.append(f"{group.name} resumed {summary.tls_resumed:,} sessions although it should not")
    return wrong


def _by_servers(trial: TrialData, context: Context) -> tuple[str, list[str]]:
    """Return (what the servers counted, for the sentence; where they contradict)."""
    counted, wrong = [], []
    for service in sorted({host for group in context.groups for host in group.spec.hosts}):
        asking = [group for group in context.groups if {service, ""} & group.spec.hosts]
        if any(len(group.spec.hosts) > 1 or "" in group.spec.hosts for group in asking):
            continue
        mine = [group.summary for group in asking]
        ours = sum(summary.tls_full + summary.tls_resumed for summary in mine)
        offered = counter_deltas(trial, service)
        if "tls_handshakes" not in offered or not ours:
            continue
        theirs = offered["tls_handshakes"] + offered.get("tls_resumed", 0.0)
        counted.append(f"{service} counted {theirs:,.0f}")
        excused = sum(summary.errors.get(name, 0) for summary in mine for name in BEFORE_TLS) + sum(
            summary.in_flight for summary in mine
        )
        if abs(theirs - ours) - excused > limits.TLS_COUNTED * ours:
            wrong.append(
                f"{service} counted {theirs:,.0f} sessions against {ours:,} of the generators "
                f"({show_percent(abs(theirs - ours) / ours)} off)"
            )
    return f" ({', '.join(counted)})" if counted else "", wrong


class FilesSent(NamedTuple):
    """One server over the whole load: its files and the share of them in the page cache at the start; bytes
    that the load received from it, those of them that were requested for the first time (None: not known),
    and those that it had a disk read (None: not counted)."""

    service: str
    files_bytes: float
    resident: float
    sent_bytes: float
    first_bytes: float | None
    read_bytes: float | None

    @property
    def reads(self) -> float:
        """Disk reads over the bytes that it sent; 0 where they are not known."""
        return (self.read_bytes or 0.0) / self.sent_bytes if self.sent_bytes else 0.0

    @property
    def from_disk(self) -> float | None:
        """Disk reads over the bytes that had to come from there: those that were requested for the first
        time."""
        if self.read_bytes is None or not self.first_bytes:
            return None
        return self.read_bytes / self.first_bytes

    @property
    def cold(self) -> bool:
        """Disk reads above 1 % of the bytes sent, or less than 99 % resident at the start."""
        return self.resident < limits.RESIDENT or self.reads > limits.DISK_READS

    @property
    def warm(self) -> bool:
        """More than 1 % resident at the start, or a disk read less than 90 % of what was first sent."""
        unread = self.from_disk is not None and self.from_disk < limits.COLD_READS
        return self.resident > limits.COLD or unread

    def of_cold(self) -> str:
        """Describe what is known of dropped files."""
        whole = f"the {show_size(self.files_bytes)} of {self.service}"
        text = f"at the start it held {show_percent(self.resident)} of {whole}"
        if self.read_bytes is None:
            return f"{text}, and it was not counted what came from a disk"
        if self.from_disk is None or self.first_bytes is None:
            return (
                f"{text}; a disk read {show_size(self.read_bytes)} for the {show_size(self.sent_bytes)} that it "
                "sent, but it is unknown how much of that it had sent before"
            )
        return (
            f"{text}; {show_percent(min(self.from_disk, 1.0))} of what it sent for the first time "
            f"({show_size(self.first_bytes)} of {show_size(self.sent_bytes)}) came from a disk"
        )


def warm_files(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    """REFUSED where less than 99 % of a server's files were in the page cache at the start, or it had a disk
    read more than 1 % of what it sent over the whole load.

    svload writes the files before the first trial, and an idle machine may drop them again.
    """
    dropped = {service for step in config.before_trial for service in step.drop_cache}
    asked = {service for group in context.groups for service in group.spec.hosts} - dropped
    found = [one for name in sorted(asked) if (one := _sent(trial, name, context)) is not None]
    cold = [one for one in found if one.cold]
    if found:
        text = "; ".join(
            f"{one.service} had {show_percent(one.resident)} of its {show_size(one.files_bytes)} of files in the page cache "
            f"at the start and read {show_percent(one.reads)} of what it sent from a disk"
            for one in (cold or found)
        )
        yield Part(
            "REFUSED" if cold else "VALID",
            f"the page cache was {'not warm' if cold else 'warm'}: {text}",
            "Warm the files right before the load (before_trial: warm), or give the server memory for them.",
        )


def cold_files(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    """WEAK where more than 1 % of a server's files were in the page cache at the start although a step before
    the trial dropped them, or where a disk read less than 90 % of what it sent for the first time.

    Files mapped by a process, and files on a file system without a disk (tmpfs), cannot be dropped. What was
    requested for the first time is known from the feeder that the requests name first, one row per file: the
    share of distinct rows among those requested, at most all files.
    """
    dropped = dict.fromkeys(service for step in config.before_trial for service in step.drop_cache)
    found = [one for name in dropped if (one := _sent(trial, name, context)) is not None]
    warm = [one for one in found if one.warm]
    if found:
        yield Part(
            "WEAK" if warm else "VALID",
            f"files were dropped from the page cache, and {'; '.join(one.of_cold() for one in (warm or found))}",
            "Put the files on a disk, let no process map them, and make drop_cache the last step.",
        )


def _sent(trial: TrialData, service: str, context: Context) -> FilesSent | None:
    """Return what a server sent of its files; None for one that does not report them."""
    before = trial.lab.before.get(service)
    if before is None or not before.values.get(FILES):
        return None
    asking = [group for group in context.groups if service in group.spec.hosts]
    files_bytes = before.values[FILES]
    first = _first_bytes(trial, asking)
    return FilesSent(
        service,
        files_bytes,
        before.values[RESIDENT_FILES] / files_bytes,
        sum(group.summary.bytes_received for group in asking),
        None if first is None else min(first, files_bytes),
        _disk_reads(trial, service),
    )


def _disk_reads(trial: TrialData, service: str) -> float | None:
    """Return the bytes that a server's processes had a disk read from the load's start to its end; None: not
    counted."""
    read = whole_of(readings_of(trial.monitors).metric(service, "read_bytes_total"))
    if not read:
        return None
    interval_ns = trial.summary.interval_ns
    whole = Window(0, -(-trial.summary.window_ns[1] // interval_ns), interval_ns)
    return sum(series.enclosing(whole).growth for series in read)


def _first_bytes(trial: TrialData, asking: list[GroupView]) -> float | None:
    """Return the first-time bytes of what these groups received; None where one of them uses no rows."""
    by_feeder: dict[str | None, list[GroupView]] = {}
    for group in asking:
        by_feeder.setdefault(first_feeder(group.spec), []).append(group)
    if not asking or None in by_feeder:
        return None
    total = 0.0
    for groups in by_feeder.values():
        mine = np.isin(trial.rows["group"], [group.index for group in groups])
        asked = float(trial.rows["asked"][mine].sum())
        if not asked:
            return None
        distinct = len(np.unique(trial.rows["row"][mine]))
        total += distinct / asked * sum(group.summary.bytes_received for group in groups)
    return total
