"""The lock between processes that allows one load at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import child, wait_until

from svload.host import machine_lock
from svload.model.errors import SvloadError

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
def holder(tmp_path: Path):
    with child(HOLDER, tmp_path / "lock") as (process, text):
        assert text == "held"
        yield process


def test_a_second_process_is_shown_the_holder(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    found: list[str] = []
    with (
        pytest.raises(SvloadError, match="the other study") as caught,
        machine_lock("mine", 0.3, found.append, path=tmp_path / "lock"),
    ):
        pytest.fail("two hold it")
    assert caught.value.problems[0].code == "machine-busy"
    (one,) = found
    assert re.fullmatch(rf"the other study, pid {holder.pid}, since \d\d:\d\d", one)


def test_not_waiting_says_nothing(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    found: list[str] = []
    with pytest.raises(SvloadError), machine_lock("mine", 0.0, found.append, path=tmp_path / "lock"):
        pytest.fail("two hold it")
    assert found == []


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


def test_who_is_stopped_while_waiting_waits_no_longer(tmp_path: Path) -> None:
    path, found = tmp_path / "lock", []
    with (
        machine_lock("first", 0.0, path=path),
        pytest.raises(SvloadError) as caught,
        machine_lock("second", None, found.append, path=path, should_stop=lambda: bool(found)),
    ):
        raise AssertionError("the lock was taken twice")
    assert caught.value.exit_code == 130


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
    with pytest.raises(SvloadError, match="the other study"), machine_lock("fourth", 0.0, path=path):
        pytest.fail("two hold it")
    second.kill()
    second.wait()
    with machine_lock("fifth", 5.0, path=path):
        pass


def test_waiting_costs_no_cpu(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    before = time.process_time()
    with pytest.raises(SvloadError), machine_lock("mine", 1.5, path=tmp_path / "lock"):
        pytest.fail("two hold it")
    assert time.process_time() - before < 0.05
