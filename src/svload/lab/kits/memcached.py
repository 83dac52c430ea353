"""memcached, alone or for a service that needs one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from svload.lab import memcache
from svload.lab.kit import KitOptions, SizeBytes, option, words
from svload.lab.server import Server
from svload.model.costs import Costs
from svload.model.facts import Counters, ServiceFacts, Setting


class MemcachedOptions(KitOptions):
    """Options of `memcached`."""

    connections: int = option(1024, ge=1, doc="maximum number of connections (-c)")
    item_memory: SizeBytes = option(
        "64 MiB", unit="size", doc="memory for items (-m); `memory` limits the whole process"
    )
    threads: int = option(4, ge=1, doc="worker threads (-t)")


_HARMLESS = words(
    """
    hash_algorithm hashpower hot_lru_pct hot_max_factor idle_timeout lru_crawler lru_crawler_sleep lru_crawler_tocrawl lru_maintainer
    maxconns_fast modern no_hashexpand no_lru_crawler no_lru_maintainer no_maxconns_fast no_modern no_slab_reassign read_buf_mem_limit
    slab_automove slab_chunk_max slab_reassign tail_repair_time temporary_ttl track_sizes warm_lru_pct warm_max_factor
    watcher_logbuf_size worker_logbuf_size
    """
)
"""Left out: options that name files (ext_path, ssl_…, proxy_config)."""


_COMMANDS = (
    *("cmd_get", "cmd_set", "cmd_touch"),
    *(f"{verb}_{outcome}" for verb in ("delete", "incr", "decr") for outcome in ("hits", "misses")),
)
"""memcached's counters of commands: each key of a get counts, every other command once."""


class Memcached(Server):
    """One process; TCP only."""

    name = "memcached"
    summary = "memcached, an in-memory cache"
    Options = MemcachedOptions
    costs = Costs(up_s=0.1)
    front = False
    harmless = frozenset({"connections", "item_memory", "threads"})
    harmless_tuning = _HARMLESS
    permits = None  # it can't restrict commands: verbosity, cache_memlimit, lru and slabs are open to all
    programs = {"memcached": "memcached"}
    counted = ("requests", "hits", "misses", "connections", "bytes_out")
    options: MemcachedOptions
    _port: int

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._port = self.context.take_port("memcached", self.options.port)
        options = self.options
        more = [
            word
            for name, value in options.tuning.items()
            for word in ("-o", name if value is True else f"{name}={value}")
        ]
        limits = options.connections, options.item_memory, options.threads
        self.spawn("memcached", [*memcache.argv(self.context.address, self._port, *limits), *more])

    def condition(self) -> bool:
        return bool(memcache.stats(self.context.address, self._port))

    def describe(self) -> ServiceFacts:
        address, port = self.context.address, self._port
        version = memcache.stats(address, port)["version"]
        admin = {"memcached": {"address": address, "port": port}}
        return self.service_facts(version, self.endpoint(port, "tcp"), admin=admin)

    def reset(self) -> dict[str, Any]:
        return memcache.reset(self, self._port)

    def counters(self) -> Counters:
        at_ns = time.monotonic_ns()
        return canonical(memcache.stats(self.context.address, self._port), at_ns)

    def effective(self) -> list[Setting]:
        options = self.options
        return memcache.settings(self.context.address, self._port, options.connections, options.item_memory)


def canonical(found: Mapping[str, str], at_ns: int) -> Counters:
    raw = {name: float(value) for name, value in found.items() if _is_number(value)}
    wanted: Sequence[tuple[str, tuple[str, ...]]] = (
        ("requests", _COMMANDS),
        ("hits", ("get_hits",)),
        ("misses", ("get_misses",)),
        ("connections", ("total_connections",)),
        ("bytes_out", ("bytes_written",)),
    )
    values = {
        name: sum(raw[part] for part in parts) for name, parts in wanted if all(part in raw for part in parts)
    }
    return Counters(at_ns=at_ns, values=values, raw=raw)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
