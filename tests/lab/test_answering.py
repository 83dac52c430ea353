"""The process that answers for a server must be the one started, not a worker of the build before."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint, ProcessFact, ServiceFacts
from svload.model.study import ServiceSpec

from .conftest import spec

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
        peer.sendall(build.encode()); peer.close()
if "again" in how: serve()
if os.fork() == 0:
    os.setsid()
    if "double" in how and os.fork(): os._exit(0)
    if "wiped" in how: os.execve(sys.executable, [sys.executable, *sys.argv[:3], how + " again"], {})
    serve()
while True: time.sleep(1)
"""


def build(name: str, how: str) -> ServiceSpec:
    return spec("api", "command", run=f"{sys.executable} stubborn.py ${{port}} {name} {how}", ready="tcp")


def builds(port: int) -> set[str]:
    """Return which builds answer there."""
    found = set()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as client:
            found.add(client.recv(100).decode())
    return found


@pytest.fixture(params=["isolated", "plain"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """Return an agent with its own PID namespace, and one as an ordinary user has it."""
    with start_agent(tmp_path / "agent", "a test", isolate=request.param == "isolated") as made:
        yield made


@pytest.mark.real
@pytest.mark.parametrize("how", ["session", "double", "reuseport", "double-wiped"])
def test_a_worker_that_left_its_session_never_answers_for_the_next_build(
    tmp_path: Path, up: Any, needs: Any, how: str
) -> None:
    needs("root")
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    lab = up(build("a", how))
    port = lab.facts()["api"].endpoints[0].port
    assert builds(port) == {"a"}
    lab.apply([build("b", how)])
    assert lab.facts()["api"].endpoints[0].port == port
    assert builds(port) == {"b"}
    lab.down()
    assert owners_module.listening([port]) == ()


def test_what_a_child_started_is_found_by_its_mark_and_no_other_childs() -> None:
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    mark = f"a-lab-{os.getpid()}"  # all processes of the machine are searched, those of other tests too
    places = [{**os.environ, MARK: mark, CHILD: name} for name in ("api.server", "api.other")]
    with ExitStack() as stack:
        pids = [int(stack.enter_context(child(code, env=place))[1]) for place in places]
        for pid in pids:
            stack.callback(os.kill, pid, 9)
        assert [found.pid for found in strays(mark, "api.server")] == pids[:1]
        assert strays(f"{mark}-b", "api.server") == []


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
