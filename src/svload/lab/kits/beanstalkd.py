"""beanstalkd, a work queue: jobs are put into tubes, reserved by workers and deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedRWPair
from typing import Any

from svload.host.machine.bounded import BoundedSocket
from svload.lab.kit import DurationNs, KitOptions, Permits, SizeBytes, option
from svload.lab.server import Server, path_of
from svload.model.costs import Costs
from svload.model.facts import Counters, ServiceFacts, Setting

TIMEOUT_S = 5.0
MOST_BYTES = 1 << 20
_EMPTIED_WITHIN_S, _EMPTIED_MOST_BYTES = 120.0, 1 << 32
"""The maximum size of the answers in one reset, which reserves each job with its body."""
_RESERVED_WITHIN_S = 2.0
"""How long a reset waits for jobs of the load's connections, which are released as they close."""
_AT_ONCE = 256
_MOST = 10**9
_HELD = tuple(f"current-jobs-{state}" for state in ("ready", "reserved", "delayed", "buried"))


class BeanstalkdOptions(KitOptions):
    """Options of `beanstalkd`."""

    max_job: SizeBytes = option(
        65_535, ge=1, le=1 << 30, unit="size", doc="maximum bytes of a job (-z); a larger one is refused"
    )
    binlog_sync: DurationNs | None = option(
        None,
        unit="time",
        doc="keep jobs on disk too (-b), and sync that file at most once in this time (-f), in whole ms; 0 s: at every "
        "write; default: jobs are only in memory",
    )


class Beanstalkd(Server):
    """One process with one thread; TCP only. A binlog is in a separate folder and read after a restart."""

    name = "beanstalkd"
    summary = "beanstalkd, a work queue"
    Options = BeanstalkdOptions
    costs = Costs(up_s=0.1, reset_s=0.05, answers_per_s=30_000)
    ignores = ("tuning",)
    front = False
    harmless = frozenset({"max_job", "binlog_sync"})
    permits = Permits(
        "all commands: each is about jobs, tubes or its own connection, and none is about the server"
    )
    programs = {"beanstalkd": "beanstalkd"}
    counted = ("requests", "connections")
    options: BeanstalkdOptions
    _port: int
    _opened: int
    """The number of connections that this kit has opened."""

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        options, self._opened = self.options, 0
        self._port = self.context.take_port("beanstalkd", options.port)
        kept = []
        if options.binlog_sync is not None:
            kept = ["-b", str(self.context.work), "-f", str(_whole_ms(options.binlog_sync))]
        where = ["-l", self.context.address, "-p", str(self._port)]
        self.spawn("beanstalkd", [path_of("beanstalkd"), *where, "-z", str(options.max_job), *kept])

    def condition(self) -> bool:
        return bool(self._stats())

    def describe(self) -> ServiceFacts:
        admin = {"beanstalkd": {"address": self.context.address, "port": self._port}}
        return self.service_facts(self._stats()["version"], self.endpoint(self._port, "tcp"), admin=admin)

    def reset(self) -> dict[str, Any]:
        """Delete all jobs, one by one; proved by their count. Its counters are not reset."""
        deadline = time.monotonic() + _RESERVED_WITHIN_S
        try:
            with self._line(_EMPTIED_WITHIN_S, _EMPTIED_MOST_BYTES) as line:
                while left := _emptied(line):
                    if time.monotonic() > deadline:
                        raise OSError(f"{left} of its jobs are held by workers that are still connected")
                found = _stats(line)
        except OSError as why:
            raise self.reset_failed("beanstalkd", why) from why
        return {name: int(found[name]) for name in (*_HELD, "current-connections")}

    def counters(self) -> Counters:
        """Return exact counters, without the kit's own requests."""
        at_ns = time.monotonic_ns()
        return canonical(self._stats(), at_ns, self._opened)

    def effective(self) -> list[Setting]:
        """Return its settings as it reports them; it does not report how often it syncs."""
        found, options = self._stats(), self.options
        settings = [
            Setting(name="max_job_bytes", asked=str(options.max_job), found=found["max-job-size"]),
            Setting(
                name="binlog",
                asked="off" if options.binlog_sync is None else "on",
                found="off" if found["binlog-current-index"] == "0" else "on",
            ),
        ]
        if options.binlog_sync is not None:
            settings.append(
                Setting(name="binlog_sync_ms", asked=str(_whole_ms(options.binlog_sync)), found=None)
            )
        return settings

    @contextmanager
    def _line(self, within_s: float = TIMEOUT_S, most_bytes: int = MOST_BYTES) -> Iterator[BufferedRWPair]:
        address = (self.context.address, self._port)
        with BoundedSocket(address, within_s, most_bytes) as line, line.makefile("rwb") as both:
            self._opened += 1
            yield both

    def _stats(self) -> dict[str, str]:
        with self._line() as line:
            return _stats(line)


