"""beanstalkd, from its `stats` command over TCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.monitor import ConnectedMonitor, Reading, data_of, named, number

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
    "cmd-reserve-with-timeout": ("timed_reserves_total", "number of reserve commands with a timeout"),
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


class BeanstalkdMonitor(ConnectedMonitor):
    """`stats` at admin["beanstalkd"] = {"address", "port"}."""

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
    attaches = ("beanstalkd", "address", "port")
    example = {"beanstalkd": {"address": "127.0.0.1", "port": 9}}
    most_bytes = 1 << 16

    def ask(self, line: Any) -> str:
        return data_of(line, b"stats", b"OK ", "beanstalkd")

    def parsed(self, answer: str) -> list[Reading]:
        found = {name: value for name, _, value in (line.partition(": ") for line in answer.splitlines())}
        readings = named(found, _STATS)
        if all(name in found for name in _THREAD):
            readings.append(Reading("", "thread_seconds_total", sum(number(found, name) for name in _THREAD)))
        return readings
