"""Does the load's own account add up, and was the requested load made? (docs/method.md §1, §3)

These are the engine's self-tests. Its tallies could all lose the same request, so those of an open loop are
compared with counters that share no code with them: arrivals by the plan's own arithmetic, ends by the
records, and what was left at the end by the gauge.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

import numpy as np

from svload.analysis import limits
from svload.analysis.arrivals import ROUNDING, planned, planned_vu_ns
from svload.analysis.checks.base import Check, Context, Part, below
from svload.analysis.checks.surroundings import on_this_host
from svload.analysis.view import GroupView
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.executors import ClosedLoop, FixedWork, OpenLoop
from svload.model.request_errors import GENERATOR_LIMITS
from svload.model.results import CheckResult, Harm, TrialSummary
from svload.model.study import CaseConfig
from svload.model.traffic import Group
from svload.model.units import show_percent, show_size
from svload.store import TrialData

_DEFECT = "This is a bug in the load engine or its clock: report it with this trial's summary.json."
_TIMES = (Harm(number="timing", grade="REFUSED", below=None, above=None),)
_MEANING = {
    "emfile": (
        "ran out of file descriptors",
        "Raise the generator's limit of open files (ulimit -n), or use fewer users.",
    ),
    "eaddrnotavail": (
        "ran out of local ports",
        "Use keep-alive, more source addresses, or fewer new connections per second.",
    ),
    "enobufs": (
        "ran out of socket buffers",
        "Raise net.ipv4.tcp_mem and net.core.wmem_max, or use fewer users.",
    ),
}


class Accounting(Check):
    """REFUSED where requests vanish or are counted twice, Little's law is broken, the generator reaches a
    limit of its own, or more bytes arrive than loopback carries. Where less load was made than requested,
    times and rates are REFUSED (below 99.5 % open, 99 % closed) or WEAK (99.9 %).

    Identities: due = begun + waiting + dropped, and begun = ok + failed + in flight. Little: the users of a
    closed loop account for N·T ± 0.5 %; in an open one Σ clipped residence is the gauge's mean ± 2 %. An
    arrival that waits for a slot is due to the server; one that did not begin although a slot was free is due
    to the generator.
    """

    name = "accounting"
    order = 10
    of_totals = True
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        if not context.groups:
            return self.of_parts(
                [Part("REFUSED", "there is no traffic group", "Add a traffic group to the study.")]
            )
        return self.of_parts(
            [
                _identities(trial, config, context),
                *_little(trial.summary, config, context),
                *(_asked(trial, config, view) for view in context.groups),
                _own_limits(trial.summary),
                *_carried(trial, context),
                *_cut(trial),
            ]
        )


def _cut(trial: TrialData) -> Iterator[Part]:
    """Report a load that a search cut short: what was in flight is neither success nor failure."""
    if trial.summary.stopped == "stop_fd":
        why = "the load was stopped early, and requests in flight were lost"
        yield Part("REFUSED", why, "give it more time")


def _identities(trial: TrialData, config: CaseConfig, context: Context) -> Part:
    """Report identities that are off by one request or more; by two where a plan's arithmetic may round
    otherwise."""
    broken = []
    for group in trial.summary.groups:
        if group.due != group.begun + group.waiting + group.dropped:
            broken.append(
                f"{group.name}: {group.due} due, but {group.begun} begun + {group.waiting} waiting + "
                f"{group.dropped} dropped"
            )
        if group.begun != group.ok + group.failed + group.in_flight:
            broken.append(
                f"{group.name}: {group.begun} begun, but {group.ok} ok + {group.failed} failed + "
                f"{group.in_flight} in flight"
            )
    plans = {view.name: planned(trial.summary, config, view) for view in context.groups}
    for view in context.groups:
        broken += _lost(trial, view, plans[view.name])
    if broken:
        return Part("REFUSED", f"requests vanished or were counted twice ({'; '.join(broken)})", _DEFECT)
    due = sum(group.due for group in trial.summary.groups)
    checked = [name for name, plan in plans.items() if plan is not None]
    beside = f", and so are the arrivals planned for {', '.join(checked)}" if checked else ""
    return Part("VALID", f"all {due:,} requests that were due are accounted for{beside}")


def _lost(trial: TrialData, view: GroupView, plan: int | None) -> Iterator[str]:
    """Compare an open loop's plan with its records and its gauge; nothing where the plan or the gauge is not
    known."""
    if plan is None or view.summary.left_at_end < 0:
        return
    later = view.summary.due - view.iterations("due")
    ends = [HISTOGRAM_METRICS.index(name) for name in ("response", "failed_response")]
    histograms, intervals = trial.histograms, trial.intervals
    mine = (histograms["group"] == view.index) & np.isin(histograms["metric"], ends)
    ended = int(histograms["count"][mine].sum())
    dropped = int(intervals["dropped"][intervals["group"] == view.index].sum())
    lost = plan + later - ended - dropped - view.summary.left_at_end
    if abs(lost) > ROUNDING:
        what = f"{lost} are lost" if lost > 0 else f"{-lost} are too many"
        yield (
            f"{view.name}: the plan has {plan + later} requests, but {ended} ended by the records + {dropped} were "
            f"dropped + {view.summary.left_at_end} were left by the gauge: {what}"
        )


def _little(summary: TrialSummary, config: CaseConfig, context: Context) -> Iterator[Part]:
    """Check Little's law in its exact form: the users' activity fills their time; residence equals what a
    gauge saw in flight."""
    for view in context.groups:
        group = view.summary
        if isinstance(view.spec.executor, ClosedLoop):
            # Users who come and go by stages, or when their work is done, are present as long as recorded;
            # `_asked` compares that with the plan.
            steady = view.spec.executor.shape == "constant"
            there = planned_vu_ns(config, view.spec, summary.window_ns) if steady else float(group.active_ns)
            spent = group.request_ns + group.think_ns + group.lag_ns + group.wait_ns
            off, limit = abs(spent - there) / there if there else 0.0, limits.LITTLE_CLOSED
            text = f"{view.name}'s users account for {spent / 1e9:.4g} s of {there / 1e9:.4g} s"
        else:
            low, high = summary.window_ns
            mean, gauge = group.residence_ns / max(high - low, 1), group.in_flight_mean
            off, limit = abs(mean - gauge) / max(mean, gauge, 1e-12), limits.LITTLE_OPEN
            text = f"{view.name} had {mean:.4g} in flight by its requests, {gauge:.4g} by the gauge"
        text += f" ({show_percent(off)} off, {show_percent(limit)} allowed)"
        if off > limit:
            yield Part("REFUSED", f"Little's law is broken: {text}", _DEFECT)
        else:
            yield Part("VALID", f"Little's law holds: {text}")


def _asked(trial: TrialData, config: CaseConfig, view: GroupView) -> Part:
    executor, within = view.spec.executor, limits.LOAD_CLOSED
    if isinstance(executor, FixedWork):
        begun, done = view.iterations("begun"), view.summary.plan_done
        share = min(begun / executor.work, 1.0) if done else 1.0
        why = "" if done else ", then the time was over"
        text = f"{view.name}: {begun:,} of {executor.work:,} iterations were made{why}"
    elif isinstance(executor, ClosedLoop):
        there = planned_vu_ns(config, view.spec, trial.summary.window_ns)
        share = min(view.summary.active_ns / there, 1.0) if there else 0.0
        text = (
            f"{view.name}: {show_percent(share, 5)} of the planned time of {executor.most_vus} users was "
            "active"
        )
    else:
        made, asked = _made_and_asked(trial, config, view)
        share, within = min(made / asked, 1.0) if asked else 0.0, limits.LOAD_OPEN
        text = (
            f"{view.name}: {made:,.0f} of {asked:,.0f} arrivals with a slot free were begun or dropped "
            f"({show_percent(share, 5)})"
        )
    grade = below(share, within)
    remedy = "Give the generator more cores or use more generators, or reduce the load."
    return Part(grade, text, remedy, _TIMES if grade == "REFUSED" else ())


def _made_and_asked(trial: TrialData, config: CaseConfig, view: GroupView) -> tuple[float, float]:
    """Return arrivals begun or dropped, and those due while slots were free: all of the plan, less those
    without a free slot to the end."""
    summary = view.summary
    due, begun = view.iterations("due"), view.iterations("begun")
    waiting = due - begun - summary.dropped
    without_slot = max(waiting - summary.waiting_ready, 0)
    plan = planned(trial.summary, config, view)
    if plan is None:
        plan = max(due, floor(even_arrivals(config, view.spec, trial.summary.window_ns)))
    asked = due if abs(plan - due) <= ROUNDING else max(plan, due)
    return begun + summary.dropped, asked - without_slot


def even_arrivals(config: CaseConfig, group: Group, window_ns: tuple[int, int]) -> float:
    """Return the least number of planned arrivals of an older trial with unknown seed: less one for the
    phase; 0 if Poisson."""
    executor = group.executor
    if not isinstance(executor, OpenLoop) or executor.arrivals == "poisson":
        return 0.0
    return max(executor.arrivals_until(window_ns[1] - config.begin_ns(group)) - 1, 0.0)


def _own_limits(summary: TrialSummary) -> Part:
    counts = {name: sum(group.errors.get(name, 0) for group in summary.groups) for name in GENERATOR_LIMITS}
    met = {name: count for name, count in counts.items() if count}
    if not met:
        return Part("VALID", "the generator reached none of its own limits (descriptors, ports, buffers)")
    text = ", ".join(f"{count:,} requests {_MEANING[name][0]} ({name})" for name, count in met.items())
    remedy = _MEANING[max(met, key=lambda name: met[name])][1]
    return Part("REFUSED", f"the generator reached its own limit: {text}", remedy)


def _carried(trial: TrialData, context: Context) -> Iterator[Part]:
    """Compare bytes a second with loopback's bandwidth as the preflight measured it: one stream's, times the
    cores that can receive at the same time. Nothing where it is not known."""
    machine = trial.lab.conditions.machine if trial.lab.conditions else None
    if machine is None or machine.loopback_bytes_per_s is None or not on_this_host(trial):
        return
    window = context.groups[0].window
    received = sum(int(group.intervals["bytes_received"].sum()) for group in context.groups)
    rate = received / window.seconds if window.size else 0.0
    most = machine.loopback_bytes_per_s * max(machine.load_cores, 1)
    yield Part(
        "REFUSED" if rate > most else "VALID",
        f"{show_size(rate)}/s were received, {show_percent(rate / most)} of what loopback carries ({show_size(most)}/s)",
        "Nothing can be that fast: report this trial as a defect of the load engine (or run svload doctor, if the "
        "machine has changed).",
    )
