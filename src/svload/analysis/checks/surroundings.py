"""Other known facts about the machine and the servers, without a grade (docs/method.md §3)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, smallest_shown_p99
from svload.analysis.disturbances import unread
from svload.analysis.readings import of_monitor
from svload.analysis.view import kept_window
from svload.model.results import CheckResult, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_number, show_percent
from svload.store import TrialData

GC_PAUSE = "gc_pause_seconds"
"""The metric of a virtual machine's monitor for the longest pause since the previous reading."""
LEAST_LOOK_UP_NS = 10_000
"""Looking up an address that is already known takes less than this; asking the resolver takes more."""


class Surroundings(Check):
    """Always VALID: where the servers are, and what was unusual beside the load.

    Cores that are pinned apart are separate in user time only: loopback's interrupts run on the sender's
    core. A pause of a server's garbage collector belongs to the server.
    """

    name = "surroundings"
    order = 90

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Report each fact as a clause; the value is how many are unusual."""
        where = "share one machine" if on_this_host(trial) else "are on different hosts"
        unusual = [
            *_ports(trial, context),
            *_look_ups(context),
            *_families(trial, context),
            *_dropped(trial),
            *_pauses(trial, context),
            *_unread(trial, context),
        ]
        return self.result(
            "VALID", f"{'; '.join([f'Load and servers {where}', *unusual])}.", float(len(unusual))
        )


class TcpLoss(Check):
    """Segments that the load's network sent again: such a request usually waited 200 ms (the least timeout
    of Linux), so percentiles with few requests beyond them are rough. Losses on a service's own link are
    requested by the study, and over loopback a server drops segments itself."""

    name = "tcp-loss"
    order = 62

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        conditions = trial.lab.conditions
        if conditions is None or not on_this_machine(trial):
            return self.unmeasured("the network of the machines that generated the load was not read")
        before, after = conditions.before, conditions.after
        if None in (before.tcp_sent, before.tcp_resent, after.tcp_sent, after.tcp_resent):
            return self.unmeasured("the kernel's counters of TCP could not be read")
        sent, again = (
            max((getattr(after, name) or 0) - (getattr(before, name) or 0), 0)
            for name in ("tcp_sent", "tcp_resent")
        )
        text = f"{again:,} of {sent + again:,} TCP segments of the load's machine were retransmitted"
        if any(spec.options.get("link") is not None for spec in config.services):
            return self.result("VALID", f"{text}, with links that the study sets.", float(again))
        if on_this_host(trial):  # nothing is lost on the way: a server whose queue is full drops them
            return self.result("VALID", f"{text}; loopback loses none.", float(again))
        asked = sum(group.summary.begun for group in context.groups)
        waited = min(again / max(asked, 1), 1.0)
        rough = [
            f"{group.name}.{metric}.{stat}"
            for group in context.groups
            for metric in ("response", "ok_response", "service")
            for stat, p in _PERCENTILES.items()
            if waited > limits.TCP_LOSS * (1 - p)
        ]
        if not rough:
            return self.result("VALID", f"{text}.", float(again))
        return self.result(
            "WEAK",
            f"{text}: up to {show_percent(waited)} of the requests waited for a retransmission.",
            float(again),
            remedy="Look for packet loss between load and servers (ethtool -S, tc -s qdisc), or move the load closer.",
            harms=tuple(Harm(number=one, grade="WEAK", below=None, above=0.0) for one in rough),
        )


_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "mean": 0.99, "p99": 0.99, "p99.9": 0.999}
"""A mean includes such requests to the same degree as a p99."""


def on_this_machine(trial: TrialData) -> bool:
    """Return whether this machine made load."""
    conditions = trial.lab.conditions
    return conditions is None or not conditions.clocks or any(clock.here for clock in conditions.clocks)


def on_this_host(trial: TrialData) -> bool:
    """Return whether any server listens on loopback, or was started by this lab (on this machine), and this
    machine made load."""
    if not on_this_machine(trial):
        return False
    here = [facts for facts in trial.lab.services if not facts.machine]
    return any(facts.processes for facts in here) or any(
        _is_loopback(end.address) for facts in here for end in facts.endpoints
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _unread(trial: TrialData, context: Context) -> Iterator[str]:
    """Report servers whose machine was not read: what else runs there cannot be seen."""
    asked = {host for group in context.groups for host in group.spec.hosts}
    for service in unread(trial.monitors, trial.lab.services):
        if service in asked:
            yield f"what else runs on the machine of {service} is not monitored"


def _ports(trial: TrialData, context: Context) -> Iterator[str]:
    """Report ports that were still resting at the start, and new connections that leave more of them resting
    than there are. Those ended by RST leave none."""
    conditions = trial.lab.conditions
    if conditions is None or conditions.machine is None:
        return
    count, ports = conditions.before.time_wait, conditions.machine.local_ports
    if count is not None and count > limits.TIME_WAIT * max(ports, 1):
        yield f"at the start {count:,} of {ports:,} local ports were in TIME_WAIT"
    lasted_s = max(trial.summary.window_ns[1] / 1e9, 1.0)
    most = ports / conditions.machine.port_reuse_s
    for group in context.groups:
        rate = group.summary.connections_opened / lasted_s / max(len(group.spec.source_addresses), 1)
        if group.spec.close == "fin" and rate > most:
            yield (
                f"{group.name} opened {show_number(rate)} new connections per second from each address, but the "
                f"local ports allow {show_number(most)}"
            )


def _look_ups(context: Context) -> Iterator[str]:
    """Report groups other than `client: curl` with new connections that looked a name up, by the rows of
    those that keep them."""
    for group in context.groups:
        if group.spec.client != "curl" and group.rows is not None:
            spent_ns = group.rows["lookup_ns"]
            spent_ns = spent_ns[spent_ns > 0]
            if len(spent_ns) and float(np.median(spent_ns)) >= LEAST_LOOK_UP_NS:
                yield f"{group.name} looked up names {len(spent_ns):,} times during the load"


def _families(trial: TrialData, context: Context) -> Iterator[str]:
    """Report names with several families: “localhost” may be 127.0.0.1 here and ::1 there."""
    asked = {host for group in context.groups for host in group.spec.hosts}
    for facts in trial.lab.services:
        if facts.service in asked and len({":" in end.address for end in facts.endpoints}) > 1:
            yield f"{facts.service} is used over both IPv4 and IPv6"


def _dropped(trial: TrialData) -> Iterator[str]:
    """Report drops of the page cache: svload itself makes none during a load."""
    dropped = of_monitor(trial.monitors, "host", "drop_pagecache_total").get("")
    if dropped is not None and dropped.growth > 0:
        yield f"someone dropped the page cache {dropped.growth:.0f} times during the trial"


def _pauses(trial: TrialData, context: Context) -> Iterator[str]:
    """Report the longest pause in the kept window, where it is above 10 % of a shown p99."""
    window = kept_window(trial.summary, context.cut.cut_ns)
    mine = trial.monitors["metric"] == GC_PAUSE
    at, value = trial.monitors["offset_ns"][mine], trial.monitors["value"][mine]
    inside = (at > window.low_ns) & (at <= window.high_ns)
    pause, shown = float(value[inside].max()) if inside.any() else 0.0, smallest_shown_p99(context)
    if shown is not None and pause > limits.GC_PAUSE * shown[1]:
        yield (
            f"the longest garbage collection pause was {show_duration(pause)}, {show_percent(pause / shown[1])} of "
            f"{shown[0]}"
        )
