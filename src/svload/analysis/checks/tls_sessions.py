"""HTTPS requests all ran on connections with a TLS session; handshakes and resumptions
are counted (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.measures import counter_deltas
from svload.analysis.view import GroupView
from svload.model.request_errors import BEFORE_TLS
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class TlsSessions(Check):
    """REFUSED where an https group has a connection without a session, an http group one with,
    or resumption was not as asked."""

    name = "tls-sessions"
    row = "manipulation checks: HTTPS requests all on connections with a TLS session"
    order = 32
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """By the generators' counts, the rows, and the servers' counters where they are offered."""
        wrong = [told for group in context.groups for told in _wrong(group)]
        counted, off = _by_servers(trial, context)
        wrong += off
        if wrong:
            return self.result(
                "REFUSED",
                f"TLS was not as asked: {'; '.join(wrong)}.",
                float(len(wrong)),
                0.0,
                "See the service's TLS front and the study's scheme.",
            )
        secure = [group for group in context.groups if "https" in _schemes(group)]
        if not secure:
            return self.result(
                "VALID", "No group asks for HTTPS, and no connection had a TLS session.", 0.0, 0.0
            )
        full, resumed = (
            sum(getattr(group.summary, name) for group in secure) for name in ("tls_full", "tls_resumed")
        )
        told = (
            f"All HTTPS requests ran on TLS sessions: {full:,} full handshakes, {resumed:,} resumed{counted}."
        )
        return self.result("VALID", told, 0.0, 0.0)


_AS_HTTP = {"tcp": "http", "tls": "https"}


def _schemes(group: GroupView) -> set[str]:
    """The schemes of a group's requests; the empty one where variables make an address."""
    return {_AS_HTTP.get(request.scheme, request.scheme) for request in group.spec.requests}


def _wrong(group: GroupView) -> list[str]:
    summary, sessions = group.summary, group.summary.tls_full + group.summary.tls_resumed
    schemes = _schemes(group)
    if len(schemes) != 1 or "" in schemes:
        # Which of its connections shall have a session is not told apart.
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
        wrong.append(f"{group.name} resumed {summary.tls_resumed:,} sessions and was told not to")
    return wrong


def _by_servers(trial: TrialData, context: Context) -> tuple[str, list[str]]:
    """(what the servers counted, for the sentence; where they contradict)."""
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
                f"({percent(abs(theirs - ours) / ours)} off)"
            )
    return f" ({', '.join(counted)})" if counted else "", wrong
