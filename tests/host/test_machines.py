"""A machine's clock is compared through its offset; files and refusals come back from it."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svload.host import Agent, LocalMachine
from svload.host.agent.files import PART_BYTES
from svload.host.machine import linux
from svload.host.machines.base import offset_by_agent
from svload.host.machines.cluster import _first_line, _machines
from svload.host.machines.dask_carrier import DaskCarrier
from svload.host.machines.reach import Reach
from svload.model.errors import SvloadError, fail

pytestmark = pytest.mark.truth


@pytest.fixture
def machine(agent: Agent) -> LocalMachine:
    return LocalMachine(agent)


def test_offset_of_this_machines_clock(machine: LocalMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.offset()
    assert (found.offset_ns, found.bound_ns) == (0, 0)
    measured = offset_by_agent(machine.agent)
    assert abs(measured.offset_ns) <= measured.bound_ns
    assert linux.namespace("time", "self") == linux.namespace("time", machine.agent.pid) != ""
    assert linux.namespace("time", 0) == ""
    monkeypatch.setattr("svload.host.machine.linux.namespace", lambda kind, pid: str(pid))
    assert 0 < machine.offset().bound_ns < 1_000_000_000


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 5])
def test_a_file_comes_back_as_it_was_put(machine: LocalMachine, tmp_path: Path, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    path = tmp_path / "new" / "data.bin"
    machine.agent.put(path, data, 0o600)
    assert machine.agent.collect(path) == data == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["data.bin"]
    machine.agent.put(path, b"anew")
    assert path.read_bytes() == b"anew"


def test_a_part_that_follows_nothing_is_refused(agent: Agent, tmp_path: Path) -> None:
    part = {"path": str(tmp_path / "x"), "offset": 7, "data": "", "more": False}
    with pytest.raises(SvloadError, match="could not be written"):
        agent.ask("PUT", 5, **part, mode=0o644, temporary=False)
    assert list(tmp_path.glob("*x*")) == []
    with pytest.raises(SvloadError, match="could not be written"):
        agent.put("/proc/nothing/x", b"1")
    with pytest.raises(SvloadError, match="cannot be read"):
        agent.collect(tmp_path / "x")


@pytest.mark.parametrize(
    ("prints", "expected"),
    [
        ("""echo Welcome; echo 7; echo '{"ready": 1}'; exec sleep 60""", {"ready": 1}),
        ("printf half; exec sleep 60", None),
        ("echo Welcome", None),
    ],
)
def test_a_workers_answer_comes_after_a_greeting_or_in_time_or_never(prints: str, expected: Any) -> None:
    with subprocess.Popen(("sh", "-c", prints), stdout=subprocess.PIPE) as process:
        try:
            within_s = 30.0 if expected else 0.5
            assert _first_line(process, time.monotonic() + within_s) == expected
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("raised", "says"),
    [(TimeoutError(), "its agent did not start within 60 s"), (OSError("no room"), "OSError: no room")],
)
def test_a_machine_whose_agent_does_not_start_is_named_with_the_reason(raised: Exception, says: str) -> None:
    def result(timeout: float) -> None:
        raise raised

    client: Any = SimpleNamespace(submit=lambda *_, **__: SimpleNamespace(result=result))
    with ExitStack() as stack, pytest.raises(SvloadError) as failed:
        _machines(stack, client, [Reach("gen1", "192.0.2.1", "", 0, "python")], "a-test")
    assert failed.value.problems[0].details == {"host": "gen1", "reason": says}


def test_what_a_machine_refuses_is_raised_here_and_the_machine_is_not_lost() -> None:
    def refuse(timeout: float) -> None:
        raise fail("not-yours", path="/cache", owner=7)

    def answer(*_: Any) -> Any:
        return SimpleNamespace(result=lambda timeout: "answer")

    refusing = SimpleNamespace(result=refuse)
    actor = SimpleNamespace(hand=lambda *_: refusing, beat=answer, room=answer, close=answer)
    carrier = DaskCarrier("gen1", actor)
    with pytest.raises(SvloadError, match=r"\[not-yours\]"):
        carrier.call("hand", "servers", "module:Kind", {})
    assert carrier.call("room", 1) == "answer"
    carrier.close()
