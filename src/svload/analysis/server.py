"""The server's verdict: STEADY, SATURATED, OVERLOADED or UNKNOWN. It is a finding about the server, never a refusal (docs/method.md §3).

Open loop: OVERLOADED where the backlog (due and not completed) grows over the kept window by more than 5 % of what was due while the
generator is clean; SATURATED where it keeps up but half of the median response is waiting for a slot; else STEADY.
Closed loop: users wait for their answers, so nothing piles up before the server: STEADY where response and throughput do not drift, else
UNKNOWN. Either is SATURATED where a server's own monitors show it at a limit: all its workers at work and requests waiting for one, its most
threads reached, sessions dropped, an accept queue of its own overflowing; what no monitor offers can't be told. Load in stages, or a fixed amount of
work, seeks no steady state, and where most requests failed none was seen: UNKNOWN unless it is OVERLOADED. A trial with several groups has the worst of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from svload.analysis import limits
from svload.analysis.checks import Context
from svload.analysis.checks.steadiness import drifts
from svload.analysis.series import backlog_grows, backlog_growth
from svload.analysis.view import GroupView
from svload.model.results import CheckResult, Estimate, ServerState

GROWS = "grows with run length"
_SEVERITY: tuple[ServerState, ...] = ("STEADY", "UNKNOWN", "SATURATED", "OVERLOADED")
_CLEAN = ("generator-harm", "load-asked", "identities", "little")


def most_severe(states: Iterable[ServerState]) -> ServerState:
    """OVERLOADED before SATURATED before UNKNOWN before STEADY."""
    return max(states, key=_SEVERITY.index, default="UNKNOWN")


def server_state(
    context: Context, checks: Iterable[CheckResult], at_limit: tuple[str, ...] = ()
) -> tuple[ServerState, tuple[str, ...]]:
    """(state, sentences for anything but STEADY). `at_limit`: clauses of `saturation.saturated`."""
    medians = [f"{group.name}.response.p50" for group in context.groups]
    refused = [
        check.check
        for check in checks
        if check.check in _CLEAN and any(check.on(median) == "REFUSED" for median in medians)
    ]
    if refused:
        return "UNKNOWN", (f"The server's state is unknown: the instrument failed {', '.join(refused)}.",)
    found = [_state(group, context) for group in context.groups]
    if at_limit and any(group.shape == "constant" for group in context.groups):
        found.append(("SATURATED", f"The server works at its limit: {'; '.join(at_limit)}."))
    state = most_severe(state for state, _ in found)
    return state, tuple(sentence for _, sentence in found if sentence)


def overloaded_groups(context: Context) -> list[str]:
    """Groups whose backlog grows beyond the limit: their percentiles grow with the run's length."""
    return [group.name for group in context.groups if backlog_grows(group)]


def _state(group: GroupView, context: Context) -> tuple[ServerState, str]:
    failed = int(group.intervals["failed"].sum())
    if failed > limits.MOSTLY_FAILED * (failed + group.ok) and not backlog_grows(group):
        share = 100 * failed / (failed + group.ok)
        return (
            "UNKNOWN",
            f"{group.name}: {share:.3g} % of its requests failed: no steady state of the server was seen.",
        )
    return _closed(group, context) if group.closed else _open(group, context)


def _open(group: GroupView, context: Context) -> tuple[ServerState, str]:
    if backlog_grows(group):
        return "OVERLOADED", (
            f"{group.name}: the backlog grew by {100 * backlog_growth(group)[0]:.3g} % of what was due with a clean generator: "
            "the server can't keep up, and its percentiles grow with the run's length."
        )
    if group.shape != "constant":
        return _unsought(group)
    wait, response = (
        _value(context.metrics, f"{group.name}.slot_wait.p50"),
        _value(context.metrics, f"{group.name}.response.p50"),
    )
    if wait and response and wait > limits.SLOTS_FULL * response:
        return "SATURATED", f"{group.name}: more than half of the median response is waiting for a free slot."
    return "STEADY", ""


def _unsought(group: GroupView) -> tuple[ServerState, str]:
    what = "load in stages" if group.shape == "ramping" else "a fixed amount of work"
    return "UNKNOWN", f"{group.name}: {what} seeks no steady state of the server."


def _closed(group: GroupView, context: Context) -> tuple[ServerState, str]:
    if group.shape != "constant":
        return _unsought(group)
    drifting = [
        what for what, one in drifts(context).items() if one.unsteady and what.startswith(f"{group.name}.")
    ]
    return (
        ("UNKNOWN", f"{', '.join(drifting)} drifts: no steady state of the server was seen.")
        if drifting
        else ("STEADY", "")
    )


def _value(metrics: Mapping[str, Estimate], name: str) -> float | None:
    estimate = metrics.get(name)
    return estimate.value if estimate else None
