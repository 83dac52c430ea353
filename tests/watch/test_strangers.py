"""No process of a server that svload did not start is a stranger, by the kernel's table of sockets."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers import accepts, child, completed, free_port, wait_until
from tests.watch.test_others import machine
from tests.watch.test_others import watching as contained
from tests.watch.watched import at_port, values

from svload.host.machine import owners as owners_module
from svload.host.machine.linux import TICKS_PER_S, descriptors, process_stat
from svload.host.machine.owners import owners
from svload.watch import proc
from svload.watch.belonging import PAUSES, Helpers
from svload.watch.look import look_round
from svload.watch.monitors.others import OthersMonitor
from svload.watch.monitors.switches import SwitchesMonitor

SERVER = """
import os, socket, sys, time
port, upstream = int(sys.argv[1]), int(sys.argv[2])
listener = socket.create_server(("127.0.0.1", port))
behind = socket.create_connection(("127.0.0.1", upstream)) if upstream else None
while True:
    peer, _ = listener.accept()
    if os.fork():  # a process a connection, as many databases have it
        peer.close()
        continue
    while data := peer.recv(100):
        if data == b"burn":
            end = time.process_time() + 0.3
            while time.process_time() < end: pass
        elif data == b"build":  # a compiler that runs in the background and belongs to nobody's session
            if os.fork() == 0:
                os.setsid()
                end = time.process_time() + 0.3
                while time.process_time() < end: pass
                peer.sendall(b"built %d" % os.getpid())
                peer.recv(100)
                os._exit(0)
            continue
        peer.sendall(b"done %d" % os.getpid())
    os._exit(0)
"""


DETACH = """
import subprocess, sys
null = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
print(subprocess.Popen(sys.argv[1:], start_new_session=True, **null).pid)
"""


@contextmanager
def stray(command: Sequence[str]) -> Iterator[int]:
    """Start a program that is no child of this process, in its own session; return its pid."""
    pid = int(completed([sys.executable, "-c", DETACH, *command], check=True).stdout)
    try:
        yield pid
    finally:
        for one in proc.families([pid], proc.ProcessTable().renew().values()):
            os.kill(one, signal.SIGKILL)


@contextmanager
def server(port: int, upstream: int = 0) -> Iterator[int]:
    """Start a stranger's server, connected to another if `upstream` is a port; return its pid."""
    with stray([sys.executable, "-c", SERVER, str(port), str(upstream)]) as pid:
        wait_until(lambda: accepts(port))
        yield pid


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def ask(line: socket.socket, what: bytes) -> int:
    """Make such a server do something; return the pid of the process that did it."""
    line.sendall(what)
    return int(line.recv(100).split()[1])


def watching(*services: dict[str, Any]) -> OthersMonitor:
    """Return a monitor that knows this process, which belongs to no family."""
    monitor = OthersMonitor("", {"own": [os.getpid()], "services": services})
    monitor.table = proc.ProcessTable()
    monitor._belonging._table = monitor.table
    monitor.helpers = Helpers()
    monitor.sample()
    return monitor


def strangers(monitor: OthersMonitor, *pids: int) -> set[int]:
    """Return those of these processes whose CPU it counts since the look before."""
    counted: set[int] = set()
    keep = monitor._strangers

    def noted(used: Any, now: Any) -> Any:
        for one in keep(used, now):
            counted.add(one.pid)
            yield one

    monitor._strangers = noted
    monitor.sample()
    monitor._strangers = keep
    return counted & set(pids)


def look_again(monitor: OthersMonitor) -> None:
    """Make it look at sockets now, although it did a moment ago."""
    monitor._belonging._due = 0.0
    monitor.sample()


def test_what_a_server_is_connected_to_is_no_stranger_and_its_neighbour_is_one() -> None:
    """A proxy, an application, a database; an unrelated server; a build that left its server's session."""
    web, app, database, other = (free_port() for _ in range(4))
    with ExitStack() as stack:
        for port, upstream in ((database, 0), (app, database), (web, app), (other, 0)):
            stack.enter_context(server(port, upstream))
        clients = [stack.enter_context(connected(port)) for port in (web, app, database, other)]
        monitor = watching(at_port(web))
        pids = [ask(client, b"burn") for client in clients]
        assert strangers(monitor, *pids) == {pids[-1]}
        found = " ".join(monitor.news())
        assert "listens where the load is sent" in found
        assert "is connected to the server" in found
        assert len(monitor.news()) == len(set(monitor.news())) == 2
        built = [ask(client, b"build") for client in (clients[0], clients[-1])]
        assert strangers(monitor, *built) == {built[1]}


def test_where_two_families_of_a_user_are_hidden_neither_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    web, other = free_port(), free_port()
    with server(web) as first, server(other) as second:
        hidden = {first, second}
        monkeypatch.setattr(
            owners_module, "descriptors", lambda pid: set() if pid in hidden else descriptors(pid)
        )
        monkeypatch.setattr(owners_module, "control_group", lambda pid: f"/{pid}")
        monkeypatch.setattr(owners_module, "_pids", lambda: sorted(hidden))
        found = owners([web])
        assert (found.pids, found.likely, len(found.unproved)) == (frozenset(), frozenset(), 1)
        hidden.remove(second)
        assert owners([web]).likely == {first}


