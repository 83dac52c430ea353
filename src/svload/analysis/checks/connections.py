"""Were connections and TLS sessions used as planned? Parts of the manipulation check (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from svload.analysis import limits
from svload.analysis.checks.base import Context, Part, worst
from svload.analysis.measures import counter_deltas
from svload.analysis.recovery import disturbing, service_of
from svload.analysis.view import GroupView
from svload.model.executors import ClosedLoop
from svload.model.faults import ENDS_PROCESSES
from svload.model.request_errors import BEFORE_TLS
from svload.model.results import Grade
from svload.model.units import show_percent

if TYPE_CHECKING:
    from svload.store import TrialData

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
    told: str
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
        _group(
            group,
            group.name in context.compared_reuse,
            sum(service in group.spec.hosts for service in ends),
        )
        for group in context.groups
    ]
    grade = worst(*(used.grade for used in found))
    told = "; ".join(used.told for used in found if used.grade != "VALID" or grade == "VALID")
    planned = max((one.off for one in found), default=0.0) <= limits.REUSE
    return Part(
        grade,
        f"connections were used {'as planned' if planned else 'not as planned'}: {told}",
        "Set connection: new in the group, or let the server (or its front end) keep connections open.",
    )


def _group(group: GroupView, compared: bool, ends: int = 0) -> Used:
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
        told = (
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests "
            f"({show_percent(off)} off a new one each)"
        )
        return Used(off, told, True)
    slots = _slots(group)
    slots = None if slots is None else slots * (1 + ends)
    if slots is None:
        told = f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests"
        return Used(0.0, told, compared)
    extra = max(summary.connections_opened - slots - summary.failed, 0)
    if extra / begun > _EACH_CLOSED:
        told = (
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests, not "
            f"{slots:,}: the server closes each after its answer"
        )
        return Used(extra / begun, told, compared)
    told = (
        f"{group.name} opened {summary.connections_opened:,} of {slots:,} meant, with {summary.failed:,} "
        f"failures ({show_percent(extra / begun)} of requests on others)"
    )
    return Used(extra / begun, told, compared)


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
    wrong = [told for group in context.groups for told in _wrong(group)]
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
