"""A machine's agent process: it waits for a late controller, and ends once a greeted one falls silent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host.machines import bearer


def awaited(asked: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Run it in a separate thread, because the browser's driver keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asked).result(HANG_S)


def test_silence_counts_from_the_greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    monkeypatch.setattr(bearer, "SILENCE_S", 0.3)
    made = bearer.Bearer("it", "a test", 0, "word")
    time.sleep(3 * bearer.SILENCE_S)  # other machines are greeted meanwhile
    text = awaited(made.ask("CLOCK", 5, {}))
    assert "error" not in text
    made = bearer.Bearer("it-too", "a test", 0, "word")
    pid = awaited(made.hello())["greeting"]["agent_pid"]
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    wait_until(lambda: not list((tmp_path / "labs").glob("*")))
