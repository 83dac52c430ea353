"""Varnish, by varnishstat: threads, queues, drops, hits. Per-thread counters lag until a worker is idle."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.watch.monitor import Monitor, Reading, admin_has

TIMEOUT_S = 0.5
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
    "MAIN.sess_fail_emfile": ("sess_fail_emfile_total", "number of sessions refused for want of descriptors"),
    "MAIN.req_dropped": ("req_dropped_total", "number of requests dropped"),
    "MAIN.client_req": ("requests_total", "number of requests"),
    "MAIN.cache_hit": ("cache_hit_total", "number of cache hits"),
    "MAIN.cache_miss": ("cache_miss_total", "number of cache misses"),
    "MAIN.cache_hitmiss": ("cache_hitmiss_total", "number of hits on objects marked as misses"),
    "MAIN.s_pass": ("pass_total", "number of requests passed by"),
    "MAIN.s_fetch": ("fetch_total", "number of fetches begun"),
    "MAIN.busy_sleep": ("busy_sleep_total", "number of requests that waited for another's fetch"),
    "MAIN.backend_conn": ("backend_conn_total", "number of connections opened to backends"),
    "MAIN.backend_reuse": ("backend_reuse_total", "number of backend connections used again"),
    "MAIN.backend_fail": ("backend_fail_total", "number of backend connections that failed"),
    "MAIN.backend_busy": ("backend_busy_total", "number of fetches refused for max_connections of a backend"),
    "MAIN.n_object": ("objects", "number of objects"),
    "MAIN.n_lru_nuked": ("lru_nuked_total", "number of objects thrown out for want of storage"),
    "MAIN.s_resp_bodybytes": ("body_out_bytes_total", "bytes of bodies sent"),
    "MAIN.uptime": ("uptime_seconds", "time since the child started"),
}


class VarnishMonitor(Monitor):
    """`varnishstat -1 -j` on admin["varnish"]["dir"] (varnishd's -n); a process a reading, so once a second at most."""

    name = "varnish"
    summary = "threads, queues, drops, hits and misses of Varnish, from varnishstat"
    metrics: ClassVar[Mapping[str, str]] = dict(_FIELDS.values())
    interval_s = 1.0

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        fields = [part for field in _FIELDS for part in ("-f", field)]
        varnish = facts["admin"]["varnish"]
        self._command = [
            str(varnish.get("varnishstat") or "varnishstat"),
            "-1",
            "-j",
            "-n",
            str(varnish["dir"]),
            *fields,
        ]

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services that name varnishd's working folder."""
        return admin_has(facts, "varnish", "dir")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError when varnishstat is missing, slow, or finds no varnishd."""
        try:
            done = subprocess.run(
                self._command, capture_output=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as why:
            raise TimeoutError(f"varnishstat took more than {TIMEOUT_S} s") from why
        if done.returncode:
            raise OSError(f"varnishstat: {done.stderr.decode(errors='replace').strip()[:200]}")
        return parse_counters(done.stdout.decode("utf-8", "replace"))


def parse_counters(text: str) -> list[Reading]:
    """varnishstat's JSON (with or without the envelope of version 6.5 and up) as readings. Raises OSError for anything else."""
    try:
        found = json.loads(text)
        counters = found.get("counters", found)
        return [
            Reading("", metric, float(counters[field]["value"]))
            for field, (metric, _) in _FIELDS.items()
            if field in counters
        ]
    except (ValueError, TypeError, AttributeError, KeyError) as why:
        raise OSError(f"this is no output of varnishstat ({why})") from why
