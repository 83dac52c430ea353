"""The sampler: when it reads which monitor, what it writes, and the control of it from the controller."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.bounds import HANG_S
from tests.results import rows_of
from tests.servers import completed, wait_until

from svload.host import start_agent
from svload.host.machine.linux import process_stat
from svload.host.process.interpreter import python
from svload.model.columns import MONITORS
from svload.model.facts import ProcessFact, ServiceFacts
from svload.watch import Monitor, Reading, SeriesReader, sampler
from svload.watch import Sampler as Control
from svload.watch.monitor import number
from svload.watch.monitors import load_monitors
from svload.watch.sampler import METRICS, Attached, Sampler
from svload.watch.series import SeriesWriter


class Fake(Monitor):
    """Counts its samples; fails while asked to."""

    name = "fake"
    summary = "nothing"
    metrics: ClassVar[dict[str, str]] = {"samples": "number of samples"}
    failing = False
    samples = 0

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return True

    def sample(self) -> Iterable[Reading]:
        if self.failing:
            raise RuntimeError("broken")
        self.samples += 1
        return [Reading("", "samples", self.samples)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    now = {"ns": 1_000_000_000}
    monkeypatch.setattr(sampler.time, "monotonic_ns", lambda: now["ns"])
    return now


def test_a_monitors_share(tmp_path: Path, clock: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of 5 ms of CPU, 1 % of a core allowed: two readings a second."""
    passes = itertools.count()
    monkeypatch.setattr(sampler.time, "thread_time_ns", lambda: 5_000_000 * next(passes))
    series = SeriesWriter(tmp_path / "series.jsonl")
    for cpu_share, after_ns in ((Fake.cpu_share, 200_000_000), (0.01, 500_000_000)):
        monkeypatch.setattr(Fake, "cpu_share", cpu_share)
        attached = Attached(Fake("", {}), 0.2)
        attached.read(clock["ns"], series)
        assert attached.due_ns - clock["ns"] == after_ns


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    monkeypatch.setattr(sampler, "monitors_for", lambda facts: [Fake] if facts else [])
    return Fake


def readings(path: Path, metric: str) -> list[tuple[int, float]]:
    rows = rows_of(SeriesReader(path).between(0, 1 << 62, 0))
    return [(at, value) for at, _, _, _, name, value in rows if name == metric]


def test_missed_samples_are_counted(tmp_path: Path, clock: dict[str, int], fake: type[Fake]) -> None:
    one = Sampler()
    one.prepare([{"service": "s"}], 0.1, tmp_path / "out")
    assert one.due_ns == 1_100_000_000
    for late_ns in (0, 3_000_000, 60_000_000):
        clock["ns"] = one.due_ns + late_ns
        one.tick()
    assert one.due_ns == 1_400_000_000
    looks = ((1_350_000_000, one.sample_all, 1_400_000_000), (1_820_000_000, one.tick, 1_900_000_000))
    for clock["ns"], look, due_ns in (*looks, (1_900_000_000, one.tick, 2_000_000_000)):
        look()
        assert one.due_ns == due_ns
    one.close()
    assert [value for _, value in readings(tmp_path / "out", "samples")] == [1, 2, 3, 4, 5, 6, 7]
    assert readings(tmp_path / "out", "missed_total")[-1] == (1_900_000_000, 4)


def test_a_slow_monitor_keeps_its_own_period_and_appends_to_an_earlier_series(
    tmp_path: Path, clock: dict[str, int], fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "interval_s", 1.0)
    for _ in range(2):
        one = Sampler()
        one.prepare([{"service": "s"}], 0.2, tmp_path / "out")
        for _ in range(20):
            clock["ns"] = one.due_ns
            one.tick()
        one.close()
        clock["ns"] += 1_000_000_000
    times_ns = [at for at, _ in readings(tmp_path / "out", "samples")]
    assert times_ns == [n * 1_000_000_000 for n in range(1, 11)]


def test_a_lazy_monitor_catches_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(Fake):
        asked = 0

        def catch_up(self) -> None:
            type(self).asked += 1

    monkeypatch.setattr(sampler, "monitors_for", lambda facts: [Lazy])
    watching = Sampler()
    watching.prepare([], 1.0, tmp_path / "s")
    asked = Lazy.asked
    watching.tick()
    assert Lazy.asked == asked
    watching.sample_all(True)
    assert Lazy.asked == asked + 1
    watching.close()


def test_a_failing_monitor_is_noted_once_and_tried_less_and_less(tmp_path: Path) -> None:
    series = SeriesWriter(tmp_path / "out")
    monitor = Fake("cache", {})
    monitor.failing = True
    attached = Attached(monitor, 0.1)
    now_ns, tries = 0, []
    for _ in range(8):
        attached.read(now_ns, series)
        tries.append((attached.due_ns - now_ns) / 1e9)
        now_ns = attached.due_ns
    assert tries == [1, 2, 4, 8, 16, 30, 30, 30]
    attached.failures = 1024  # hours later
    attached.read(now_ns, series)
    now_ns = attached.due_ns
    monitor.failing = False
    attached.read(now_ns, series)
    assert attached.due_ns - now_ns == 100_000_000
    series.close()
    notes = SeriesReader(tmp_path / "out").notes()
    assert notes == ["cache.fake: cannot be read: RuntimeError: broken", "cache.fake: can be read again"]


THEIRS = """
from svload.watch import Monitor

class Theirs(Monitor):
    name, summary, metrics = 'theirs', 'x', {}
    @classmethod
    def reads(cls, facts): return False
    def sample(self): return []
"""


