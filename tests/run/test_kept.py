"""A keeper that does not come up in time is ended; one that cannot reset reports why and continues."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.host.agent.unix_socket import listen
from svload.model.errors import SvloadError, fail
from svload.run import keeper, kept

LOCK: Any = SimpleNamespace(name="labs", to_json=lambda: "{}")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))


def test_a_keeper_that_does_not_come_up_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "UP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(kept, "python", lambda *words: [sys.executable, "-c", "import time; time.sleep(60)"])
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*args, **how))
        return started[-1]

    monkeypatch.setattr(kept, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    with pytest.raises(SvloadError, match=r"not up within 0\.1 s"):
        kept.keep(LOCK, 60.0)
    assert started[0].wait(HANG_S) == -signal.SIGTERM


def test_a_reset_that_fails_is_reported(tmp_path: Path) -> None:
    def refuse(services: list[str]) -> None:
        raise fail("reset-failed", place="cache", service="cache", reason="it is busy", log="cache.log")

    lab: Any = SimpleNamespace(reset=refuse, facts=dict)
    folder = tmp_path / "kept" / "one"
    folder.mkdir(parents=True)
    answered: list[str] = []

    def answer() -> None:
        line, _ = door.accept()
        with line:
            answered.append(keeper._answer(line, lab))

    with listen(folder, kept.SOCKET, 1) as door:
        door.settimeout(HANG_S)
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(SvloadError, match="Resetting cache failed: it is busy"):
            kept.ask("one", "reset")
        thread.join(HANG_S)
    assert answered == ["reset"], "its keeper goes on"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("", "its lease ended before it was up"),
        ("raise SystemExit('out of luck')", "its keeper ended: out of luck."),
        ("raise SystemExit(7)", "its keeper ended: exit 7."),
    ],
)
def test_a_keeper_that_ends_before_its_lab_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    monkeypatch.setattr(kept, "python", lambda *argv: [sys.executable, "-c", program])
    with pytest.raises(SvloadError) as caught:
        kept.keep(LOCK, 1.0)
    assert words in str(caught.value)
    assert str(tmp_path) not in str(caught.value), "its log is removed"
