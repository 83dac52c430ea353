"""The process that samples all monitors: `python -m svload.watch.sampler`, a child of the
agent that answers commands (model/messages.py).

→ {"prepare": {"services": [facts…], "own": [pid…], "interval_s": 0.2, "out": path}}    ← {"ready": true, "monitors": […], "problems": […]}
→ {"sample": true, "load": true}    read everything now; a load begins, or has ended (false), or null
                                                                          ← {"ready": true, "at_ns": n, "news": […]}
→ {"renew": facts}    this service has new processes                        ← {"ready": true, "problems": […]}
→ {"stop": true}                                                          ← {"done": {…}}; end of input does the same

It shares a machine with what it measures, so it uses only the standard library, /proc and one thread,
and its own cost is among the readings (monitor `sampler`). A second `prepare` replaces the monitors;
readings continue in the same file.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from svload.model.errors import error_line
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors import load_monitors, monitors_for
from svload.watch.series import SeriesWriter

SHORTEST_INTERVAL_S = 0.05
LONGEST_BACKOFF_S = 30
METRICS: Mapping[str, str] = {
    "cpu_ratio": "CPU of this process and its helpers over wall time since the previous reading: what watching costs",
    "pass_seconds": "how long reading everything took",
    "missed_total": "number of readings left out because an earlier one took too long",
}
"""The sampler's readings of itself, as monitor `sampler`."""


class Attached:
    """A monitor at work: when it is next due, and whether it fails."""

    def __init__(self, monitor: Monitor, interval_s: float) -> None:
        self.monitor = monitor
        self.interval_ns = round(max(interval_s, monitor.interval_s) * 1e9)
        self.due_ns = 0
        self.failures = 0

    def read(self, now_ns: int, series: SeriesWriter) -> None:
        """Sample it now; a failure is noted once, with retries after 1, 2, 4 … 30 s."""
        service, name = self.monitor.service, self.monitor.name
        self.due_ns = now_ns + self.interval_ns
        used_ns = time.thread_time_ns()
        try:
            readings = list(self.monitor.sample())
            if odd := next((one for one in readings if not isfinite(one.value)), None):
                raise OSError(f"{odd.metric} is {odd.value}")
        except Exception as why:  # whatever a monitor does wrong, the others go on
            if not self.failures:
                series.note(service, name, now_ns, f"cannot be read: {type(why).__name__}: {why}")
            self.due_ns = now_ns + min(2**self.failures, LONGEST_BACKOFF_S) * 1_000_000_000
            self.failures += 1
            return
        if self.failures:
            series.note(service, name, now_ns, "can be read again")
        self.failures = 0
        series.readings(service, name, now_ns, readings)
        used_ns = time.thread_time_ns() - used_ns
        self.due_ns = max(self.due_ns, now_ns + round(used_ns / self.monitor.cpu_share))


