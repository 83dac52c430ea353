"""Redis, from its INFO command over TCP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import ConnectedMonitor, Reading, data_of, named, number

_INFO: Mapping[str, tuple[str, str]] = {
    "connected_clients": ("connections_open", "number of open connections, ours included"),
    "maxclients": ("connections_limit", "number of connections allowed (maxclients)"),
    "blocked_clients": ("blocked", "number of clients that wait in a blocking command"),
    "total_connections_received": ("connections_total", "number of connections accepted"),
    "rejected_connections": ("rejected_total", "number of connections rejected for maxclients"),
    "total_commands_processed": ("commands_total", "number of commands, ours included"),
    "total_error_replies": ("errors_total", "number of commands answered with an error"),
    "keyspace_hits": ("hits_total", "number of keys found"),
    "keyspace_misses": ("misses_total", "number of keys not found"),
    "evicted_keys": ("evictions_total", "number of keys thrown out for lack of memory"),
    "expired_keys": ("expired_total", "number of keys whose time was over"),
    "evicted_clients": ("evicted_clients_total", "number of clients cut off for lack of memory"),
    "used_memory": ("used_bytes", "memory asked of its allocator"),
    "used_memory_rss": ("rss_bytes", "memory of the process"),
    "maxmemory": ("limit_bytes", "memory allowed for what it holds (maxmemory); 0: no limit"),
    "mem_fragmentation_ratio": (
        "fragmentation_ratio",
        "memory of the process over that asked of its allocator",
    ),
    "total_net_input_bytes": ("received_bytes_total", "bytes received"),
    "total_net_output_bytes": ("sent_bytes_total", "bytes sent"),
    "used_cpu_user_main_thread": (
        "main_user_seconds_total",
        "user time of the thread that carries commands out",
    ),
    "used_cpu_sys_main_thread": (
        "main_system_seconds_total",
        "kernel time of the thread that carries commands out",
    ),
    "total_forks": ("forks_total", "number of forks, each a pause"),
}


class RedisMonitor(ConnectedMonitor):
    """INFO at admin["redis"] = {"address", "port"}, as its "user" with the password in "password_file" if
    they are given; keys are summed over its databases."""

    name = "redis"
    summary = "connections, commands, hits, evictions, memory and main thread of Redis, from INFO"
    metrics: ClassVar[Mapping[str, str]] = {**dict(_INFO.values()), "keys": "number of keys held"}

    limits = (
        Limit("connections", "connections", "connections_open", "connections_limit", brief=True),
        Limit("memory (maxmemory)", "storage", "used_bytes", "limit_bytes", at=0.95, verdict=False),
    )
    refusals = (
        Refusal("rejected_total", "connections rejected for maxclients", "connections"),
        Refusal("evicted_clients_total", "clients cut off for lack of memory", "memory"),
        Refusal("errors_total", "commands answered with an error", "workers", kind="failed", verdict=False),
        Refusal(
            "evictions_total", "keys thrown out for lack of memory", "storage", kind="lost", verdict=False
        ),
        Refusal("forks_total", "forks, each a pause", "memory", kind="waited", verdict=False),
    )
    attaches = ("redis", "address", "port")
    example = {"redis": {"address": "127.0.0.1", "port": 9}}

    def connect(self) -> BoundedSocket:
        """Log in, if there is a password."""
        line: BoundedSocket = super().connect()
        if (file := self.where.get("password_file")) is not None:
            line.sendall(f"AUTH {self.where.get('user', '')} {Path(file).read_text()}\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n"):
                answer += (piece := line.recv(1 << 10))
                if not piece:
                    raise ConnectionError("Redis hung up")
            if answer != b"+OK\r\n":
                raise ConnectionError(f"Redis refused svload's own user: {answer[:60]!r}")
        return line

    def ask(self, line: BoundedSocket) -> str:
        return data_of(line, b"INFO", b"$", "Redis")

    def parsed(self, answer: str) -> list[Reading]:
        found = {name: value for name, _, value in (line.partition(":") for line in answer.splitlines())}
        keyspace = [
            value for name, value in found.items() if name.startswith("db") and value.startswith("keys=")
        ]
        keys = sum(number({"keys": one.removeprefix("keys=").partition(",")[0]}, "keys") for one in keyspace)
        return [*named(found, _INFO), Reading("", "keys", keys)]
