"""A machine's worker and agent: they wait for a late controller, and end once it is silent or never comes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host.machine.lock import is_locked, last_holder, machine_lock
from svload.host.machines import bearer, worker
from svload.model.errors import SvloadError

T = TypeVar("T")


def awaited(asked: Coroutine[Any, Any, T]) -> T:
    """Run it in a separate thread, because the browser's driver keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asked).result(HANG_S)


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    monkeypatch.setenv("SVLOAD_LOCK", str(tmp_path / "lock"))


def test_one_run_loads_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "_BUSY_WITHIN_S", 0.1)
    with machine_lock("svload load", 0.0):
        for controller in ("", "svload load, pid 1,"):
            with pytest.raises(SvloadError, match=r"is running on h1 \(svload load, pid"):
                bearer.Bearer("h1", "test", 0, "word", controller)
        here = bearer.Bearer("h1", "test", 0, "word", last_holder())
        awaited(here.close())
    first = bearer.Bearer("h1", "test", 0, "word")
    second = bearer.Bearer("h1-too", "test", 0, "word")
    with pytest.raises(SvloadError, match=r"is running on h1 \(svload run test \("):
        bearer.Bearer("h1", "test", 0, "another run's word")
    for one in (second, first):
        awaited(one.close())
    wait_until(lambda: not is_locked())  # the waiter that gave up gets the lock for a moment


def test_silence_counts_from_the_greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "SILENCE_S", 0.3)
    made = bearer.Bearer("it", "test", 0, "word")
    time.sleep(3 * bearer.SILENCE_S)  # other machines are greeted meanwhile
    text = awaited(made.ask("CLOCK", 5, {}))
    assert "error" not in text
    ended: list[int] = []
    monkeypatch.setattr(bearer.os, "_exit", ended.append)
    made = bearer.Bearer("it-too", "test", 0, "word", ends_worker=True)
    pid = awaited(made.hello())["greeting"]["agent_pid"]
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    wait_until(lambda: not list((tmp_path / "labs").glob("*it-too*")))
    wait_until(lambda: ended == [0])


@pytest.mark.parametrize("actors", [{}, {"a bearer": 1}])
def test_a_worker_that_no_controller_uses_ends(actors: dict[str, int]) -> None:
    async def ends() -> bool:
        released = asyncio.Event()
        made: Any = SimpleNamespace(state=SimpleNamespace(actors=actors), finished=released.wait)
        ending = asyncio.ensure_future(worker._end_of(made, 0.05))
        done, _ = await asyncio.wait([ending], timeout=0.3 if actors else HANG_S)
        released.set()
        await ending
        return bool(done)

    assert awaited(ends()) is not bool(actors)
