"""Varnish: threads, queues, drops, hits, workspaces and storage, as reported by varnishstat. Per-thread
counters lag until a worker is idle."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading, named

TIMEOUT_S = 0.5
PARAMETERS_EVERY_S = 10.0
"""How often its parameters are read: they can be changed at run time, but rarely are."""
_FIELDS: Mapping[str, tuple[str, str]] = {
    "MAIN.threads": ("threads", "number of worker threads in all pools"),
    "MAIN.threads_limited": (
        "threads_limited_total",
        "number of times that a thread was wanted above thread_pool_max",
    ),
    "MAIN.threads_failed": ("threads_failed_total", "number of threads that could not be created"),
    "MAIN.thread_queue_len": ("thread_queue", "number of sessions that wait for a thread"),
    "MAIN.sess_conn": ("sess_conn_total", "number of sessions accepted"),
    "MAIN.sess_queued": ("sess_queued_total", "number of sessions queued for a thread"),
    "MAIN.sess_dropped": ("sess_dropped_total", "number of sessions dropped for a full queue"),
    "MAIN.sess_fail": ("sess_fail_total", "number of sessions that could not be accepted"),
    "MAIN.sess_fail_emfile": ("sess_fail_emfile_total", "number of sessions refused for lack of descriptors"),
    "MAIN.req_dropped": ("req_dropped_total", "number of requests dropped"),
    "MAIN.client_req": ("requests_total", "number of requests"),
    "MAIN.cache_hit": ("cache_hit_total", "number of cache hits"),
    "MAIN.cache_miss": ("cache_miss_total", "number of cache misses"),
    "MAIN.cache_hitmiss": ("cache_hitmiss_total", "number of hits on objects marked as misses"),
    "MAIN.s_pass": ("pass_total", "number of requests passed by"),
    "MAIN.s_fetch": ("fetch_total", "number of fetches begun"),
    "MAIN.fetch_failed": ("fetch_failed_total", "number of fetches that failed"),
    "MAIN.busy_sleep": ("busy_sleep_total", "number of requests that waited for another's fetch"),
    "MAIN.busy_wakeup": ("busy_wakeup_total", "number of requests woken after such a wait"),
    "MAIN.busy_killed": ("busy_killed_total", "number of requests given up after such a wait"),
    "MAIN.backend_conn": ("backend_conn_total", "number of connections opened to backends"),
    "MAIN.backend_reuse": ("backend_reuse_total", "number of backend connections used again"),
    "MAIN.backend_fail": ("backend_fail_total", "number of backend connections that failed"),
    "MAIN.backend_unhealthy": ("backend_unhealthy_total", "number of fetches not tried, the backend being sick"),
    "MAIN.backend_busy": ("backend_busy_total", "number of fetches refused for max_connections of a backend"),
    "MAIN.ws_client_overflow": ("ws_client_overflow_total", "number of requests for which workspace_client was too small"),
    "MAIN.ws_backend_overflow": ("ws_backend_overflow_total", "number of fetches for which workspace_backend was too small"),
    "MAIN.ws_session_overflow": ("ws_session_overflow_total", "number of sessions for which workspace_session was too small"),
    "MAIN.ws_thread_overflow": ("ws_thread_overflow_total", "number of times that workspace_thread was too small"),
    "MAIN.n_object": ("objects", "number of objects"),
    "MAIN.n_lru_nuked": ("lru_nuked_total", "number of objects thrown out for lack of storage"),
    "MAIN.s_resp_bodybytes": ("body_out_bytes_total", "bytes of bodies sent"),
    "MAIN.uptime": ("uptime_seconds", "time since the child started"),
}  # fmt: skip
_STORAGE: Mapping[str, tuple[str, str]] = {
    "g_bytes": ("storage_used_bytes", "per storage: bytes of it in use"),
    "c_fail": ("storage_failed_total", "per storage: number of allocations that failed"),
}
_SPACE = "g_space"
_LIMITS: Mapping[str, tuple[str, str]] = {
    "thread_pool_max": ("threads_limit", "number of worker threads allowed: thread_pool_max of all pools"),
    "thread_queue_limit": (
        "thread_queue_limit",
        "number of sessions that may wait for a thread, in all pools",
    ),
}
_POOLS = "MAIN.pools"
_WANTED = (*_FIELDS, _POOLS, *(f"SMA.*.{name}" for name in (*_STORAGE, _SPACE)))


class VarnishMonitor(Monitor):
    """`varnishstat -1 -j` on admin["varnish"]["dir"], which starts a process: so at most once a second."""

    name = "varnish"
    summary = "threads, queues, drops, hits, workspaces and storage of Varnish, from varnishstat"
    metrics: ClassVar[Mapping[str, str]] = {
        **dict(_FIELDS.values()),
        **dict(_STORAGE.values()),
        "storage_limit_bytes": "per storage: its size; none where it has no limit",
        **dict(_LIMITS.values()),
    }
    limits = (
        Limit("worker threads", "workers", "threads", "threads_limit", waiting="thread_queue"),
        # Each pool has a queue, and their sum can't show that one is full.
        Limit("queue for a worker thread", "workers", "thread_queue", "thread_queue_limit", brief=True, verdict=False),
        # A cache is meant to be full.
        Limit("storage", "storage", "storage_used_bytes", "storage_limit_bytes", at=0.95, verdict=False),
    )  # fmt: skip
    refusals = (
        Refusal("threads_limited_total", "times that a thread was wanted above thread_pool_max", "workers", kind="waited"),
        Refusal("threads_failed_total", "threads that could not be created", "workers", kind="failed"),
        Refusal("sess_queued_total", "sessions queued for a thread", "workers", kind="waited", verdict=False),
        Refusal("sess_dropped_total", "sessions dropped for a full queue", "workers"),
        Refusal("req_dropped_total", "requests dropped for a full queue", "workers"),
        Refusal("sess_fail_total", "sessions that could not be accepted", "connections", kind="failed"),
        Refusal("sess_fail_emfile_total", "times that accepting failed for lack of descriptors", "descriptors"),
        Refusal("busy_sleep_total", "requests that waited for another's fetch of the same object", "lock", kind="waited", verdict=False),
        Refusal("busy_killed_total", "requests given up after waiting for another's fetch", "lock", kind="failed"),
        Refusal("backend_busy_total", "fetches refused for max_connections of a backend", "connections"),
        Refusal("backend_fail_total", "connections to a backend that failed", "connections", kind="failed", verdict=False),
        Refusal("backend_unhealthy_total", "fetches not tried, the backend being sick", "connections", kind="failed", verdict=False),
        Refusal("fetch_failed_total", "fetches that failed", "connections", kind="failed", verdict=False),
        Refusal("ws_client_overflow_total", "requests for which workspace_client was too small", "memory", kind="failed", verdict=False),
        Refusal("ws_backend_overflow_total", "fetches for which workspace_backend was too small", "memory", kind="failed", verdict=False),
        Refusal("ws_session_overflow_total", "sessions for which workspace_session was too small", "memory", kind="failed", verdict=False),
        Refusal("ws_thread_overflow_total", "times that workspace_thread was too small", "memory", kind="failed", verdict=False),
        Refusal("lru_nuked_total", "objects thrown out for lack of storage", "storage", kind="lost", verdict=False),
        Refusal("storage_failed_total", "allocations of storage that failed", "storage", kind="failed", verdict=False),
    )  # fmt: skip
    interval_s = 1.0
    attaches = ("varnish", "dir")
    example = {"varnish": {"dir": "/proc/nowhere"}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        varnish = facts["admin"]["varnish"]
        fields = [part for field in _WANTED for part in ("-f", field)]
        program = str(varnish.get("varnishstat") or "varnishstat")
        self._command = [program, "-1", "-j", "-n", str(varnish["dir"]), *fields]
        admin = varnish.get("varnishadm")
        self._admin = [str(admin), "-n", str(varnish["dir"]), "param.show", "-j"] if admin else None
        self._parameters: dict[str, float] = {}
        self._asked_at = float("-inf")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if varnishstat is missing, slow, or finds no varnishd."""
        counters = parse_counters(_output_of(self._command))
        now = time.monotonic()
        if self._admin is not None and now - self._asked_at >= PARAMETERS_EVERY_S:
            self._asked_at = now
            self._parameters = parse_parameters(_output_of(self._admin))
        return readings_of(counters, self._parameters)


