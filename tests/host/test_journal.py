"""The undo journal: what it restores, and what it never touches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import child, wait_until

from svload.host import finish_leftovers, list_labs, start_agent
from svload.host.agent import journal
from svload.host.agent.journal import Journal, read_entries, undo
from svload.host.machine import linux
from svload.model.errors import SvloadError

Start = Callable[..., subprocess.Popen[str]]
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
LEAVES_A_MEMBER = """
import os, sys
if os.fork():
    os._exit(0)
print('up', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Return the folder of a lab whose agent is gone."""
    folder = tmp_path / "labs" / "lab"
    folder.mkdir(parents=True)
    owner = {"format": 1, "owner": "gone", "controller_pid": 1, "started_wall": 1.0, "made_folder": True}
    (folder / "owner.json").write_text(json.dumps(owner))
    return folder


@pytest.fixture
def start() -> Iterator[Start]:
    """Return start(code, **environment) → the leader of a session, whose members end with its input."""
    with ExitStack() as stack:

        def run(code: str = WAIT, **environment: str) -> subprocess.Popen[str]:
            own = child(code, start_new_session=True, env=os.environ | environment)
            process, line = stack.enter_context(own)
            assert line == "up"
            return process

        yield run


def announce(lab: Path, pid: int, **changed: Any) -> None:
    stat = linux.process_stat(pid)
    here = {"start_ticks": stat.start_ticks if stat else 0, "boot_id": linux.boot_id()}
    noted(lab, "process", **{"name": "s", "pid": pid, "mark": "m"} | here | changed)


def noted(lab: Path, kind: str, **entry: Any) -> None:
    """Add an entry to the lab's journal."""
    log = Journal(lab)
    log.announce(kind, **entry)
    log.close()


@pytest.mark.truth
@pytest.mark.parametrize("changed", [{}, {"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_journaled_child_alone_is_killed(lab: Path, tmp_path: Path, start: Start, changed: Any) -> None:
    process = start()
    announce(lab, process.pid, **changed)
    assert [(found.id, found.owner, found.alive) for found in list_labs(tmp_path)] == [("lab", "gone", False)]
    undone = [] if changed else [f"lab: ended s (pid {process.pid})"]
    assert [str(one) for one in finish_leftovers(tmp_path)] == undone
    assert (process.poll() is None) if changed else (process.wait(HANG_S) == -9)
    assert not lab.exists()
    assert finish_leftovers(tmp_path) == []


@pytest.mark.truth
@pytest.mark.parametrize(("mark", "ended"), [("m", True), ("another lab's", False)])
def test_orphan(lab: Path, start: Start, mark: str, ended: bool) -> None:
    leader = start(LEAVES_A_MEMBER, SVLOAD_LAB=mark)
    leader.wait(HANG_S)
    (member,) = [found for found in linux.processes() if found.session == leader.pid]
    announce(lab, leader.pid, start_ticks=member.start_ticks)
    assert undo(lab).failures == []
    assert linux.is_alive(member.pid, member.start_ticks) is not ended


@pytest.mark.truth
def test_a_stray_is_found_by_the_mark(lab: Path, start: Start) -> None:
    marked, other = start(SVLOAD_LAB="lab-1-2"), start(SVLOAD_LAB="lab-1-23")
    noted(lab, "lab", name="lab", mark="lab-1-2", boot_id=linux.boot_id())
    assert undo(lab).lines == ["ended 1 strays"]
    assert marked.wait(HANG_S) == -9
    assert other.poll() is None


ORPHAN = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.setuid(int(sys.argv[1]))
os.execve("/bin/sleep", ["sleep", "60"], %s)
"""


@pytest.mark.truth
@pytest.mark.parametrize(
    ("environment", "begun", "named"),
    [
        ("{}", -100, True),
        ("{'TITLE': 'server: worker'}", -100, True),
        ("dict(os.environ)", -100, False),
        ("{}", 100, False),  # it began before the lab
    ],
)
def test_an_orphan_without_environment_is_named_to_a_user(
    lab: Path, monkeypatch: pytest.MonkeyPatch, needs: Any, environment: str, begun: int, named: bool
) -> None:
    """The process is in its own session and lacks the lab's mark: no proof shows whose it is."""
    needs("root")  # to start a process of another user
    user, before = 100_000 + os.getpid(), {one.pid for one in linux.processes()}
    subprocess.run([sys.executable, "-c", ORPHAN % environment, str(user)], check=True)

    def orphans() -> list[linux.ProcessStat]:
        found = (one for one in linux.processes() if one.pid not in before and one.name == "sleep")
        return [one for one in found if Path(f"/proc/{one.pid}").stat().st_uid == user]

    wait_until(lambda: bool(orphans()))
    (orphan,) = orphans()
    try:
        noted(lab, "lab", name="lab", mark=f"lab-1-{orphan.start_ticks + begun}", boot_id=linux.boot_id())
        monkeypatch.setattr(journal.os, "geteuid", lambda: user)
        assert any(f"process {orphan.pid} (sleep)" in line for line in undo(lab).failures) is named
    finally:
        os.kill(orphan.pid, signal.SIGKILL)
    wait_until(lambda: not orphans())
    assert undo(lab).failures == []


@pytest.mark.truth
def test_a_new_lab_undoes_the_dead_one(lab: Path, start: Start) -> None:
    process = start()
    announce(lab, process.pid)
    with start_agent(lab, "the next"):
        assert process.wait(HANG_S) == -9
    assert lab.is_dir()  # it was there before


# settings: the kernel's files simulated by ordinary ones


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "setting"
    monkeypatch.setattr(journal, "sysctl_path", lambda name: path)
    return path


def set_to(lab: Path, setting: Path, value: str, found: str | None = None, **changed: Any) -> None:
    log = Journal(lab)
    old = setting.read_text()
    where = {"network": "", "boot_id": linux.boot_id()}
    number = log.announce("sysctl", **{"name": "vm.x", "old": old, "value": value, **where, **changed})
    setting.write_text(value if found is None else found)
    if found is not None:
        log.found(number, set_to=found)
    log.close()


@pytest.mark.parametrize(
    ("old", "changes", "then", "undone", "left"),
    [
        ("A", [{"value": "B"}, {"value": "C"}], None, ["B", "A"], "A"),
        ("A", [{"value": "B"}], "theirs", [], "theirs"),
        ("1\t2\t3\n", [{"value": "4 5 6", "found": "4\t5\t7\n"}], None, ["1 2 3"], "1\t2\t3\n"),
        ("A", [{"value": "B", "name": "net.ipv4.x", "network": "net:[1]"}], None, [], "B"),
        ("A", [{"value": "B", "boot_id": "another boot"}], None, [], "B"),
    ],
    ids=["all changes", "changed by others", "in the kernel's own form", "another namespace", "another boot"],
)
def test_a_setting_goes_back(
    lab: Path, setting: Path, old: str, changes: Any, then: Any, undone: Any, left: str
) -> None:
    setting.write_text(old)
    for change in changes:
        set_to(lab, setting, **change)
    if then is not None:
        setting.write_text(then)
    assert undo(lab) == journal.Undone(lines=[f"put vm.x back to {value}" for value in undone])
    assert setting.read_text() == left
    assert undo(lab).lines == []


@pytest.mark.parametrize("name", ["", "..", "kernel..x", "net/../../../etc/passwd", "/etc/passwd"])
def test_a_setting_stays_in_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid system setting"):
        journal.sysctl_path(name)
    assert journal.sysctl_path("net/ipv4/conf/eth0.7/x") == Path("/proc/sys/net/ipv4/conf/eth0.7/x")


def test_a_torn_line_did_not_happen_and_hides_nothing(lab: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.touch()
        noted(lab, "file", name=str(path))
        if path == one:
            with open(lab / "journal.jsonl", "a") as file:
                file.write('{"entry": 1, "kind": "fi')
    assert [entry["name"] for entry in read_entries(lab)] == [str(one), str(two)]
    assert undo(lab).lines == [f"removed {two}", f"removed {one}"]


def test_what_cannot_be_undone_is_reported_and_kept_for_the_next_time(lab: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "a folder"
    blocked.mkdir()
    for path in (blocked, tmp_path / "gone already"):
        noted(lab, "file", name=str(path))
    assert "could not be undone: file" in " ".join(str(one) for one in finish_leftovers(tmp_path))
    with pytest.raises(SvloadError, match="cannot be undone"):
        start_agent(lab, "the next")
    blocked.rmdir()
    assert finish_leftovers(tmp_path) == []
    assert not lab.exists()


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_that_is_just_being_made_is_left(tmp_path: Path, begun: bool) -> None:
    new = tmp_path / "labs" / "new"
    new.mkdir(parents=True)
    if begun:
        (new / "owner.json.new").write_text('{"format": 1, "own')
    assert finish_leftovers(tmp_path) == []
    assert new.exists()
    os.utime(new, (1, 1))
    finish_leftovers(tmp_path)
    assert not new.exists()