def test_a_server_elsewhere_belongs_to_nobody_here() -> None:
    here = free_port()
    with server(here), connected(here) as client:
        monitor = watching(at_port(here, address="192.0.2.1"))
        pid = ask(client, b"burn")
        assert strangers(monitor, pid) == {pid}
        assert monitor.news() == []


def test_who_serves_a_unix_socket_is_no_stranger(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    code = (
        "import socket, sys, time\nlistener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()\n"
        "while True: time.sleep(1)"
    )
    with stray([sys.executable, "-c", code, str(path)]) as pid:
        wait_until(path.exists)
        monitor = watching(at_port(0, address=f"unix:{path}"))
        wait_until(lambda: look_again(monitor) is None and pid in monitor._own)


def test_the_run_queue_of_a_server_that_ran_already_is_read() -> None:
    web = free_port()
    with server(web), connected(web) as client:
        monitor = SwitchesMonitor("web", at_port(web))
        before = values(monitor)
        ask(client, b"burn")
        monitor.table.renew()
        after = values(monitor)
        assert after["switches_total"] > before["switches_total"]
        assert after["run_queue_seconds_total"] >= before["run_queue_seconds_total"]


# a container: its process table is not the machine's


def cores(root: Path, busy_ticks: int, system: int = 0) -> None:
    """Write /proc/stat of a machine with one core; interrupts and steal belong to no process."""
    (root / "stat").write_text(
        f"cpu  {busy_ticks}\ncpu0 {busy_ticks} 0 {system} 50 0 900 900 900 0 0\nintr 1\nprocesses 7\n"
    )


def test_strangers_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, (10, "svload", 0, 100, []), (11, "neighbour", 0, 100, []))
    monitor = contained(tmp_path, monkeypatch)
    assert monitor.sample() == [], "a sandbox that counts nothing reads nothing"
    (tmp_path / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nintr 0\n")
    assert monitor.sample() == []
    cores(tmp_path, 1000)
    assert [tuple(one) for one in monitor.sample()] == [("", "cpu_seconds_total", 0.0)]
    cores(tmp_path, 1120, system=30)
    machine(tmp_path, (10, "svload", 0, 140, []), (11, "neighbour", 0, 150, []))
    [found] = monitor.sample()
    assert found.value == pytest.approx((120 + 30 - 40) / TICKS_PER_S)
    machine(tmp_path, (10, "svload", 0, 145, []))
    assert [one.value for one in monitor.sample()] == [found.value], "a counter never falls"
    monitor.close()


# helpers: their CPU comes and goes with the load


def spells(helpers: Helpers, loads: Sequence[float], pauses: Sequence[float], key: tuple[int, int]) -> None:
    """Simulate loads of 2 s and pauses of 1 s in turn, in which a process uses this much CPU."""
    at = 0.0
    helpers.turn(True, at, [key])
    for under_load, paused in zip(loads, pauses, strict=True):
        for length, used in ((2.0, under_load), (1.0, paused)):
            helpers.used(key, used)
            at += length
            helpers.turn(length == 1.0, at, [key])


@pytest.mark.parametrize(
    ("loads", "pauses", "helps"),
    [
        ([1.0] * PAUSES, [0.0] * PAUSES, True),
        ([0.1] * (PAUSES + 3), [0.004] * (PAUSES + 3), True),
        ([1.0] * (PAUSES - 1), [0.0] * (PAUSES - 1), False),
        ([1.0] * PAUSES, [0.5] * PAUSES, False),
        ([1.0] * PAUSES, [0.0] * (PAUSES - 1) + [1.0], False),
        ([1.0] * (PAUSES - 1) + [0.0], [0.0] * PAUSES, False),
        ([0.2] * PAUSES, [0.03] * PAUSES, False),
    ],
    ids=["comes and goes", "little of it", "too early", "always busy", "once in a pause", "idle under load", "rather less"],
)  # fmt: skip
def test_a_helper_is_known_by_the_pauses(loads: list[float], pauses: list[float], helps: bool) -> None:
    helpers = Helpers()
    spells(helpers, loads, pauses, (7, 70))
    assert ((7, 70) in helpers) is helps
    assert (7, 71) not in helpers, "another process with that number"


def test_a_load_without_an_end_is_neither_load_nor_pause() -> None:
    helpers = Helpers()
    spells(helpers, [1.0] * (PAUSES - 1), [0.0] * (PAUSES - 1), (7, 70))
    helpers.used((7, 70), 1.0)
    helpers.turn(True, 1e3, [(7, 70)])
    assert (7, 70) not in helpers
    spells(helpers, [1.0], [0.0], (7, 70))
    assert (7, 70) in helpers


def test_a_helper_is_counted_no_more_and_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OthersMonitor, "helpers", Helpers())
    clock = {"s": 100.0}
    monkeypatch.setattr("svload.watch.monitors.others.time.monotonic", lambda: clock["s"])
    ticks = {"helper": 0, "stranger": 0}

    def look(under_way: bool | None, **used: int) -> float:
        clock["s"] += 1.0
        for name, more in used.items():
            ticks[name] += more
        machine(tmp_path, (2, "kthreadd", 0, 0, []), (10, "svload", 1, 0, []),
                (11, "helper", 1, ticks["helper"], []), (12, "stranger", 1, ticks["stranger"], []))  # fmt: skip
        used_s = values(monitor)["cpu_seconds_total"]
        if under_way is not None:
            monitor.load(under_way)
        return used_s

    monitor = contained(tmp_path, monkeypatch)
    look(True)
    for _ in range(PAUSES):
        look(False, helper=50, stranger=50)
        before = look(True, stranger=50)
    assert look(None, helper=50, stranger=20) - before == pytest.approx(20 / TICKS_PER_S)
    assert [text.split(" (")[0] for text in monitor.news()] == ["helper"]


