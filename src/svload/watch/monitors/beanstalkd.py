"""beanstalkd, from its `stats` command over TCP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading, admin_has, number

TIMEOUT_S = 0.4
_MOST_BYTES = 1 << 16
_STATS: Mapping[str, tuple[str, str]] = {
    "current-jobs-ready": ("jobs_ready", "number of jobs that wait for a worker"),
    "current-jobs-urgent": ("jobs_urgent", "number of them with a priority below 1024"),
    "current-jobs-reserved": ("jobs_reserved", "number of jobs that workers have reserved"),
    "current-jobs-delayed": ("jobs_delayed", "number of jobs whose delay is not over"),
    "current-jobs-buried": ("jobs_buried", "number of jobs put aside until they are kicked"),
    "total-jobs": ("jobs_total", "number of jobs made"),
    "job-timeouts": ("job_timeouts_total", "number of jobs taken back, as their time to run was over"),
    "cmd-put": ("puts_total", "number of put commands, those that were refused included"),
    "cmd-reserve": ("reserves_total", "number of reserve commands that wait without end"),
    "cmd-reserve-with-timeout": ("timed_reserves_total", "number of reserve commands with a time-out"),
    "cmd-delete": ("deletes_total", "number of delete commands"),
    "cmd-release": ("releases_total", "number of release commands"),
    "cmd-bury": ("buries_total", "number of bury commands"),
    "cmd-kick": ("kicks_total", "number of kick commands"),
    "cmd-touch": ("touches_total", "number of touch commands"),
    "max-job-size": ("job_limit_bytes", "bytes allowed for a job"),
    "current-tubes": ("tubes", "number of tubes"),
    "current-connections": ("connections_open", "number of open connections, ours included"),
    "current-producers": ("producers_open", "number of open connections that have put a job"),
    "current-workers": ("workers_open", "number of open connections that have reserved a job"),
    "current-waiting": ("workers_waiting", "number of open connections that wait for a job"),
    "total-connections": ("connections_total", "number of connections accepted"),
    "binlog-records-written": ("binlog_records_total", "number of records written to the binlog"),
    "binlog-records-migrated": (
        "binlog_migrated_total",
        "number of records written again to compact the binlog",
    ),
}
_THREAD = ("rusage-utime", "rusage-stime")


class BeanstalkdMonitor(Monitor):
    """`stats` at admin["beanstalkd"] = {"address", "port"} on one persistent connection."""

    name = "beanstalkd"
    summary = "jobs by state, commands, workers, connections and the one thread of beanstalkd, from its stats"
    metrics: ClassVar[Mapping[str, str]] = {
        **dict(_STATS.values()),
        "thread_seconds_total": "CPU time of its only thread, user and system",
    }

    limits = (
        # One thread does everything, so a core is all that it can use. It limits neither jobs nor connections.
        Limit("its only thread", "cpu", "thread_seconds_total", 1.0, at=0.95),
    )
    refusals = (
        # A worker was too slow, or is gone: the server itself lacked nothing.
        Refusal(
            "job_timeouts_total",
            "jobs taken back from a worker, as their time to run was over",
            "workers",
            kind="waited",
            verdict=False,
        ),
    )
    example = {"beanstalkd": {"address": "127.0.0.1", "port": 9}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        where = facts["admin"]["beanstalkd"]
        self._address = (str(where["address"]), int(where["port"]))
        self._socket: BoundedSocket | None = None

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with a beanstalkd address."""
        return admin_has(facts, "beanstalkd", "address", "port")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if it does not answer."""
        try:
            if self._socket is None:
                self._socket = BoundedSocket(self._address, TIMEOUT_S, _MOST_BYTES)
            self._socket.renew()
            self._socket.sendall(b"stats\r\n")
            answer = _data(self._socket)
        except OSError:
            self.close()
            raise
        return parse_stats(answer.decode("ascii", "replace"))

    def close(self) -> None:
        """Close the connection; the next sample opens it again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None


def _data(line: BoundedSocket) -> bytes:
    """Return the data between `OK length`, a line end, and the final line end."""
    answer, begin, end = b"", 0, 0
    while not end or len(answer) < end:
        piece = line.recv(1 << 16)
        answer += piece
        if not piece:
            raise ConnectionError("beanstalkd hung up or answered no stats")
        head, ended, _ = answer.partition(b"\r\n")
        if ended and not end:
            length = head.removeprefix(b"OK ")
            if not length.isdigit():
                raise ConnectionError(f"beanstalkd answered no stats: {head[:60]!r}")
            begin = len(head) + 2
            end = begin + int(length) + 2
    return answer[begin : end - 2]


def parse_stats(answer: str) -> list[Reading]:
    """Return `name: value` lines as readings; statistics that this version lacks are left out."""
    found = {name: value for name, _, value in (line.partition(": ") for line in answer.splitlines())}
    readings = [
        Reading("", metric, number(found, name)) for name, (metric, _) in _STATS.items() if name in found
    ]
    if all(name in found for name in _THREAD):
        readings.append(Reading("", "thread_seconds_total", sum(number(found, name) for name in _THREAD)))
    return readings