class Sampler:
    """All monitors on one clock. `tick` is called at `due_ns`."""

    def __init__(self) -> None:
        self._series: SeriesWriter | None = None
        self.out: Path | None = None
        self._unwritten: OSError | None = None
        self._attached: list[Attached] = []
        self._interval_ns = 0
        self._missed = 0
        self._cpu: tuple[int, float] | None = None
        self._reported: set[str] = set()
        self.due_ns = 0

    def prepare(
        self, services: Iterable[Mapping[str, Any]], interval_s: float, out: Path, own: Iterable[int] = ()
    ) -> dict[str, Any]:
        """Attach monitors to the host and to `services`, write to `out`, and take the first readings. Raise
        OSError for `out`.

        `own`: pids that belong to the measurement besides this process's parent (the agent), for the host's
        monitors.
        """
        self._detach()
        self._unwritten = None
        if out != self.out and self._series is not None:
            self._series.close()
            self._series = None
        if self._series is None:
            self._series, self.out = SeriesWriter(out), out
        self._series.forget()
        interval_s = max(interval_s, SHORTEST_INTERVAL_S)
        self._interval_ns = round(interval_s * 1e9)
        services = list(services)
        problems = self._attach(None, {"own": list(own), "services": services})
        for facts in services:
            problems += self._attach(facts)
        self.due_ns = self.sample_all() + self._interval_ns
        names = [f"{one.monitor.service or 'host'}.{one.monitor.name}" for one in self._attached]
        return {"monitors": names, "problems": problems}

    def renew(self, facts: Mapping[str, Any]) -> list[str]:
        """Watch one service by new facts; the other monitors go on. Return what could not start."""
        service = str(facts["service"])
        gone = [one for one in self._attached if one.monitor.service == service]
        self._attached = [one for one in self._attached if one not in gone]
        for one in gone:
            one.monitor.close()
        return self._attach(facts)

    def _attach(self, facts: Mapping[str, Any] | None, machine: Mapping[str, Any] | None = None) -> list[str]:
        service = "" if facts is None else str(facts["service"])
        problems = []
        for kind in monitors_for(None if facts is None else dict(facts)):
            try:
                machine_facts = dict((machine or {}) if facts is None else facts)
                self._attached.append(Attached(kind(service, machine_facts), self._interval_ns / 1e9))
            except Exception as why:  # a monitor that cannot start is reported, the others go on
                problems.append(f"{service or 'host'}.{kind.name}: {type(why).__name__}: {why}")
        return problems

    def sample_all(self, load: bool | None = None) -> int:
        """Read everything now, whatever its period (except failing monitors, which wait for their retry);
        return the time in CLOCK_MONOTONIC ns. `load`: one begins now, or has ended; None: no change."""
        for one in self._attached:
            if not one.failures:
                one.due_ns = 0
            one.monitor.catch_up()
        at_ns = self._read()
        if load is not None:
            for one in self._attached:
                one.monitor.load(load)
        return at_ns

    def news(self) -> list[str]:
        """Return sentences from the monitors that were not returned before."""
        found = [text for one in self._attached for text in one.monitor.news() if text not in self._reported]
        self._reported.update(found)
        return found

    def tick(self) -> None:
        """Read what is due, then set `due_ns` to the next moment of the grid; missed moments are skipped and
        counted. A write error stops it: the next request gets the reason."""
        try:
            self._read()
        except OSError as why:
            self._unwritten, self.due_ns = why, 0
            return
        steps = max(0, time.monotonic_ns() - self.due_ns) // self._interval_ns + 1
        self._missed += steps - 1
        self.due_ns += steps * self._interval_ns

    def _read(self) -> int:
        began_ns = time.monotonic_ns()
        if self._unwritten is not None:
            raise self._unwritten
        if self._series is None:
            return began_ns
        for one in self._attached:
            # Half a period of slack, so that a moment that comes a little early does not skip a monitor.
            if one.due_ns - self._interval_ns // 2 <= began_ns:
                one.read(time.monotonic_ns(), self._series)
        self._read_self(began_ns)
        self._series.flush()
        return began_ns

    def close(self) -> None:
        self._detach()
        if self._series is not None:
            with suppress(OSError):  # already reported, or nobody asks any more
                self._series.close()
        self._series = self.out = None

    def _read_self(self, began_ns: int) -> None:
        assert self._series is not None
        now_ns = time.monotonic_ns()
        times = os.times()
        used = time.process_time() + times.children_user + times.children_system
        readings = [
            Reading("", "pass_seconds", (now_ns - began_ns) / 1e9),
            Reading("", "missed_total", self._missed),
        ]
        if self._cpu is not None and now_ns > self._cpu[0]:
            readings.append(Reading("", "cpu_ratio", (used - self._cpu[1]) / (now_ns - self._cpu[0]) * 1e9))
        self._cpu = (now_ns, used)
        self._series.readings("", "sampler", now_ns, readings)

    def _detach(self) -> None:
        for one in self._attached:
            one.monitor.close()
        self._attached = []


def serve(commands: int, answers: int) -> None:
    """Obey commands (JSON lines) from one descriptor, answer on the other, until stop or end of input."""
    sampler = Sampler()
    heard = b""
    try:
        while True:
            wait_s = max(0.0, (sampler.due_ns - time.monotonic_ns()) / 1e9) if sampler.due_ns else None
            if not select.select([commands], [], [], wait_s)[0]:
                sampler.tick()
                continue
            piece = os.read(commands, 1 << 16)
            if not piece:
                return
            heard += piece
            while b"\n" in heard:
                line, heard = heard.split(b"\n", 1)
                answer = _obey(sampler, line)
                _say(answers, answer)
                if "done" in answer:
                    return
    finally:
        sampler.close()


def _obey(sampler: Sampler, line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
        if "stop" in message:
            return {"done": {}}
        if "renew" in message:
            return {"ready": True, "problems": sampler.renew(message["renew"])}
        if "sample" in message:
            at_ns = sampler.sample_all(message.get("load"))
            return {"ready": True, "at_ns": at_ns, "news": sampler.news()}
        wanted = message["prepare"]
        made = sampler.prepare(
            wanted["services"],
            float(wanted.get("interval_s", 1.0)),
            Path(wanted["out"]),
            wanted.get("own", ()),
        )
        return {"ready": True, **made}
    except OSError as why:
        return error_line(why, sampler.out)
    except (ValueError, KeyError, TypeError) as why:
        reason = f"the sampler: {type(why).__name__}: {why}"
        return {"error": {"code": "agent-refused", "details": {"reason": reason, "hint": ""}}}


def _say(answers: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    load_monitors()  # before they get any request
    serve(sys.stdin.fileno(), sys.stdout.fileno())