def test_what_runs_on_the_servers_core_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on core 3: one stranger there, one on core 9."""
    monitor = contained(tmp_path, monkeypatch)

    def look(server: int, beside: int, apart: int) -> dict[str, float]:
        machine(tmp_path, (2, "kthreadd", 0, 0, []), (10, "server", 1, server, []),
                (11, "beside", 1, beside, []), (12, "apart", 1, apart, []))  # fmt: skip
        for pid, core in ((10, 3), (11, 3), (12, 9)):
            line = tmp_path / str(pid) / "stat"
            fields = line.read_text().split()
            line.write_text(" ".join([*fields[:38], str(core), *fields[39:]]))
        return values(monitor)

    look(0, 0, 0)
    found = look(50, 0, 50)
    assert (found["cpu_seconds_total"], found["concerned_seconds_total"]) == (0.5, 0.0)
    found = look(100, 30, 50)
    assert (found["cpu_seconds_total"], found["concerned_seconds_total"]) == (0.8, 0.3)


def test_threads_are_asked_where_they_ran() -> None:
    """A process with two busy threads is on the cores of both, and its shares add up to one."""
    code = (
        "import sys, threading\nprint('x', flush=True)\n"
        "def burn():\n    while True: sum(range(1000))\n"
        "threading.Thread(target=burn, daemon=True).start(); burn()"
    )
    with child(code) as (busy, _):
        monitor = watching()
        used = [proc.Used("busy", busy.pid, 0.5)]
        wait_until(lambda: len(os.listdir(f"/proc/{busy.pid}/task")) == 2)
        found = list(monitor._where(used, monitor.table.renew()))
    assert {core for core, _ in found} <= os.sched_getaffinity(0)
    assert sum(seconds for _, seconds in found) == pytest.approx(0.5)


BURN = "import os, sys; print(os.getpid(), flush=True)\nwhile True: pass"


@pytest.fixture
def burners(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Start two busy processes; yield (a stranger's pid, that of a child of ours)."""
    script = tmp_path / "burn.py"
    script.write_text(BURN)
    with stray([sys.executable, str(script)]) as stranger, child(BURN) as (ours, _):
        yield stranger, ours.pid


def test_a_stranger_is_named_and_our_own_child_is_not(burners: tuple[int, int]) -> None:
    stranger, ours = burners
    before = process_stat(stranger)
    seen = look_round(0.5)
    used_s = process_stat(stranger).cpu_seconds - before.cpu_seconds
    by_pid = {who.pid: (who, cores) for who, cores in seen.others}
    assert stranger in by_pid
    assert ours not in by_pid
    assert os.getpid() not in by_pid
    who, cores = by_pid[stranger]
    assert (who.user, who.command.split()[-1]) == (pwd.getpwuid(os.getuid()).pw_name, "burn.py")
    assert 0 < cores <= used_s / 0.5
    assert seen.cores == os.cpu_count()
    assert set(seen.stolen) == {f"cpu{core}" for core in range(seen.cores)}


@pytest.mark.parametrize(("name", "strangers"), [("kthreadd", []), ("app", [2, 3])])
def test_the_second_process_of_a_container(name: str, strangers: list[int], tmp_path: Path) -> None:
    def use(ticks: int) -> None:
        machine(tmp_path, (2, name, 0, ticks, []), (3, "child", 2, ticks, []))

    use(0)
    seen = look_round(0.0, lambda _: use(500), str(tmp_path))
    assert sorted(who.pid for who, _ in seen.others) == strangers


def test_what_the_kernel_does_not_tell_is_null(tmp_path: Path) -> None:
    asked: list[float] = []
    seen = look_round(30.0, asked.append, str(tmp_path))
    assert asked == [30.0], "whatever ends the wait early (Ctrl-C) ends the look"
    assert (seen.cores, seen.stolen, seen.waited, list(seen.others)) == (0, {}, None, [])
