"""What only this user may read or write, the lock of the machine, and folders that pass with a process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import child, wait_until

from svload.host import cache_dir, finish_leftovers, labs_dir, machine_lock, passing_folder, state_dir
from svload.host.agent.unix_socket import is_own, listen
from svload.model.errors import SvloadError
from svload.model.private import append_private, private_folder, read_private, write_private
from svload.run import trust

NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_files_and_folders_are_the_users_alone(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "a" / "b"
    write_private(folder / "one", "text")
    append_private(folder / "two", "line")
    with listen(folder, "sock", 1):
        assert mode(folder / "sock") == 0o600
    assert mode(tmp_path / "a") == mode(folder) == 0o700
    assert mode(folder / "one") == mode(folder / "two") == 0o600
    assert (read_private(folder / "one"), read_private(folder / "two").strip()) == ("text", "line")


@pytest.mark.parametrize("open_to", [0o666, 0o620])
def test_what_others_may_write_is_closed_to_them_and_not_believed(tmp_path: Path, open_to: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert mode(private_folder(tmp_path / "open")) == 0o755
    write_private(tmp_path / "file", "mine")
    (tmp_path / "file").chmod(open_to)
    assert read_private(tmp_path / "file") == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write_private(tmp_path / "real", "mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_private(tmp_path / "link") == ""
    with pytest.raises(OSError, match="symbolic links"):
        append_private(tmp_path / "link", "more")
    os.mkfifo(tmp_path / "pipe")
    assert read_private(tmp_path / "pipe") == ""


@pytest.mark.parametrize("where", [state_dir, cache_dir])
@pytest.mark.parametrize("linked", [False, True])
@root
def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: Any, where: Any, linked: bool) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "link").symlink_to(theirs)
    os.chown(theirs, NOBODY, NOBODY)
    for name in ("SVLOAD_STATE", "SVLOAD_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "link" if linked else theirs))
    with pytest.raises(SvloadError, match="belongs to another user"):
        where()


@root
def test_another_users_journal_is_not_undone_and_trust_not_believed(state: Path, tmp_path: Path) -> None:
    theirs = state / "labs" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "owner.json").write_text("{}")
    (theirs / "journal.jsonl").write_text("nonsense\n")
    os.chown(theirs, NOBODY, NOBODY)
    assert finish_leftovers() == []
    assert (theirs / "journal.jsonl").exists()
    study = tmp_path / "study.yaml"
    study.write_text("name: mine\n")
    trust.trust(study)
    assert trust.is_trusted(study)
    os.chown(state / "trusted.json", NOBODY, NOBODY)
    assert not trust.is_trusted(study)


@root
@pytest.mark.parametrize(("user", "own"), [(NOBODY, False), (0, True)])
def test_another_user_at_a_socket_is_known(user: int, own: bool) -> None:
    """Even if it could reach the socket, in a folder that is open to all."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    with listen(folder, "sock", 1) as door:
        (folder / "sock").chmod(0o666)
        pid = os.fork()
        if pid == 0:
            os.setuid(user)
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(folder / "sock"))
                os._exit(len(line.recv(1)))
        door.settimeout(5)
        line, _ = door.accept()
        with line:
            assert is_own(line) is own
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    shutil.rmtree(folder)


