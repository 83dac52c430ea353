"""Redis, from its INFO command over TCP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading, admin_has, number

TIMEOUT_S = 0.4
_MOST_BYTES = 1 << 20
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


class RedisMonitor(Monitor):
    """INFO at admin["redis"] = {"address", "port"} on one persistent connection, as its "user" with the
    password in "password_file" if these are given; keys are summed over its databases."""

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
    example = {"redis": {"address": "127.0.0.1", "port": 9}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        where = facts["admin"]["redis"]
        self._address = (str(where["address"]), int(where["port"]))
        self._user, self._password_file = str(where.get("user", "")), where.get("password_file")
        self._socket: BoundedSocket | None = None

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with a Redis address."""
        return admin_has(facts, "redis", "address", "port")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if it does not answer."""
        try:
            if self._socket is None:
                self._socket = BoundedSocket(self._address, TIMEOUT_S, _MOST_BYTES)
                self._log_in(self._socket)
            self._socket.renew()
            self._socket.sendall(b"INFO\r\n")
            answer = self._bulk(self._socket)
        except OSError:
            self.close()
            raise
        return parse_info(answer.decode("utf-8", "replace"))

    def _log_in(self, line: BoundedSocket) -> None:
        if self._password_file is None:
            return
        line.sendall(f"AUTH {self._user} {Path(self._password_file).read_text()}\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += (piece := line.recv(1 << 10))
            if not piece:
                raise ConnectionError("Redis hung up")
        if answer != b"+OK\r\n":
            raise ConnectionError(f"Redis refused svload's own user: {answer[:60]!r}")

    @staticmethod
    def _bulk(line: BoundedSocket) -> bytes:
        """Return the text of a bulk answer: `$length`, a line end, text, a line end."""
        answer, wanted = b"", None
        while wanted is None or len(answer) < wanted:
            piece = line.recv(1 << 16)
            answer += piece
            if not piece or answer[:1] != b"$":
                raise ConnectionError(f"Redis hung up or answered no INFO: {answer[:60]!r}")
            head, ended, _ = answer.partition(b"\r\n")
            if ended and wanted is None:
                if not head[1:].isdigit():
                    raise ConnectionError(f"Redis answered no INFO: {answer[:60]!r}")
                wanted = len(head) + 2 + int(head[1:]) + 2
        return answer[answer.index(b"\r\n") + 2 : -2]

    def close(self) -> None:
        """Close the connection; the next sample opens it again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None


def parse_info(answer: str) -> list[Reading]:
    """Return INFO's lines as readings; statistics that this version lacks are left out."""
    found = {name: value for name, _, value in (line.partition(":") for line in answer.splitlines())}
    keyspace = [value for name, value in found.items() if name.startswith("db") and value.startswith("keys=")]
    keys = sum(number({"keys": value.removeprefix("keys=").partition(",")[0]}, "keys") for value in keyspace)
    readings = [
        Reading("", metric, number(found, name)) for name, (metric, _) in _INFO.items() if name in found
    ]
    return [*readings, Reading("", "keys", keys)]
