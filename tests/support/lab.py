"""The lab of a synthetic run: two services, their counters as set by the load, and monitors' readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.traffic import BODY_BYTES

from svload.model.conditions import Conditions, Machine, Moment
from svload.model.facts import Counters, Endpoint, ProcessFact, ServiceFacts, Setting, TrialLab
from svload.model.results import GroupSummary
from svload.watch import load_monitors

Arrays = dict[str, NDArray[Any]]
READ_EVERY_NS = 200_000_000
WALL_NS = 1_760_000_000_000_000_000
CORES = 2
CORE_BUSY_RATIO = {"0": 0.35, "1": 0.6}
CORE_SHARES = {"busy": 1.0, "user": 0.6, "system": 0.3, "softirq": 0.1, "steal": 0.0}
LOAD_THREADS = ("background.0/0", "background.1/0", "probe.0/0")
SERVICE_CPU_RATIO = {"backend": 0.3, "cache": 0.25}
SERVICE_RSS_BYTES = {"backend": 40 << 20, "cache": 96 << 20}
_BEFORE = {"requests": 17.0, "answers": 17.0, "hits": 3.0, "misses": 14.0}
_BEFORE |= {"connections": 5.0, "tls_handshakes": 2.0, "tls_resumed": 1.0}


def service_facts() -> tuple[ServiceFacts, ...]:
    """Return the facts of `backend` (a store) and `cache` (in front of it)."""
    return _facts(0, "backend", "store"), _facts(1, "cache", "cache")


def _facts(number: int, name: str, role: str) -> ServiceFacts:
    port = 18080 + 100 * number
    return ServiceFacts(
        service=name,
        kit="truth",
        version="0.1.0",
        endpoints=(
            Endpoint(scheme="http", address="127.0.0.1", port=port),
            Endpoint(scheme="https", address="127.0.0.1", port=port + 1, via="itself"),
        ),
        processes=(ProcessFact(name=f"truth-{role}", pid=4000 + number, start_ticks=123_456),),
        admin={"truth_admin": f"127.0.0.1:{port + 2}"},
        settings=(
            Setting(name="workers", asked="8", found="8"),
            Setting(name="nofile", asked="400000", found="20000"),
        ),
    )


def trial_lab(
    role: str,
    groups: Sequence[GroupSummary],
    fault: str | None,
    previous_case: str | None,
    whole_plot: int,
    phases_s: dict[str, float],
) -> TrialLab:
    """Return lab.json for the server's role (`direct`, `hit`, `miss`), its counters as was written."""
    written = sum(group.written for group in groups)
    seen_role = {"direct": "hit", "hit": "miss", "miss": "hit"}[role] if fault == "no-hits" else role
    at_cache = 0 if seen_role == "direct" else written
    at_backend = 0 if seen_role == "hit" else written
    hits = at_cache if seen_role == "hit" else 0
    before = {name: dict(_BEFORE) for name in ("backend", "cache")}
    after = {
        "backend": _added(before["backend"], groups, at_backend, None if role != "direct" else groups),
        "cache": _added(before["cache"], groups, at_cache, None if role == "direct" else groups)
        | {"hits": _BEFORE["hits"] + hits, "misses": _BEFORE["misses"] + at_cache - hits},
    }
    for counters in (before["backend"], after["backend"]):
        del counters["hits"], counters["misses"]
    return TrialLab(
        services=service_facts(),
        previous_case=previous_case,
        whole_plot=whole_plot,
        reset={"cache": {"objects_before": 0}, "backend": {}},
        before={name: Counters(at_ns=-2_000_000, values=values) for name, values in before.items()},
        after={name: Counters(at_ns=1_500_000_000, values=values) for name, values in after.items()},
        phases_s=phases_s,
        conditions=_conditions(),
        declared=tuple(kind.declared() for kind in load_monitors()),
    )