def test_only_its_own_plain_file_is_the_machines_lock(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    os.link(precious, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("hard", "soft", "pipe", "folder"):
        lock = machine_lock("me", 0.0, path=tmp_path / name)
        with pytest.raises(SvloadError, match="is not a regular file with a single link"), lock:
            pass
    assert precious.read_text() == "keep me"


def test_who_holds_the_lock_is_reported_as_text(tmp_path: Path) -> None:
    found: list[str] = []
    path = tmp_path / "lock"
    with machine_lock("\x1b]0;owned\x07" + "x" * 5000 + "\u202e", path=path):
        with pytest.raises(SvloadError) as caught, machine_lock("me", 0.2, found.append, path=path):
            pass
        assert "\x1b" not in found[0]
        assert len(found[0]) <= 200
        assert len(str(caught.value)) < 400


def test_own_variable_wins_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def found(**variables: str) -> tuple[Path, Path]:
        for name in ("SVLOAD_STATE", "SVLOAD_CACHE", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return state_dir(), cache_dir()

    home, own = tmp_path / "home", {"SVLOAD_STATE": str(tmp_path / "s"), "SVLOAD_CACHE": str(tmp_path / "c")}
    monkeypatch.setenv("HOME", str(home))
    cache = home / ".cache/svload"
    assert found(**own, XDG_STATE_HOME="/elsewhere") == (tmp_path / "s", tmp_path / "c")
    assert labs_dir() == tmp_path / "s" / "labs"
    assert found(XDG_STATE_HOME=str(tmp_path)) == (tmp_path / "svload", cache)
    assert found(XDG_STATE_HOME="relative/is/ignored") == (home / ".local/state/svload", cache)


HOLDER = """
import sys
import time
from pathlib import Path
from svload.host import machine_lock
with machine_lock("the other study", path=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with child(HOLDER, tmp_path / "lock") as (process, text):
        assert text == "held"
        yield process


def refused(path: Path, wait_s: float, *told: Callable[[str], object]) -> SvloadError:
    """Ask for a lock that another process holds; return the refusal."""
    with (
        pytest.raises(SvloadError, match="the other study") as caught,
        machine_lock("mine", wait_s, *told, path=path),
    ):
        pytest.fail("two hold it")
    return caught.value


def test_a_second_process_is_shown_the_holder(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    found: list[str] = []
    assert refused(tmp_path / "lock", 0.3, found.append).problems[0].code == "machine-busy"
    (one,) = found
    assert re.fullmatch(rf"the other study, pid {holder.pid}, since \d\d:\d\d", one)
    refused(tmp_path / "lock", 0.0, found.append)
    assert found == [one], "who doesn't wait is told nothing"
    before = time.process_time()
    refused(tmp_path / "lock", 1.5)
    assert time.process_time() - before < 0.05, "waiting costs no CPU"


def test_a_killed_holder_lets_go(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    def end_it(_: str) -> None:
        holder.send_signal(signal.SIGKILL)

    with machine_lock("mine", 20.0, end_it, path=tmp_path / "lock"):
        assert (tmp_path / "lock").read_text().startswith(f"mine, pid {os.getpid()}, since ")
    assert holder.wait(HANG_S) == -signal.SIGKILL


def test_it_is_open_to_all_users_and_passes_to_no_child(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with machine_lock("mine", 0.0, path=path):
        assert path.stat().st_mode & 0o777 == 0o666
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with machine_lock("again", 0.0, path=path):
        assert child.poll() is None
    child.communicate(b"\n")


def test_a_waiting_process_is_shown_its_place_and_until_when(tmp_path: Path) -> None:
    path, found = tmp_path / "lock", []
    with machine_lock("first", 0.0, path=path, lasts_s=420):
        assert re.search(r"since \d\d:\d\d, until about \d\d:\d\d", path.read_text())
        words = [sys.executable, "-c", HOLDER, str(path)]
        second = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_until(lambda: f" {second.pid} " in Path("/proc/locks").read_text())
        with pytest.raises(SvloadError), machine_lock("third", 1.5, found.append, path=path):
            pytest.fail("two hold it")
    assert any("1 waits before this one" in one for one in found), found
    assert second.stdout.readline() == b"held\n", "the one that waits has it, the one that gave up has not"
    refused(path, 0.0)
    second.kill()
    second.wait()
    with machine_lock("fifth", 5.0, path=path):
        pass


HOLDS = """
import sys
from pathlib import Path
from svload.host import passing_folder

with passing_folder("load", Path(sys.argv[1])) as folder:
    (folder / "study.yaml").write_text("name: x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_killed_passing_folder_goes_with_the_next(tmp_path: Path) -> None:
    with child(HOLDS, tmp_path) as (killed, left), child(HOLDS, tmp_path) as (living, kept):
        killed.kill()
        killed.communicate(timeout=HANG_S)
        assert Path(left).exists()
        with passing_folder("load", tmp_path) as folder:
            assert not Path(left).exists()
            assert Path(kept, "study.yaml").exists()
            (folder / "inside").write_text("x")
            assert folder.stat().st_mode & 0o077 == 0
        assert not folder.exists()
        living.communicate("", timeout=HANG_S)
        assert living.returncode == 0
        assert not Path(kept).exists()


def test_a_link_to_a_passing_folder_is_neither_followed_nor_swept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    (tmp_path / "passing").mkdir()
    (tmp_path / "passing" / "load-x").symlink_to(elsewhere)
    with passing_folder("load", tmp_path):
        assert (elsewhere / "mine").exists()
