"""Leftovers of a killed svload are reported, whether restored or not, and only by `put_back`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from svload.host.agent.journal import Journal
from svload.host.agent.leftovers import finish_leftovers
from svload.model.events import Event
from svload.run.leftovers import put_back

SOURCE = Path(__file__).resolve().parents[2] / "src" / "svload"


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a killed agent's lab: it made a file, and its journal also claims a folder as
    one."""
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
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


def test_what_is_put_back_and_what_cannot_be_is_reported(killed: Path, tmp_path: Path) -> None:
    done, left = sorted(told(), key=lambda event: not event.data["undone"])
    assert (done.kind, left.kind) == ("leftover", "leftover")
    assert str(tmp_path / "stray") in str(done.data["text"]) and not (tmp_path / "stray").exists()
    sentence = str(left.data["text"])
    assert "[not-undone]" in sentence and str(tmp_path / "blocked") in sentence
    assert str(killed / "journal.jsonl") in sentence


def test_what_could_not_be_undone_is_reported_each_time_until_it_can(killed: Path, tmp_path: Path) -> None:
    told()
    assert [event.data["undone"] for event in told()] == [False]
    (tmp_path / "blocked").rmdir()
    assert told() == []
    assert not killed.exists()


def test_where_nothing_is_left_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    assert told() == []


def matching(call: str) -> set[str]:
    files = ((path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")) for path in SOURCE.rglob("*.py"))
    return {name for name, text in files if re.search(call, text)}


def test_only_these_modules_restore_leftovers() -> None:
    callers = matching(rf"\b{finish_leftovers.__name__}\(")
    # A fleet's machine reports what it found when it is greeted.
    assert callers == {"host/agent/leftovers.py", "host/machines/bearer.py", "run/leftovers.py"}


def calling(names: str) -> set[str]:
    """Return the modules that call one of these (and do not define it)."""
    return {name for name in matching(rf"(?<!def )\b(?:{names})\(") if not name.startswith("host/")}


def test_whoever_starts_an_agent_puts_back_first() -> None:
    starters = calling("start_agent|launch_agent")
    assert starters == {"run/certify.py", "run/hands.py", "run/keeper.py", "run/listing.py", "run/once.py"}
    # A keeper is a process that `lab up` starts; an agent is taken over by an execution, whoever had started
    # it.
    for_them = {"run/keeper.py": "api/labs.py", "run/hands.py": "run/execution.py"}
    assert {for_them.get(name, name) for name in starters} <= calling("put_back")


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
