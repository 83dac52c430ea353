"""Connections opened are those that the plan means: one a request with `new`, one a user (or slot) with
`keep-alive` (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent, worst
from svload.analysis.recovery import disturbing, service_of
from svload.analysis.view import GroupView
from svload.model.executors import ClosedLoop
from svload.model.faults import ENDS_PROCESSES
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig

_NEVER_OPEN = (
    "connect_refused",
    "connect_timeout",
    "connect_reset",
    "connect_unreachable",
    "emfile",
    "eaddrnotavail",
    "enobufs",
    "unauthorised_target",
    "lookup",
)
_EACH_CLOSED = 0.9
"""Where more requests than this share opened a connection that was not meant, the server keeps none."""

if TYPE_CHECKING:
    from svload.store import TrialData


class Used(NamedTuple):
    """A group's connections: the share of requests on ones that were not planned, that in words, and whether the
    study asks for this use of them."""

    off: float
    told: str
    asked: bool

    @property
    def grade(self) -> Grade:
        """A server that ends connections is what its users meet; where how they are used is compared, or a new one
        is asked for each request, it is another case than its name says."""
        return "REFUSED" if self.off > limits.REUSE and self.asked else "VALID"


class ConnectionReuse(Check):
    """REFUSED beyond 2 % of requests on connections that were not planned, where the study compares how they are
    used, or asks for a new one each; else told.

    Failures, and a planned end of the server, open a new connection for the user's next request.
    """

    name = "connection-reuse"
    row = "manipulation checks: connections opened ≠ planned reuse"
    order = 33
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Each group against its own plan."""
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
        how = (
            "as planned"
            if max((one.off for one in found), default=0.0) <= limits.REUSE
            else "otherwise than planned"
        )
        return self.result(
            grade,
            f"Connections were used {how}: {told}.",
            max((used.off for used in found), default=0.0),
            limits.REUSE,
            "Write connection: new in the group, or let the server (or its front) keep connections open.",
        )


def _group(group: GroupView, compared: bool, ends: int = 0) -> Used:
    """`ends`: how often a planned fault ended the server, and with it every connection that was kept."""
    summary = group.summary
    begun = max(summary.begun, 1)
    if group.spec.connection == "new" or all(request.ends_connection for request in group.spec.requests):
        never = sum(summary.errors.get(name, 0) for name in _NEVER_OPEN)
        redirects = summary.connections_opened if _redirected(group) else summary.begun
        missing = summary.begun - never - summary.in_flight - summary.connections_opened
        extra = summary.connections_opened - max(summary.begun, redirects)
        off = max(missing, extra, 0) / begun
        told = (
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests "
            f"({percent(off)} off a new one each)"
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
        f"failures ({percent(extra / begun)} of requests on others)"
    )
    return Used(extra / begun, told, compared)


def _redirected(group: GroupView) -> bool:
    return any(request.follow_redirects for request in group.spec.requests)


def _slots(group: GroupView) -> int | None:
    """Connections that the plan means; where the server chose HTTP/1.1, users share none."""
    executor = group.spec.executor
    slots = executor.most_vus if isinstance(executor, ClosedLoop) else executor.max_vus
    if slots is None or group.summary.http2.fallbacks:
        return slots
    anywhere = any(request.url is not None for request in group.spec.requests)
    return None if anywhere else group.spec.connections(slots) * len(group.spec.endpoints)