def canonical(found: Mapping[str, str], at_ns: int, opened: int) -> Counters:
    """Return its statistics under the canonical names: every command once, except `stats`, which kit and
    monitor use, and those that it does not count (`quit`, `reserve-job`, `kick-job`, unknown ones)."""
    raw = {name: float(value) for name, value in found.items() if value.replace(".", "", 1).isdigit()}
    commands = [name for name in raw if name.startswith("cmd-") and name != "cmd-stats"]
    values = {
        "requests": sum(raw[name] for name in commands),
        "connections": raw["total-connections"] - opened,
    }
    return Counters(at_ns=at_ns, values=values, raw=raw)


def _emptied(line: BufferedRWPair) -> int:
    """Delete all jobs that can be reserved, delayed and buried ones too; return how many are left."""
    _, listed = _ask(line, "list-tubes")[0]
    for tube in [name.removeprefix("- ") for name in listed.splitlines() if name.startswith("- ")]:
        _ask(line, f"watch {tube}", f"use {tube}", f"pause-tube {tube} 0")
        while _ask(line, f"kick {_MOST}")[0][0] != "KICKED 0":  # first the buried ones, then the delayed
            pass
    # While one of its jobs has less than a second left to run, a worker gets no other job (DEADLINE_SOON).
    while held := _reserved(line):
        _ask(line, *(f"delete {job}" for job in held))
    found = _stats(line)
    return sum(int(found[name]) for name in _HELD)


def _reserved(line: BufferedRWPair) -> list[str]:
    answers = [answer.split() for answer, _ in _ask(line, *["reserve-with-timeout 0"] * _AT_ONCE)]
    return [words[1] for words in answers if words[0] == "RESERVED"]


def _stats(line: BufferedRWPair) -> dict[str, str]:
    """Return its statistics by its own names, from lines `name: value`."""
    answer, text = _ask(line, "stats")[0]
    if not answer.startswith("OK "):
        raise OSError(f"beanstalkd answered “{answer[:100]}” to “stats”")
    pairs = (one.partition(": ") for one in text.splitlines())
    return {name: value.strip('"') for name, between, value in pairs if between}


def _ask(line: BufferedRWPair, *commands: str) -> list[tuple[str, str]]:
    """Send all commands together; return the first line and the data of each answer. Raises OSError."""
    line.write("".join(f"{command}\r\n" for command in commands).encode())
    line.flush()
    return [_answer(line) for _ in commands]


def _answer(line: BufferedRWPair) -> tuple[str, str]:
    answer = line.readline().decode(errors="replace")
    if not answer.endswith("\r\n"):
        raise ConnectionError("beanstalkd hung up")
    words = answer.split()
    if words[0] not in ("OK", "RESERVED"):
        return answer.strip(), ""
    return answer.strip(), line.read(int(words[-1]) + 2).decode(errors="replace")


def _whole_ms(duration_ns: int) -> int:
    """Round up, since 0 means a sync at every write."""
    return -(-duration_ns // 1_000_000)
