"""A real agent with real children: start, communication, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.host.conftest import alive
from tests.servers import wait_until

from svload.host import Agent, start_agent
from svload.host.agent.journal import read_entries
from svload.host.agent.serve import AgentServer
from svload.host.machine import linux
from svload.model import messages
from svload.model.errors import SvloadError
from svload.model.messages import Limits, Notice, Spawn, WriteFile

pytestmark = pytest.mark.truth
Order = Callable[..., Spawn]
Heard = Callable[[str, str], Notice]

DEAF = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"


@pytest.fixture
def heard(agent: Agent) -> Heard:
    """Wait for the first notice of that kind from that child since the test began."""
    begin, _ = agent.status(-1)

    def hear(kind: str, child: str) -> Notice:
        found: list[Notice] = []

        def there() -> bool:
            _, notices = agent.status(begin, 0.5)
            found[:] = [notice for notice in notices if (notice.kind, notice.child) == (kind, child)]
            return bool(found)

        wait_until(there)
        return found[0]

    return hear


def test_a_generator_s_life(agent: Agent, order: Order, heard: Heard) -> None:
    begin, nothing = agent.status(-1)
    assert nothing == []
    tell = messages.Tell(child="g", message={"prepare": {"share": 1}})
    results = agent.prepare([order("g", "generator"), tell])
    assert results[1] == {"ready": True, "got": {"share": 1}}
    agent.start_at(["g"], 12345)
    assert heard("line", "g").data == {"progress": {"start_at_ns": 12345}}
    assert agent.exited("g") is None
    assert agent.stop(["g"]) == {"g": 0}
    following, notices = agent.status(begin)
    kinds = [(notice.kind, next(iter(notice.data))) for notice in notices]
    assert kinds == [("line", "progress"), ("line", "done"), ("exit", "exit")]
    assert [notice.number for notice in notices] == [begin, begin + 1, begin + 2]
    assert following == begin + 3


def test_a_long_line_passes_whole_both_ways(agent: Agent, order: Order) -> None:
    agent.prepare([order("g", "generator")])
    text = "x" * (3 << 20)
    (result,) = agent.prepare([messages.Tell(child="g", message={"prepare": {"table": text}})])
    assert result["got"]["table"] == text


PORT = {"code": "port-taken", "details": {"port": 80, "service": "cache"}}


@pytest.mark.parametrize(
    ("asked", "expected", "code"),
    [
        ({"fail": PORT}, "Port 80 of cache", "port-taken"),
        ({"fail": "odd"}, "odd", "generator-failed"),
        ({"die": 1}, r"exit 7.*no more", "generator-failed"),
        ({"nothing": 1}, r"within 0\.2 s", "generator-failed"),
    ],
    ids=["its own error", "no error of ours", "it ends", "no answer"],
)
def test_a_child_that_fails(agent: Agent, order: Order, asked: Any, expected: str, code: str) -> None:
    agent.prepare([order("g", "generator")])
    tell = messages.Tell(child="g", message=asked, timeout_s=0.2 if "nothing" in asked else HANG_S)
    with pytest.raises(SvloadError, match=rf"{expected}.*\[{code}\]"):
        agent.prepare([tell])


def test_noise_is_a_note_and_an_unexpected_end_is_reported(agent: Agent, order: Order, heard: Heard) -> None:
    agent.prepare([order("m", "monitor", "sh", "-c", "echo hello; read x")])
    assert heard("note", "m").data == {"text": "hello"}
    agent.prepare([order("s", "server", "sh", "-c", "echo port in use; exit 4")])
    assert heard("exit", "s").data == {"exit": 4, "role": "server", "tail": "port in use"}


def test_a_tools_exit_and_last_words(agent: Agent, order: Order) -> None:
    (result,) = agent.prepare([order("t", "tool", "sh", "-c", "echo out; echo err >&2; exit 3")])
    assert (result["exit"], result["tail"]) == (3, "out\nerr")
    (again,) = agent.prepare([order("t", "tool", "sh", "-c", "kill -9 $$")])
    assert again["exit"] == -9
    with pytest.raises(SvloadError, match="there is no child “t”"):  # a long run has thousands
        agent.exited("t")


def test_a_tool_past_its_time_is_killed_with_children(agent: Agent, order: Order, tmp_path: Path) -> None:
    slow = order("t", "tool", "sh", "-c", "sleep 600 & echo going; wait", timeout_s=0.5, cwd=str(tmp_path))
    with pytest.raises(SvloadError, match=r"within 0\.5 s.*going.*\[agent-refused\]"):
        agent.prepare([slow])
    assert agent.exited("t") == -9
    assert not sleepers(tmp_path)


def sleepers(cwd: Path) -> list[int]:
    """Return the running processes with that working folder."""
    found = []
    for one in linux.processes():
        with contextlib.suppress(OSError):
            if one.state not in "ZX" and os.readlink(f"/proc/{one.pid}/cwd") == str(cwd):
                found.append(one.pid)
    return found


def test_pids_are_the_machines_and_a_name_is_free_again_after_the_end(agent: Agent, order: Order) -> None:
    (result,) = agent.prepare([order("s", "server", "sleep", "600")])
    assert alive(result)
    assert Path(f"/proc/{result['pid']}/cmdline").read_bytes() == b"sleep\x00600\x00"
    stat = linux.process_stat(result["pid"])
    assert (stat.session, stat.group) == (result["pid"], result["pid"]), "each child leads a session"
    with pytest.raises(SvloadError, match="s runs already"):
        agent.prepare([order("s", "server", "sleep", "600")])
    agent.stop(["s"])
    assert not alive(result)
    agent.prepare([order("s", "server", "true")])
    wait_until(lambda: agent.exited("s") == 0)


def test_a_program_starts_without_our_descriptors_and_blocked_signals(agent: Agent, order: Order) -> None:
    agent.prepare([order("g", "generator")])
    (result,) = agent.prepare([order("t", "tool", "sh", "-c", "ls /proc/self/fd")])
    assert result["tail"].split() == ["0", "1", "2", "3"]  # 3 is ls looking
    (result,) = agent.prepare([order("t", "tool", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")])
    words = result["tail"].split()
    assert words[0::2] == ["SigBlk:", "SigIgn:"]
    # signals 32 and 33 are the C library's: nobody can set them, and a parent may pass them on
    libc_own = 1 << 31 | 1 << 32
    assert [int(mask, 16) & ~libc_own for mask in words[1::2]] == [0, 0]
    core, look = agent.cores[-1], ("grep", "Cpus_allowed_list", "/proc/self/status")
    (result,) = agent.prepare([order("t", "tool", *look, limits=Limits(cores=(core,)))])
    assert result["tail"].split() == ["Cpus_allowed_list:", str(core)], "pins hold from its birth"
    assert result["limits"]["cores"] == [core]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"argv": ("/no/such/program",)}, r"No such file.*/no/such/program"),
        ({"cwd": "/no/such/folder"}, r"No such file.*/no/such/folder"),
        ({"limits": Limits(cores=(9999,))}, "Invalid argument"),
        ({"group": "nowhere"}, "no group “nowhere”"),
    ],
)
def test_a_failed_start_says_why(agent: Agent, order: Order, changed: dict[str, Any], expected: str) -> None:
    wish = replace(order("unborn", "server", "sleep", "600"), **changed)
    with pytest.raises(SvloadError, match=rf"{expected}.*\[agent-refused\]"):
        agent.prepare([wish])
    with pytest.raises(SvloadError, match="no child “unborn”"):
        agent.exited("unborn")
    groups = [one for one in read_entries(agent.dir) if one["kind"] == "cgroup" and one["name"] == "unborn"]
    assert all(one["done"] for one in groups), "no group is left"


def test_prepare_stops_at_the_first_failure(agent: Agent, order: Order) -> None:
    words = {"one": ("sleep", "600"), "two": ("/no/such",), "three": ("sleep", "1")}
    with pytest.raises(SvloadError):
        agent.prepare([order(name, "server", *argv) for name, argv in words.items()])
    assert agent.exited("one") is None
    with pytest.raises(SvloadError, match="no child “three”"):
        agent.exited("three")


def test_open_files_are_as_found_not_as_asked(agent: Agent, order: Order) -> None:
    wish = order("t", "tool", "sh", "-c", "ulimit -Sn; ulimit -Hn")

    def held(**asked: int) -> tuple[dict[str, dict[str, int]], list[int]]:
        (result,) = agent.prepare([replace(wish, limits=Limits(**asked))])
        return result["limits"], list(map(int, result["tail"].split()))

    limits, [soft, _] = held(nofile=500)
    assert (limits["nofile"], soft) == ({"asked": 500, "found": 500}, 500)
    limits, [soft, _] = held(nofile=1 << 30)
    assert limits["nofile"] == {"asked": 1 << 30, "found": soft}
    assert soft < 1 << 30
    limits, found = held(nofile=300, nofile_hard=400)
    assert [limits["nofile"]["found"], limits["nofile_hard"]["found"]] == [300, 400] == found
    assert held(nofile_hard=200)[1] == [200, 200], "the soft one comes down with it"


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_sigterm_ignored_is_killed(agent: Agent, order: Order, tmp_path: Path, strict: bool) -> None:
    (result,) = agent.prepare([order("deaf", "server", sys.executable, "-c", DEAF)])
    wait_until(lambda: (tmp_path / "log/deaf.log").read_text() == "deaf\n")
    begun = time.monotonic()
    assert agent.stop(["deaf"], grace_s=0.3) == {"deaf": -9}
    assert not strict or 0.3 <= time.monotonic() - begun < 0.6
    assert not alive(result)


def test_a_stopped_process_can_still_be_ended_and_now_asks_nobody(agent: Agent, order: Order) -> None:
    (result, _) = agent.prepare([order("s", "server", "sleep", "600"), order("g", "generator")])

    def state() -> str:
        stat = linux.process_stat(result["pid"])
        return stat.state if stat else ""

    agent.prepare([messages.Signal(child="s", signal="STOP")])
    wait_until(lambda: state() == "T")
    agent.prepare([messages.Signal(child="s", signal="CONT")])
    wait_until(lambda: state() == "S")
    agent.prepare([messages.Signal(child="s", signal="STOP")])
    assert agent.stop(["s"]) == {"s": -15}
    agent.prepare([order("s", "server", "sleep", "600")])
    assert agent.stop(None, now=True) == {"s": -9, "g": -9}


def test_workers_that_outlive_their_master_are_ended(agent: Agent, order: Order, tmp_path: Path) -> None:
    script = """
