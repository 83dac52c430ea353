"""A look at the machine names a stranger with user and command, and leaves out svload's own processes."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import child
from tests.watch.test_others import machine

from svload.watch.look import look_round

BURN = "import os, sys; print(os.getpid(), flush=True)\nwhile True: pass"
DETACH = (
    "import os, subprocess, sys; subprocess.Popen([sys.executable, *sys.argv[1:]], start_new_session=True)"
)


@pytest.fixture
def burners(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Start two busy processes; yield (a stranger's pid, that of a child of ours)."""
    script = tmp_path / "burn.py"
    script.write_text(BURN)
    with child(DETACH, script) as (parent, stranger), child(BURN) as (ours, _):
        parent.wait(HANG_S)
        yield int(stranger), ours.pid
        os.kill(int(stranger), signal.SIGKILL)


def test_a_stranger_is_named_and_our_own_child_is_not(burners: tuple[int, int]) -> None:
    stranger, ours = burners
    seen = look_round(0.5)
    by_pid = {who.pid: (who, cores) for who, cores in seen.others}
    assert stranger in by_pid
    assert ours not in by_pid
    assert os.getpid() not in by_pid
    who, cores = by_pid[stranger]
    assert (who.user, who.command.split()[-1]) == (pwd.getpwuid(os.getuid()).pw_name, "burn.py")
    assert 0.05 < cores < 1.2
    assert seen.cores == os.cpu_count()
    assert set(seen.stolen) == {f"cpu{core}" for core in range(seen.cores)}


def test_time_passes_as_specified() -> None:
    """Anything that ends the wait early (Ctrl-C) ends the look."""
    asked: list[float] = []
    look_round(30.0, asked.append)
    assert asked == [30.0]


@pytest.mark.parametrize(("name", "strangers"), [("kthreadd", []), ("app", [2, 3])])
def test_the_second_process_of_a_container_is_a_stranger(
    name: str, strangers: list[int], tmp_path: Path
) -> None:
    def use(ticks: int) -> None:
        machine(tmp_path, (2, name, 0, ticks, []), (3, "child", 2, ticks, []))

    use(0)
    seen = look_round(0.0, lambda _: use(500), str(tmp_path))
    assert sorted(who.pid for who, _ in seen.others) == strangers


def test_what_the_kernel_does_not_tell_is_null(tmp_path: Path) -> None:
    seen = look_round(0.0, lambda s: None, str(tmp_path))
    assert (seen.cores, seen.stolen, seen.waited, list(seen.others)) == (0, {}, None, [])