def _conditions() -> Conditions:
    """Return a quiet machine: clocks agree, a core is as fast after as before, 12 ports are at rest."""

    def at(monotonic_ns: int, calibration_ns: float, time_wait: int | None = None) -> Moment:
        clocks = {"realtime_ns": WALL_NS + monotonic_ns, "boottime_ns": monotonic_ns, "clock_source": "tsc"}
        ports = {"time_wait": time_wait, "tcp_sent": monotonic_ns // 10**6, "tcp_resent": 7}
        return Moment(monotonic_ns=monotonic_ns, calibration_ns=calibration_ns, **clocks, **ports)

    limits = {"memory_bytes": 8 << 30, "open_files": 1 << 20, "local_ports": 28_232, "port_reuse_s": 1.0}
    measured = {"clock_source": "tsc", "loopback_bytes_per_s": 5e9, "timer_floor_ns": 55_000.0}
    machine = Machine(kernel="6.1.0", cores=CORES, load_cores=1, **limits, **measured)
    after = at(10**12 + 1_500_000_000, 40_200.0)
    return Conditions(machine=machine, before=at(10**12, 40_000.0, 12), after=after)


def _added(
    before: Mapping[str, float],
    groups: Sequence[GroupSummary],
    requests: int,
    direct: Sequence[GroupSummary] | None,
) -> dict[str, float]:
    """Return counters after the load; connections are the generators' where they reach this service."""
    status: dict[str, float] = {}
    for group in groups:
        for code, count in group.status.items():
            status[f"status.{code}"] = status.get(f"status.{code}", 0.0) + count
    seen = direct or ()
    opened = sum(group.connections_opened for group in seen) if direct is not None else min(requests, 8)
    written = sum(group.written for group in groups) or 1
    share = requests / written
    timed_out = sum(group.errors.get("timeout_first_byte", 0) for group in groups)
    return {
        **before,
        "requests": before["requests"] + requests,
        "answers": before["answers"] + requests - round(timed_out * share),
        "connections": before["connections"] + opened,
        "tls_handshakes": before["tls_handshakes"] + sum(group.tls_full for group in seen),
        "tls_resumed": before["tls_resumed"] + sum(group.tls_resumed for group in seen),
        "body_bytes_out": float(BODY_BYTES * round(sum(group.ok for group in groups) * share)),
        **{code: round(count * share) for code, count in status.items()},
    }


def monitor_table(end_ns: int, rng: np.random.Generator, busy_ratio: Mapping[str, float]) -> Arrays:
    """Return readings of host, processes and the sampler itself every 0.2 s from the load's start to its end.

    `busy_ratio`: service → cores that it uses in addition to its base use.
    """
    at = np.arange(0, end_ns + 1, READ_EVERY_NS, dtype="<i8")
    series: list[tuple[str, str, str, str, NDArray[Any]]] = []
    seconds = at / 1e9

    def counted(rate: float) -> NDArray[Any]:
        return 1000.0 + (rate * seconds * (1 + 0.02 * rng.standard_normal()) if rate else 0.0 * seconds)

    for core, busy in CORE_BUSY_RATIO.items():
        for metric, share in CORE_SHARES.items():
            series.append(("", "host", f"cpu{core}", f"{metric}_seconds_total", counted(busy * share)))
    series.append(("", "host", "", "drop_pagecache_total", np.full(len(at), 3.0)))
    series.append(("", "others", "", "cpu_seconds_total", 0.02 * seconds))
    series.append(("", "others", "sshd 812", "cpu_seconds", np.full(len(at), 0.004)))
    for service in SERVICE_CPU_RATIO:
        series.append((service, "workers", "", "listeners", np.ones(len(at))))
    for thread in LOAD_THREADS:
        series.append(("", "generator", thread, "cpu_seconds_total", 0.2 * seconds))
        series.append(("", "generator", thread, "run_queue_seconds_total", 0.0005 * seconds))
        series.append(("", "generator", thread, "hiccup_seconds", np.full(len(at), 60e-6)))
        series.append(("", "generator", thread, "loop_pass_seconds", np.full(len(at), 40e-6)))
    series.append(("", "host", "", "memory_available_bytes", 20e9 + rng.normal(0, 1e6, len(at))))
    series.append(("", "host", "cpu", "pressure_some_seconds_total", counted(0.02)))
    series.append(("", "sampler", "", "cpu_ratio", np.abs(rng.normal(0.004, 0.001, len(at)))))
    for service, busy in SERVICE_CPU_RATIO.items():
        rss = np.full(len(at), float(SERVICE_RSS_BYTES[service]))
        used = counted(busy + busy_ratio.get(service, 0.0))
        series.append((service, "process", "", "cpu_seconds_total", used))
        series.append((service, "process", "", "rss_bytes", rss))
        series.append((service, "process", "", "threads", np.full(len(at), 9.0)))
        series.append((service, "process", "", "fds", np.full(len(at), 60.0)))
    size = len(at)
    table: dict[str, NDArray[Any]] = {"offset_ns": np.tile(at, len(series))}
    for position, name in enumerate(("service", "monitor", "entity", "metric")):
        table[name] = np.repeat(np.array([str(one[position]) for one in series], dtype=object), size)
    table["value"] = np.concatenate([one[4] for one in series]).astype("<f8")
    order = np.argsort(table["offset_ns"], kind="stable")
    return {name: column[order] for name, column in table.items()}
