"""Where svload's state is kept, and that only this user can read or write it, whatever the umask and
whoever prepared the folder: it decides what may be run, undone and asked."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svload.host import cache_dir, finish_leftovers, labs_dir, machine_lock, state_dir
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


def test_a_folder_that_others_may_write_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert mode(private_folder(tmp_path / "open")) == 0o755


@pytest.mark.parametrize("open_to", [0o666, 0o620])
def test_what_others_may_have_written_is_not_believed(tmp_path: Path, open_to: int) -> None:
    path = tmp_path / "file"
    write_private(path, "mine")
    path.chmod(open_to)
    assert read_private(path) == ""


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
    if linked:
        (tmp_path / "link").symlink_to(theirs)
    os.chown(theirs, NOBODY, NOBODY)
    for name in ("SVLOAD_STATE", "SVLOAD_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "link" if linked else theirs))
    with pytest.raises(SvloadError, match="belongs to another user"):
        where()


@root
def test_another_users_journal_is_not_undone(state: Path) -> None:
    theirs = state / "labs" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "owner.json").write_text("{}")
    (theirs / "journal.jsonl").write_text("nonsense\n")
    os.chown(theirs, NOBODY, NOBODY)
    assert finish_leftovers() == []
    assert (theirs / "journal.jsonl").exists()


@root
def test_another_users_trust_is_not_believed(state: Path, tmp_path: Path) -> None:
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
        with pytest.raises(SvloadError, match="is not a regular file of its own"), lock:
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


def test_own_variable_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "s"))
    monkeypatch.setenv("SVLOAD_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert state_dir() == tmp_path / "s"
    assert cache_dir() == tmp_path / "c"
    assert labs_dir() == tmp_path / "s" / "labs"


def test_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SVLOAD_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "svload"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_dir() == tmp_path / "home/.local/state/svload"
    monkeypatch.delenv("SVLOAD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == tmp_path / "home/.cache/svload"
