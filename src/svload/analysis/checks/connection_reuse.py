"""Connections opened are those that the plan means: one a request with `new`, one a user (or slot) with `keep-alive` (METHOD §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.view import GroupView
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.traffic import ClosedLoop

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


class ConnectionReuse(Check):
    """REFUSED beyond 2 % of requests on connections that were not planned.

    Failures open a new connection for the user's next request; a server that closes an idle or worn-out connection stays below 2 %.
    """

    name = "connection-reuse"
    row = "manipulation checks: connections opened ≠ planned reuse"
    order = 33

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Each group against its own plan."""
        found = [_group(group) for group in context.groups]
        wrong = [(off, told) for off, told in found if off > limits.REUSE]
        if wrong:
            remedy = (
                "Write connection: new in the group, or let the server (or its front) keep connections open."
            )
            return self.result(
                "REFUSED",
                f"Connections were not used as planned: {'; '.join(told for _, told in wrong)}.",
                max(off for off, _ in wrong),
                limits.REUSE,
                remedy,
            )
        return self.result(
            "VALID",
            f"Connections were used as planned: {'; '.join(told for _, told in found)}.",
            max((off for off, _ in found), default=0.0),
            limits.REUSE,
        )


def _group(group: GroupView) -> tuple[float, str]:
    summary = group.summary
    begun = max(summary.begun, 1)
    if group.spec.connection == "new" or all(request.ends_connection for request in group.spec.requests):
        never = sum(summary.errors.get(name, 0) for name in _NEVER_OPEN)
        redirects = summary.connections_opened if _redirected(group) else summary.begun
        missing = summary.begun - never - summary.in_flight - summary.connections_opened
        extra = summary.connections_opened - max(summary.begun, redirects)
        off = max(missing, extra, 0) / begun
        return (
            off,
            f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests ({percent(off)} off a new one each)",
        )
    slots = _slots(group)
    if slots is None:
        return 0.0, f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests"
    extra = max(summary.connections_opened - slots - summary.failed, 0)
    if extra / begun > _EACH_CLOSED:
        told = f"{group.name} opened {summary.connections_opened:,} for {summary.begun:,} requests, not {slots:,}: the server closes each after its answer"
        return extra / begun, told
    return (
        extra / begun,
        f"{group.name} opened {summary.connections_opened:,} of {slots:,} meant, with {summary.failed:,} failures ({percent(extra / begun)} of requests on others)",
    )


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
