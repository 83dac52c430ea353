"""beanstalkd through its kit: counters, what a reset deletes, what survives its end, monitor readings."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRWPair
from typing import Any

import pytest
from tests.servers import speaking, wait_until
from tests.watch.watched import Watched, moved, saturated, states

from svload.lab import Lab
from svload.model.errors import SvloadError
from svload.model.facts import ServiceFacts

from .conftest import settings_of, spec

pytestmark = pytest.mark.real
PUT = "put 0 0 60 5\r\nhello"


@pytest.fixture(autouse=True)
def _there(needs: Callable[..., None]) -> None:
    needs("beanstalkd")


@contextmanager
def client(lab: Lab) -> Iterator[Callable[..., list[str]]]:
    """Return say(command, …) → the first line of each answer."""
    at = lab.endpoints()["tcp://queue"]
    with socket.create_connection((at.address, at.port), 5) as line, line.makefile("rwb") as both:
        yield lambda *commands: [said(both, command) for command in commands]


def said(line: BufferedRWPair, command: str) -> str:
    line.write(f"{command}\r\n".encode())
    line.flush()
    found = line.readline().decode().strip()
    if found.startswith(("OK ", "RESERVED ")):
        line.read(int(found.split()[-1]) + 2)
    return found


def watched(facts: ServiceFacts) -> Watched:
    return Watched({"admin": facts.admin}, "beanstalkd")


def test_a_job_goes_through_and_every_command_is_counted(lab_of: Any) -> None:
    lab = lab_of(spec("queue", "beanstalkd", max_job="1 KiB"))
    facts = lab.up()["queue"]
    assert settings_of(facts) == {"max_job_bytes": "1024", "binlog": "off"}
    before = lab.counters()["queue"].values
    monitor = watched(facts)
    first = monitor.sample()
    with client(lab) as say:
        assert say(PUT, "reserve") == ["INSERTED 1", "RESERVED 1 5"]
        assert monitor.sample()["jobs_reserved"] == 1
        assert say("delete 1", "delete 1") == ["DELETED", "NOT_FOUND"]
        assert say(f"put 0 0 60 1025\r\n{'x' * 1025}") == ["JOB_TOO_BIG"]
        assert say(PUT) == ["INSERTED 2"]
    grown = {name: value - before[name] for name, value in lab.counters()["queue"].values.items()}
    assert grown == {"requests": 6, "connections": 2}, "the client's and the monitor's"
    last = monitor.sample()
    monitor.monitor.close()
    assert set(last) == set(type(monitor.monitor).metrics), "every documented metric is there, and no other"
    wanted = {"puts_total": 3, "jobs_total": 2, "reserves_total": 1, "deletes_total": 2, "jobs_ready": 1}
    assert {name: last[name] - first[name] for name in wanted} == wanted
    assert (last["job_limit_bytes"], last["jobs_reserved"]) == (1024, 0)


def test_a_reset_deletes_every_job_whatever_its_state(lab_of: Any) -> None:
    lab = lab_of(spec("queue", "beanstalkd"))
    facts = lab.up()["queue"]
    with client(lab) as say:
        say("use mail", *[PUT] * 600, "put 0 1000 60 5\r\nhello", *["put 0 0 1 5\r\nhello"] * 3)
        assert say("watch mail", "reserve-with-timeout 0", "bury 1 0")[-1] == "BURIED"
        assert say("use paused", PUT, "pause-tube paused 1000")[-1] == "PAUSED"
        assert say("reserve-with-timeout 0")[0].startswith("RESERVED"), "given back as its worker leaves"
    monitor = watched(facts)
    held = monitor.sample()
    assert sum(held[f"jobs_{state}"] for state in ("ready", "reserved", "delayed", "buried")) == 605
    proof = lab.reset(["queue"])["queue"]
    assert {name: value for name, value in proof.items() if "jobs" in name and value} == {}
    assert monitor.sample()["tubes"] == 1
    monitor.monitor.close()
    with client(lab) as say:
        assert say("reserve-with-timeout 0") == ["TIMED_OUT"]


def test_a_job_that_a_worker_still_holds_is_no_reset(up: Any) -> None:
    lab = up(spec("queue", "beanstalkd"))
    with client(lab) as say:
        assert say(PUT, "reserve") == ["INSERTED 1", "RESERVED 1 5"]
        with pytest.raises(SvloadError, match=r"1 of its jobs are held by workers.*\[reset-failed\]"):
            lab.reset(["queue"])
    assert lab.reset(["queue"])["queue"]["current-jobs-reserved"] == 0


@pytest.mark.parametrize(("options", "kept"), [({}, "TIMED_OUT"), ({"binlog_sync": "0 s"}, "RESERVED 1 5")])
def test_jobs_outlive_its_end_where_they_are_on_disk(lab_of: Any, options: dict[str, str], kept: str) -> None:
    lab = lab_of(spec("queue", "beanstalkd", **options))
    assert settings_of(lab.up()["queue"])["binlog"] == ("on" if options else "off")
    with client(lab) as say:
        assert say(PUT) == ["INSERTED 1"]
    lab.faults.act("kill", "queue", "", {})
    lab.faults.act("start", "queue", "", {})
    with client(lab) as say:
        assert say("reserve-with-timeout 0") == [kept]


def test_a_worker_that_is_too_slow_is_reported_and_saturates_nothing(up: Any) -> None:
    lab = up(spec("queue", "beanstalkd"))
    monitor = watched(lab.facts()["queue"])
    calm = monitor.until(lambda read: read["jobs_ready"] == 0)
    with client(lab) as slow, client(lab) as next_one:
        assert slow("put 0 0 1 5\r\nhello", "reserve") == ["INSERTED 1", "RESERVED 1 5"]

        def taken_back() -> bool:
            # beanstalkd 1.12 forgets a deadline that falls on the microsecond of its look: a command of the
            # worker renews it
            return (slow("use default") + next_one("reserve-with-timeout 0"))[-1] == "RESERVED 1 5"

        wait_until(taken_back)
        late = monitor.until(lambda read: read["job_timeouts_total"] == 1)
    monitor.monitor.close()
    for read, grown in ((calm, set()), (late, {"job_timeouts_total"})):
        assert (states(read), moved(read), saturated(read)) == ({"its only thread": "clear"}, grown, ())


@pytest.mark.parametrize(("share", "state"), [(1.2, "reached"), (0.5, "clear")])
def test_its_only_thread_at_work_all_the_time_is_its_limit(share: float, state: str) -> None:
    """Planted in a stand-in, since on a busy machine no server has a core to itself; both read one clock."""
    now_ns = 0

    def clock() -> int:
        nonlocal now_ns
        now_ns += 50_000_000
        return now_ns

    def stats(line: socket.socket) -> None:
        while line.recv(100):
            used_s = share * now_ns / 1e9
            text = f"---\nrusage-utime: {used_s / 2:.6f}\nrusage-stime: {used_s / 2:.6f}\n"
            line.sendall(f"OK {len(text)}\r\n{text}\r\n".encode())

    with speaking(stats) as port:
        facts = {"admin": {"beanstalkd": {"address": "127.0.0.1", "port": port}}}
        watch = Watched(facts, "beanstalkd", clock)
        before = watch.sample()["thread_seconds_total"]
        found = watch.until(lambda read: read["thread_seconds_total"] > before + 0.3)
        watch.monitor.close()
    assert states(found) == {"its only thread": state}
    assert bool(saturated(found)) == (state == "reached")
