"""Changes to a machine are made once, undone completely, and never affect folders that aren't svload's."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.wheel import stand_in
from tests.servers import completed

from svload.fleet.on_host import machine

pytestmark = pytest.mark.truth

SOMAXCONN, PORTS = "net.core.somaxconn", "net.ipv4.ip_local_port_range"
WANTED = {SOMAXCONN: "65535", PORTS: "16384 60999"}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a private /proc/sys that root may write."""
    folder = tmp_path / "sys"
    for name, value in {SOMAXCONN: "4096", PORTS: "32768\t60999"}.items():
        path = folder / name.replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    monkeypatch.setattr(machine, "_SETTINGS", folder)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    assert machine.claim(made) == {"changed": True}
    return made


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that keeps its environment for all tests: making one takes five seconds of CPU."""
    made = tmp_path_factory.mktemp("equipped") / "home"
    machine.claim(made)
    return made


def read(settings: Path, name: str) -> str:
    return " ".join((settings / name.replace(".", "/")).read_text().split())


def test_limits_are_set_once_and_put_back(settings: Path, home: Path) -> None:
    for value in ("1024", "8192", "65535"):
        machine.limits(home, {SOMAXCONN: value})
        assert read(settings, SOMAXCONN) == value
    assert machine.put_back(home) == [SOMAXCONN]
    assert read(settings, SOMAXCONN) == "4096", "what it was before the first of them"
    assert machine.limits(home, WANTED) == {"changed": True, "refused": []}
    assert (read(settings, SOMAXCONN), read(settings, PORTS)) == ("65535", "16384 60999")
    assert machine.limits(home, WANTED) == {"changed": False, "refused": []}
    assert machine.clean(home) == {"changed": True, "back": [SOMAXCONN, PORTS]}
    assert (read(settings, SOMAXCONN), read(settings, PORTS)) == ("4096", "32768 60999")
    assert not home.exists()
    assert machine.clean(home) == {"changed": False, "back": []}


def test_a_setting_that_someone_else_changed_since_is_theirs(settings: Path, home: Path) -> None:
    for _ in range(2):
        machine.limits(home, WANTED)
        (settings / "net/core/somaxconn").write_text("1000\n")
    machine.limits(home, WANTED)
    assert machine.put_back(home) == [SOMAXCONN, PORTS]
    assert read(settings, SOMAXCONN) == "1000", "not the value before it"
    machine.limits(home, WANTED)
    (settings / "net/core/somaxconn").write_text("2000\n")
    assert machine.put_back(home) == [PORTS]
    assert read(settings, SOMAXCONN) == "2000"


def test_nothing_to_restore_after_a_boot(settings: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.limits(home, WANTED)
    monkeypatch.setattr(machine, "_where", lambda: "another boot")
    assert machine.put_back(home) == []
    assert read(settings, SOMAXCONN) == "65535"
    machine.limits(home, {**WANTED, PORTS: "20000 60999"})
    assert list(machine.status(home)["settings"]) == [PORTS], "the other one is no longer svload's"


def test_limits_stay_without_root(settings: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kernel.panic", "net.core/../../x", "net..x", "vm.swappiness"):
        with pytest.raises(machine.Refused):
            machine.limits(home, {name: "1"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.limits(home, WANTED) == {"changed": False, "refused": sorted(WANTED)}
    assert read(settings, SOMAXCONN) == "4096"


def test_a_folder_with_something_else_in_it_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    for verb in (machine.claim, machine.clean):
        with pytest.raises(machine.Refused) as caught:
            verb(tmp_path)
        assert caught.value.details == {"problem": "fleet-folder", "path": str(tmp_path)}
    assert (tmp_path / "mine.txt").exists()


def test_a_wheel_is_installed_once(equipped: Path) -> None:
    wheel = stand_in(equipped)
    done = machine.install(equipped, wheel.name, "digest-1", "-", "-")
    assert done == {"changed": True, "version": "0.0.1"}
    assert machine.install(equipped, wheel.name, "digest-1", "-", "-") == {"changed": False}
    assert machine.status(equipped)["version"] == "0.0.1"
    newer = stand_in(equipped, "0.0.2")
    assert machine.install(equipped, newer.name, "digest-2", "-", "-")["version"] == "0.0.2"


def test_an_environment_whose_python_is_gone_is_replaced_or_removed(equipped: Path, tmp_path: Path) -> None:
    wheel = stand_in(equipped)
    machine.install(equipped, wheel.name, "digest", "-", "-")
    for python in (equipped / "venv/bin").glob("python*"):
        python.unlink()
    gone = Path(shutil.copytree(equipped, tmp_path / "gone", symlinks=True))
    assert machine.clean(gone)["changed"]
    assert not gone.exists()
    assert machine.install(equipped, wheel.name, "digest", "-", "-") == {"changed": True, "version": "0.0.1"}


def said(*words: str) -> tuple[int, dict[str, Any]]:
    """Run the program as Ansible does: from its standard input."""
    program = Path(machine.__file__).read_text()
    done = completed([sys.executable, "-I", "-S", "-", *words], input=program)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_it_needs_nothing_but_python(tmp_path: Path) -> None:
    code, facts = said("facts", str(tmp_path / "not" / "there"))
    assert code == 0
    assert facts["cores"] >= 1 and facts["open_files"] >= 1
    assert facts["writable"] and facts["installed"] is None
    (tmp_path / "x").touch()
    assert said("claim", str(tmp_path)) == (1, {"problem": "fleet-folder", "path": str(tmp_path)})
    assert said("claim", "/dev/null/x")[1]["problem"] == "fleet-step"


def test_a_failed_write_names_the_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(home: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(machine.VERBS, "claim", fail)
    assert machine.main(["claim", str(home)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["problem"], found["path"]) == ("fleet-disk-full", str(home))


def test_packages_come_from_a_wheelhouse_or_are_asked_for(equipped: Path, tmp_path: Path) -> None:
    friend = stand_in(tmp_path / "house", name="friend")
    with tarfile.open(equipped / "wheelhouse.tar", "w") as archive:
        archive.add(friend, friend.name)
        archive.add(tmp_path / "house", "a-folder", recursive=False)
    wheel = stand_in(equipped, needs="friend")
    assert machine.install(equipped, wheel.name, "friend", "-", "wheelhouse.tar")["changed"]
    assert (equipped / "venv/bin/friend").exists()
    assert sorted(path.name for path in equipped.iterdir() if path.is_dir()) == ["venv"]
    wheel = stand_in(equipped, needs="a-package-that-is-nowhere")
    with pytest.raises(machine.Refused) as caught:
        machine.install(equipped, wheel.name, "nowhere", "-", "wheelhouse.tar")
    assert caught.value.details["problem"] == "fleet-no-index"
    assert machine.status(equipped)["version"] == ""
