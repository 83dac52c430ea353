"""What the generators wrote compared with what the servers counted: requests, bytes, statuses, ± what was in
flight; and whether the study's own servers were started from the same programs in all trials (docs/method.md
§3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above
from svload.analysis.measures import counter_deltas
from svload.analysis.view import GroupView
from svload.model.facts import other_programs
from svload.model.request_errors import IN_DOUBT
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData


@dataclass(frozen=True)
class Compared:
    """One count of one service: ours, theirs, and how many may differ since they were in flight or torn."""

    what: str
    ours: float
    theirs: float
    slack: float

    @property
    def off(self) -> float:
        """Deviation beyond this tolerance, as a share of ours."""
        return max(abs(self.theirs - self.ours) - self.slack, 0.0) / max(self.ours, self.theirs, 1.0)

    def __str__(self) -> str:
        slack = f" ± {self.slack:,.0f} in flight" if self.slack else ""
        return f"{self.what} {self.theirs:,.0f} against {self.ours:,.0f}{slack}"


class Reconciliation(Check):
    """WEAK above 0.5 %, REFUSED above 2 % of what was written. Counts that a service does not offer are
    named."""

    name = "reconciliation"
    order = 34
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge every service that a group names in its URLs; one behind another is judged through the
        other's fetches."""
        hosts = sorted({host for group in context.groups for host in group.spec.hosts} - {""})
        compared, missing = [], []
        for host in hosts:
            mine = [group for group in context.groups if {host, ""} & group.spec.hosts]
            several = [group.name for group in mine if len(group.spec.hosts) > 1 or "" in group.spec.hosts]
            if several:
                missing.append(
                    f"{host} has no separate count for {', '.join(several)}, which also use other hosts"
                )
                continue
            offered = counter_deltas(trial, host)
            found, lacking = _compare(host, mine, offered, _forwarded(trial, config, host, hosts))
            compared += found
            missing += [f"{host} doesn't count {name}" for name in lacking]
        text = f" Not reconciled: {', '.join(missing)}." if missing else ""
        if not compared:
            return self.result("VALID", f"No server has a count to compare with the requests sent.{text}")
        most = max(compared, key=lambda one: one.off)
        grade = above(most.off, limits.RECONCILED)
        limit = limits.RECONCILED[1 if grade == "REFUSED" else 0]
        if grade == "VALID":
            return self.result(
                grade,
                f"The servers' counts match the requests sent: {'; '.join(map(str, compared))}.{text}",
                most.off,
                limit,
            )
        remedy = (
            "Make sure that nothing else uses this server during the trial, and that its counters are read "
            "after they settled."
        )
        return self.result(
            grade,
            f"A server's count differs from the requests sent: {most}, {show_percent(most.off)} off.{text}",
            most.off,
            limit,
            remedy,
        )


def _compare(
    host: str, groups: Sequence[GroupView], offered: Mapping[str, float], forwarded: float | None
) -> tuple[list[Compared], list[str]]:
    asked = [_asked(group) for group in groups]
    slack = float(sum(doubtful for _, doubtful in asked))
    written = sum(counted for counted, _ in asked)
    raw = any(request.is_raw for group in groups for request in group.spec.requests)
    redirected = any(request.follow_redirects for group in groups for request in group.spec.requests)
    found: list[Compared] = []
    lacking = []
    alone = forwarded == 0
    if "requests" not in offered:
        lacking.append("requests")
    elif forwarded is None:
        lacking.append("requests separately from those of other services")
    elif redirected:
        lacking.append("requests separately from redirects")
    else:
        found.append(Compared(f"{host} requests", written + forwarded, offered["requests"], slack))
    statuses = _statuses(host, groups, offered, slack) if alone and not redirected else None
    found += [statuses] if statuses else []
    # Only HTTP has statuses.
    lacking += [] if statuses or raw else ["statuses of these requests separately"]
    # With another protocol, a server's own counts are sent the same way and are among its bytes.
    mine = alone and not redirected and not raw
    received = _bytes(host, groups, offered, slack, written) if mine else None
    found += [received] if received else []
    lacking += [] if received else ["bytes of these requests separately"]
    return found, lacking