def test_a_monitor_of_another_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_package.py").write_text(THEIRS)
    info = tmp_path / "other_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[svload.monitors]\ntheirs = other_package:Theirs\n")
    known = {kind.name for kind in load_monitors()}
    monkeypatch.syspath_prepend(str(tmp_path))
    load_monitors.cache_clear()
    try:
        assert {kind.name for kind in load_monitors()} == known | {"theirs"}
    finally:
        load_monitors.cache_clear()


def test_only_the_standard_library_is_loaded() -> None:
    code = "import sys, svload.watch.sampler as s; s.monitors_for(None); print(*sys.modules)"
    done = completed([sys.executable, "-c", code], check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"numpy", "pyarrow", "pydantic", "duckdb", "psutil", "rich", "asyncio"} & loaded


def say(child: subprocess.Popen[bytes], line: bytes) -> dict[str, Any]:
    """Send the sampler a line; return its answer."""
    child.stdin.write(line + b"\n")
    child.stdin.flush()
    return dict(json.loads(child.stdout.readline()))


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return a sampler that watches this machine."""
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(python("-m", "svload.watch.sampler"), **ends) as one:
        about = {"services": [], "own": [], "interval_s": 1.0, "out": str(tmp_path / "out")}
        assert say(one, json.dumps({"prepare": about}).encode())["problems"] == []
        yield one
        one.kill()


def facts(service: str, pid: int, start_ticks: int) -> ServiceFacts:
    """Return the facts of a service with this process."""
    process = ProcessFact(name="it", pid=pid, start_ticks=start_ticks)
    return ServiceFacts(service=service, kit="any", version="1", processes=(process,))


def test_a_controller_watches_through_a_real_sampler(tmp_path: Path, places: ExitStack) -> None:
    agent = places.enter_context(start_agent(tmp_path / "agent", "a test"))
    control, stat = Control(agent, tmp_path), process_stat(os.getpid())
    services = {"me": facts("me", stat.pid, stat.start_ticks), "gone": facts("gone", 2**22 + 1, 1)}
    of_host = ("host.host", "host.others", "host.qdisc")
    of_services = ("me.process", "me.switches", "gone.process", "gone.switches")
    assert control.start(services, 0.05) == of_host + of_services
    assert control.problems == ()
    before_ns = control.mark()
    from_ns = time.monotonic_ns()
    wait_until(lambda: len(readings(tmp_path / "monitors.jsonl", "pass_seconds")) >= 6)
    to_ns = time.monotonic_ns()
    table = control.readings(before_ns, to_ns, from_ns)
    assert list(table) == list(MONITORS)
    rows = rows_of(table)
    moments = [from_ns + row[0] for row in rows]
    assert before_ns <= min(moments) < from_ns, "the marked reading is the first"
    assert max(moments) >= to_ns
    of_machine, own = {("", "host"), ("", "others"), ("", "sampler")}, {("me", "process"), ("me", "switches")}
    assert {row[1:3] for row in rows} - {("", "qdisc")} == of_machine | own
    assert {row[4] for row in rows if row[2] == "sampler"} == set(METRICS)
    why = "cannot be read: ProcessLookupError: no process of gone is there"
    assert sorted(control.notes()) == [f"gone.process: {why}", f"gone.switches: {why}"]
    assert control.attach({}) == of_host


@pytest.mark.parametrize(
    ("line", "code"),
    [
        *((line, "agent-refused") for line in (b"not json", b"[]", b'{"prepare": {}}', b"7")),
        (b'{"prepare": {"services": [], "out": "/proc/nowhere/out"}}', "file-refused"),
    ],
)
def test_a_wrong_command_is_answered(child: subprocess.Popen[bytes], line: bytes, code: str) -> None:
    assert say(child, line)["error"]["code"] == code
    assert say(child, b'{"sample": true}')["ready"]


@pytest.mark.parametrize("stopped", [True, False], ids=["stop", "end of input"])
def test_it_ends_on_request_or_when_abandoned(child: subprocess.Popen[bytes], stopped: bool) -> None:
    if stopped:
        assert say(child, b'{"stop": true}') == {"done": {}}
    else:
        child.stdin.close()
    assert child.wait(HANG_S) == 0


def test_the_watch_on_one_service_restarts_beside_the_others(tmp_path: Path, fake: type[Fake]) -> None:
    """Its processes are different after a planned fault; the counters of the others must not be reset."""
    made = Sampler()
    made.prepare([{"service": "web"}, {"service": "db"}], 0.2, tmp_path / "series.jsonl")
    made.sample_all()
    assert made.renew({"service": "web"}) == []
    made.sample_all()
    made.close()
    rows = rows_of(SeriesReader(tmp_path / "series.jsonl").between(0, time.monotonic_ns(), 0))
    read = [(row[1], row[5]) for row in rows if row[4] == "samples"]
    assert [value for service, value in read if service == "db"] == [1, 2, 3]
    assert [value for service, value in read if service == "web"] == [1, 2, 1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_figure_that_is_no_number_loses_that_monitors_readings_alone(value: float, tmp_path: Path) -> None:
    series = SeriesWriter(tmp_path / "out")
    monitor = Fake("cache", {})
    monitor.sample = lambda: [Reading("", "hits_total", value)]
    Attached(monitor, 0.1).read(1, series)
    series.close()
    note = f"cache.fake: cannot be read: OSError: hits_total is {value}"
    assert SeriesReader(tmp_path / "out").notes() == [note]


@pytest.mark.parametrize("expected", ["x", "1e999", "nan", None, {"a": 1}, "9" * 400])
def test_a_figure_of_a_server_that_is_no_number_is_named(expected: object) -> None:
    with pytest.raises(OSError, match="used_memory is not a number: “"):
        number({"used_memory": expected}, "used_memory")
    assert number({"used_memory": "12"}, "used_memory") == 12