def _output_of(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as why:
        raise TimeoutError(f"{command[0]} took more than {TIMEOUT_S} s") from why
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[:200]}")
    return done.stdout.decode("utf-8", "replace")


def parse_parameters(text: str) -> dict[str, float]:
    """Return the parameters of `param.show -j` that are limits. Unreadable ones are left out."""
    try:
        found = {
            str(one["name"]): one["value"]
            for one in json.loads(text)
            if isinstance(one, dict) and one.get("name") in _LIMITS and "value" in one
        }
        return {name: float(value) for name, value in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def parse_counters(text: str) -> dict[str, float]:
    """Return varnishstat's JSON (with or without the envelope of version 6.5 and up) as field → value. Raise
    OSError for anything else."""
    try:
        found = json.loads(text)
        return {
            str(name): float(one["value"])
            for name, one in found.get("counters", found).items()
            if name.startswith(("MAIN.", "SMA."))
        }
    except (ValueError, TypeError, AttributeError, KeyError) as why:
        raise OSError(f"this is not output of varnishstat ({why})") from why


def readings_of(
    counters: Mapping[str, float], parameters: Mapping[str, float] | None = None
) -> list[Reading]:
    """Return counters and parameters as readings."""
    readings = named(counters, _FIELDS)
    pools = float(counters.get(_POOLS, 1))
    readings += [
        Reading("", metric, pools * parameters[name])
        for name, (metric, _) in _LIMITS.items()
        if parameters and name in parameters
    ]
    return [*readings, *_storage(counters)]


def _storage(counters: Mapping[str, float]) -> Iterable[Reading]:
    """Yield readings from `SMA.name.field`; a storage without a limit has no free space to report."""
    for name in sorted({field.split(".")[1] for field in counters if field.startswith("SMA.")}):
        for field, (metric, _) in _STORAGE.items():
            if f"SMA.{name}.{field}" in counters:
                yield Reading(name, metric, float(counters[f"SMA.{name}.{field}"]))
        space, used = (float(counters.get(f"SMA.{name}.{field}", 0)) for field in (_SPACE, "g_bytes"))
        if space:
            yield Reading(name, "storage_limit_bytes", used + space)