def _asked(group: GroupView) -> tuple[float, float]:
    """Return how many requests of a group the server should have counted, and for how many that is uncertain.

    A dialogue that the server counts as several requests may have ended after any of them, unless its answer
    was complete.
    """
    summary, requests = group.summary, group.spec.requests
    doubtful = summary.in_flight + sum(summary.errors.get(name, 0) for name in IN_DOUBT)
    counts = {request.counts_as for request in requests}
    if counts == {1}:
        return summary.written, doubtful
    most = max(counts)
    whole = sum(summary.errors.get(name, 0) for name in ("check", "reply_error"))
    doubtful = (summary.in_flight + summary.failed - whole) * most
    if len(counts) == 1:
        return summary.written * most, doubtful
    counted = sum(
        step.begun * request.counts_as for step, request in zip(summary.steps, requests, strict=True)
    )
    return counted, doubtful


def _statuses(
    host: str, groups: Sequence[GroupView], offered: Mapping[str, float], slack: float
) -> Compared | None:
    theirs = {
        name.removeprefix("status."): count for name, count in offered.items() if name.startswith("status.")
    }
    if not theirs:
        return None
    ours: dict[str, int] = {}
    for group in groups:
        for status, count in group.summary.status.items():
            ours[status] = ours.get(status, 0) + count
    total = max(sum(ours.values()), 1)
    apart = {status: abs(theirs.get(status, 0.0) - ours.get(status, 0)) for status in {*ours, *theirs}}
    status = max(sorted(apart), key=lambda name: apart[name])
    shown = Compared(f"{host} status {status}", ours.get(status, 0), theirs.get(status, 0.0), slack)
    if shown.off and max(shown.ours, shown.theirs) < total:
        return Compared(
            f"{host} status {status} ({shown.theirs:,.0f} against {shown.ours:,.0f}) of all answers",
            total,
            total + apart[status],
            slack,
        )
    return shown


def _bytes(
    host: str, groups: Sequence[GroupView], offered: Mapping[str, float], slack: float, written: float
) -> Compared | None:
    """Return bytes of bodies, else of whole answers; one in flight may differ by the largest mean answer."""
    for ours_name, theirs_name in (("body_bytes", "body_bytes_out"), ("bytes_received", "bytes_out")):
        if theirs_name in offered:
            ours = float(sum(getattr(group.summary, ours_name) for group in groups))
            each = max(ours, offered[theirs_name]) / max(written, 1)
            return Compared(
                f"{host} {theirs_name.replace('_', ' ')}", ours, offered[theirs_name], slack * each
            )
    return None


def _forwarded(trial: TrialData, config: CaseConfig, host: str, hosts: Sequence[str]) -> float | None:
    """Return the requests that other targets of this case forward to `host`: their misses; None if one does
    not count them."""
    total = 0.0
    for service in config.services:
        if service.options.get("of") == host and service.name in hosts and service.name != host:
            misses = counter_deltas(trial, service.name).get("misses")
            if misses is None:
                return None
            total += misses
    return total


class Build(Check):
    """REFUSED where a program that a server was started from differs in a later trial: trials of two builds
    are never one case."""

    name = "build"
    order = 12
    scope = "all"
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        if not trial.lab.programs:
            return self.result("VALID", "No server was started from a program in the study's folder.")
        changed = other_programs(trial.lab.programs, context.programs)
        if changed:
            return self.result(
                "REFUSED",
                f"This trial used a different build than later trials: {', '.join(changed)} changed.",
                float(len(changed)),
                0.0,
                "Measure both builds in one study, as levels of a factor.",
            )
        return self.result("VALID", "All later trials used the same build.", 0.0, 0.0)
