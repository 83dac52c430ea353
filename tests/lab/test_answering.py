"""The process that answers for a server must be the one started, not a worker of the build before."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.servers import child, free_port

from svload.host import Agent, start_agent
from svload.host.agent.journal import CHILD, MARK, strays
from svload.host.machine import linux
from svload.host.machine import owners as owners_module
from svload.lab.answering import proved
from svload.lab.lab import Lab
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint, ProcessFact, ServiceFacts
from svload.model.study import ServiceSpec

STUBBORN = """
import os, signal, socket, sys, time
port, build, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def serve():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = socket.socket()
    if "reuseport" in how: listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    else: listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port)); listener.listen(100)
    while True:
        peer, _ = listener.accept()
        peer.sendall(b"%s %d" % (build.encode(), os.getpid())); peer.close()
if "again" in how: serve()
if os.fork() == 0:
    os.setsid()
    if "double" in how and os.fork(): os._exit(0)
    if "wiped" in how: os.execve(sys.executable, [sys.executable, *sys.argv[:3], how + " again"], {})
    serve()
while True: time.sleep(1)
"""


def build(name: str, how: str) -> ServiceSpec:
    run = f"{sys.executable} stubborn.py ${{port}} {name} {how}"
    return ServiceSpec(name="api", kit="command", options={"run": run, "ready": "tcp"})


def lab(tmp_path: Path, host: Any, spec: ServiceSpec) -> Lab:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    return Lab([spec], host, tmp_path / "work", tmp_path / "cache", study_dir=tmp_path)


def asked(lab: Lab) -> tuple[str, int]:
    """Return which build answers, and the worker's pid as it knows it."""
    end = lab.facts()["api"].endpoints[0]
    with socket.create_connection((end.address, end.port)) as client:
        name, pid = client.recv(100).split()
    return name.decode(), int(pid)


@pytest.fixture(params=["isolated", "plain"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """Return an agent with its own PID namespace, and one as an ordinary user has it."""
    with start_agent(tmp_path / "agent", "a test", isolate=request.param == "isolated") as made:
        yield made


@pytest.mark.real
@pytest.mark.parametrize("how", ["session", "double", "reuseport", "double-wiped"])
def test_a_worker_that_left_its_session_never_answers_for_the_next_build(
    tmp_path: Path, either: Agent, needs: Callable[..., None], how: str
) -> None:
    needs("root")
    made = lab(tmp_path, either, build("a", how))
    made.up()
    try:
        assert {asked(made)[0] for _ in range(20)} == {"a"}
        made.apply([build("b", how)])
        assert {asked(made)[0] for _ in range(20)} == {"b"}
        port = made.facts()["api"].endpoints[0].port
    finally:
        made.down()
    assert owners_module.listening([port]) == ()


def test_what_a_child_started_is_found_by_its_mark_and_no_other_childs() -> None:
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    mark = f"a-lab-{os.getpid()}"  # all processes of the machine are searched, those of other tests too
    places = [{**os.environ, MARK: mark, CHILD: name} for name in ("api.server", "api.other")]
    words = [sys.executable, "-c", code]
    begun = [subprocess.Popen(words, env=place, stdout=subprocess.PIPE) for place in places]
    pids = [int(one.stdout.readline()) for one in begun if one.stdout is not None]
    try:
        assert [found.pid for found in strays(mark, "api.server")] == pids[:1]
        assert strays(f"{mark}-b", "api.server") == []
    finally:
        for pid, one in zip(pids, begun, strict=True):
            os.kill(pid, 9)
            one.communicate()


@contextmanager
def listening(address: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process that listens, after its port."""
    port = port or free_port()
    code = "import socket, sys\nlistener = socket.create_server((sys.argv[2], int(sys.argv[1])))\nprint('x', flush=True)\ninput()"
    with child(code, port, address) as (process, _):
        yield port, process


def facts(port: int) -> ServiceFacts:
    at = Endpoint(scheme="http", address="127.0.0.1", port=port)
    return ServiceFacts(service="api", kit="command", version="", endpoints=(at,))


def process(pid: int) -> ProcessFact:
    return ProcessFact(name="server", pid=pid, start_ticks=linux.process_stat(pid).start_ticks)


@pytest.fixture
def started() -> Iterator[ProcessFact]:
    """Return the fact of a process that serves nothing."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as made:
        yield process(made.pid)
        made.kill()


def test_who_was_started_is_proved_by_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens at another address answers for nobody."""
    with listening("127.0.0.2") as (port, _), listening(port=port) as (_, server):
        assert proved(facts(port), [process(server.pid)], "log") == []
        [text] = proved(facts(free_port()), [process(server.pid)], "log")
        assert "could not be proved" in text
        monkeypatch.setattr(owners_module, "descriptors", lambda pid: set())
        [text] = proved(facts(port), [process(server.pid)], "log")
        assert "This user can't see who listens" in text


def test_who_ran_before_is_refused(started: ProcessFact) -> None:
    later = evolve(started, start_ticks=started.start_ticks + 1000)
    with listening() as (port, server), pytest.raises(SvloadError) as caught:
        proved(facts(port), [later], "api.log")
    [problem] = caught.value.problems
    assert problem.code == "service-not-ours"
    assert f"process {server.pid}" in str(problem) and f"port {port}" in str(problem)


def test_who_began_later_is_named_and_taken_for_it(started: ProcessFact) -> None:
    """As with a container: its process is no descendant of the command that asked for it."""
    with listening() as (port, other):
        [text] = proved(facts(port), [started], "log")
    assert f"(process {other.pid}, " in text
    assert "was started after api" in text
