"""What outlives a command: leftovers of a killed svload, and labs whose keeper fails or cannot reset."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.host.agent import leftovers
from svload.host.agent.client import try_lock
from svload.host.agent.journal import Journal
from svload.host.agent.leftovers import finish_leftovers
from svload.host.agent.unix_socket import listen
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.run import keeper, kept
from svload.run.leftovers import put_back


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return the folder of a killed agent's lab: it made a file, and its journal also claims a folder as
    one."""
    folder = tmp_path / "labs" / "killed"
    folder.mkdir(parents=True)
    owner = {"format": 1, "owner": "gone", "controller_pid": 1, "started_wall": 1.0, "made_folder": True}
    (folder / "owner.json").write_text(json.dumps(owner))
    (tmp_path / "stray").write_text("")
    (tmp_path / "blocked").mkdir()
    journal = Journal(folder)
    journal.announce("file", name=str(tmp_path / "stray"))
    journal.announce("file", name=str(tmp_path / "blocked"))
    journal.close()
    return folder


def told() -> list[Event]:
    events: list[Event] = []
    put_back(events.append)
    return events


def test_what_is_put_back_and_what_cannot_be_is_reported_until_it_can(killed: Path, tmp_path: Path) -> None:
    done, left = sorted(told(), key=lambda event: not event.data["undone"])
    assert (done.kind, left.kind) == ("leftover", "leftover")
    assert str(tmp_path / "stray") in str(done.data["text"]) and not (tmp_path / "stray").exists()
    sentence = str(left.data["text"])
    assert "[not-undone]" in sentence and str(tmp_path / "blocked") in sentence
    assert str(killed / "journal.jsonl") in sentence
    assert [event.data["undone"] for event in told()] == [False]
    (tmp_path / "blocked").rmdir()
    assert told() == []
    assert not killed.exists()
    assert told() == []


def test_an_agent_that_outlives_its_killed_controller_is_waited_for(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "END_BOUND_S", 0.1)
    owner = json.loads((killed / "owner.json").read_text()) | {"controller_start_ticks": -1}
    (killed / "owner.json").write_text(json.dumps(owner))
    lock = try_lock(killed)
    try:
        waiting, late = told()
    finally:
        os.close(lock)
    assert waiting.data["text"] == "waiting: what a killed svload (killed) had changed is being put back"
    assert "[not-undone]" in str(late.data["text"]) and "has not ended within 0.1 s" in str(late.data["text"])


def test_a_half_cleared_folder_is_left(killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blocked").rmdir()
    for name in ("a", "z"):
        (killed / name / "of a server").mkdir(parents=True)

    def killed_here(folder: str | Path, **_: object) -> None:
        for file in Path(folder).glob("*.json"):
            file.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed_here)
        with pytest.raises(KeyboardInterrupt):
            finish_leftovers(tmp_path)
    assert (killed / "a" / "of a server").exists()
    finish_leftovers(tmp_path)
    assert not killed.exists()


LOCK: Any = SimpleNamespace(name="labs", to_json=lambda: "{}")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))


def test_a_keeper_that_outlives_its_lease_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "END_TIMEOUT_S", 0.1)
    monkeypatch.setattr(kept, "python", lambda *words: [sys.executable, "-c", "import time; time.sleep(60)"])
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*args, **how))
        return started[-1]

    monkeypatch.setattr(kept, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    with pytest.raises(SvloadError, match=r"lease ended before it was up, and 0\.1 s later"):
        kept.keep(LOCK, 0.0)
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