import os, signal, time
for own_group in (False, True):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if own_group:
            os.setpgid(0, 0)
        print("worker", flush=True)
        time.sleep(600)
time.sleep(600)
"""
    agent.prepare([order("s", "server", sys.executable, "-c", script, cwd=str(tmp_path))])
    wait_until(lambda: (tmp_path / "log/s.log").read_text().count("worker") == 2)
    assert len(sleepers(tmp_path)) == 3
    assert agent.stop(["s"], grace_s=0.3) == {"s": -15}
    assert not sleepers(tmp_path)


def test_load_is_silent_before_servers_are_asked_to_stop(agent: Agent, order: Order, tmp_path: Path) -> None:
    load = agent.prepare([order("g", "generator"), order("m", "monitor")])
    pids = [result["pid"] for result in load]
    server = f"""
import os, signal, sys, time
def bye(*_):
    print("left", [pid for pid in {pids} if os.path.exists(f"/proc/{{pid}}")], flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("up", flush=True)
while True: time.sleep(600)
"""
    agent.prepare([order("a-first-by-name", "server", sys.executable, "-c", server)])
    log = tmp_path / "log/a-first-by-name.log"
    wait_until(lambda: log.read_text() == "up\n")
    assert agent.stop() == {"g": 0, "m": 0, "a-first-by-name": 0}
    assert log.read_text() == "up\nleft []\n"


def test_closing_ends_children_and_files(state: Path, order: Order, isolate: bool, tmp_path: Path) -> None:
    kept, temporary = tmp_path / "new/folder/kept", tmp_path / "temporary"
    with start_agent(state / "labs/x", "a test", isolate=isolate) as agent:
        results = agent.prepare([order("s", "server", "sleep", "600"), order("g", "generator")])
        assert all(alive(result) for result in results)
        agent.prepare([WriteFile(path=str(kept), text="é", mode=0o600)])
        for text in "12":
            agent.prepare([WriteFile(path=str(temporary), text=text, temporary=True)])
        assert temporary.read_text() == "2"
        assert kept.stat().st_mode & 0o777 == 0o600
    assert not any(alive(result) for result in results)
    assert not linux.process_stat(agent.pid)
    assert kept.read_text(encoding="utf-8") == "é"
    assert not temporary.exists()


def test_only_own_files_are_replaced(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    with pytest.raises(SvloadError, match="is not the lab's"):
        agent.prepare([WriteFile(path=str(path), text="1", temporary=True)])
    with pytest.raises(SvloadError, match="is not the lab's"):
        agent.put(path, b"1", temporary=True)
    assert path.read_text() == "mine"


def test_only_its_owner_uses_an_agent(agent: Agent, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (agent.dir / "agent.sock").stat().st_mode & 0o777 == 0o600
    assert agent.dir.stat().st_mode & 0o777 == 0o700
    agent.prepare([order("s", "server", "sleep", "600")])
    with pytest.raises(SvloadError, match="owner already"):
        Agent(agent.dir, "a thief", agent._keeper)
    with pytest.raises(SvloadError, match="has a living agent already"):
        start_agent(agent.dir, "another")
    monkeypatch.setattr("svload.host.agent.client.PROTOCOL", 99)
    with pytest.raises(SvloadError, match="the controller 99"):
        Agent(agent.dir, "another", agent._keeper)
    monkeypatch.undo()
    assert agent.exited("s") is None


def test_a_lost_agent_is_reported_at_once_to_all_who_wait(state: Path, isolate: bool) -> None:
    agent = start_agent(state / "labs/x", "a test", isolate=isolate)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(agent.status, 0, 60.0)
        agent.clock()
        os.kill(agent.pid, 9)
        found = waiting.exception(HANG_S)
    assert isinstance(found, SvloadError) and found.problems[0].code == "agent-lost"
    with pytest.raises(SvloadError, match="ended unexpectedly"):
        agent.clock()
    agent.close()


def test_an_agent_that_cannot_start_says_why(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.host.agent.client.python", lambda *words: ("/bin/false", *words))
    with pytest.raises(SvloadError, match=r"did not come up.*\[agent-lost\]"):
        start_agent(state / "labs/x", "a test")


def test_the_lease_ends_on_a_full_disk_too(tmp_path: Path) -> None:
    async def lose() -> bool:
        agent = AgentServer(tmp_path, first_process=False)
        agent.lose_lease("a test")
        return agent._lost.is_set()

    lost = False
    with (
        contextlib.suppress(OSError),
        open("/dev/full", "w") as full,
        contextlib.redirect_stderr(full),
        ThreadPoolExecutor(1) as another,  # a browser's loop may run in this thread
    ):
        lost = another.submit(asyncio.run, lose()).result(HANG_S)
    assert lost


def test_a_message_that_is_sent_half_ends_the_connection(tmp_path: Path) -> None:
    with start_agent(tmp_path / "lab", "a test") as agent:
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            agent._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 50_000))
            with pytest.raises(SvloadError):
                agent.put(tmp_path / "large", bytes(8 << 20))
            wait_until(lambda: bool(agent._lost))
        finally:
            os.kill(agent.pid, signal.SIGCONT)
