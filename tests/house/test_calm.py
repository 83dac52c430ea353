"""Timing tests are judged by what the machine did meanwhile: inside the limits strictly, outside them not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.calm import MARK, NOT_ALL_RUN, Readings, Watch, disturbances
from tests.servers import wait_until

ROOT = Path(__file__).resolve().parents[2]
QUIET = Readings(
    seconds=10.0, cores=2, others_s=0.5, stolen_s=0.1, waited_s=0.05, burst_s=0.02, slowed=1.2, unseen_s=1.0
)
BUSY = {
    "others": ({"others_s": 3.0, "busiest": {"cargo": 2.0, "tar": 1.0}}, "used 0.3 of 2 cores: cargo, tar"),
    "steal": ({"stolen_s": 1.0}, "5 % to other guests"),
    "waits": ({"waited_s": 0.5}, "waited 5 % of the time"),
    "one wait": ({"burst_s": 0.08}, "waited 80 ms at once"),
    "slow": ({"slowed": 2.0}, "took 2 times as long"),
    "unseen": ({"unseen_s": 5.0}, "can't be seen used 0.5 of 2 cores"),
}


def test_a_quiet_machine_has_no_excuse() -> None:
    assert disturbances(QUIET) == []


@pytest.mark.parametrize("name", BUSY)
def test_each_disturbance_is_named(name: str) -> None:
    planted, said = BUSY[name]
    (told,) = disturbances(replace(QUIET, **planted))
    assert said in told


CODE = """
import os, sys, time
name, seconds, leaves = sys.argv[1:]
if leaves and os.fork(): os._exit(0)
if leaves: os.setsid()
if leaves and os.fork(): os._exit(0)
open("/proc/self/comm", "w").write(name)
open(name, "w").write(str(os.getpid()))
end = time.process_time() + float(seconds)
while time.process_time() < end: pass
open(name + ".done", "w").close()
"""


def burn(folder: Path, name: str, seconds: float, leaves: str, env: dict[str, str] | None = None) -> None:
    """A process that burns CPU; one that `leaves` belongs to nobody's family or session."""
    subprocess.run([sys.executable, "-c", CODE, name, str(seconds), leaves], cwd=folder, env=env, check=True)


@pytest.mark.truth
def test_the_tests_own_work_is_no_others_and_a_strangers_is(tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if key != MARK}
    burn(tmp_path, "stranger", 600, "leaves", clean)
    wait_until(lambda: (tmp_path / "stranger").exists() and (tmp_path / "stranger").read_text())
    watch = Watch()
    try:
        watch.begin()
        burn(tmp_path, "child", 0.3, "")
        burn(tmp_path, "daemon", 0.3, "leaves")
        wait_until((tmp_path / "daemon.done").exists)
        found = watch.end()
    finally:
        os.kill(int((tmp_path / "stranger").read_text()), signal.SIGKILL)
        watch.close()
        del os.environ[MARK]
    assert "stranger" in found.busiest
    assert not {"child", "daemon"} & found.busiest.keys()
    assert found.others_s >= found.busiest["stranger"] > 0


CONFTEST = """
import tests.calm
from tests.conftest import *
from tests.calm import Readings

SAID = {said}

class Watch:
    def begin(self): pass
    def close(self): pass
    def end(self):
        return Readings(seconds=1.0, cores=2, others_s=1.0 if SAID and SAID.pop(0) == "busy" else 0.0)

tests.calm.Watch = Watch
tests.calm.LOOK_S = 0.0
"""
TESTS = """
import pytest
from pathlib import Path

@pytest.fixture(scope="module")
def made():
    with open("made", "a") as file:
        file.write("x")

@pytest.mark.timing
def test_quick(made):
    with open("times", "a") as file:
        file.write("x")

@pytest.mark.timing
def test_late(made):
    assert False, "too late"

def test_other():
    pass
"""


@pytest.mark.parametrize(
    ("said", "wait_s", "code", "tally", "times", "made"),
    [
        ([], 60, 1, "1 failed, 1 passed", 1, 1),
        (["calm", "busy", "calm", "calm"], 60, 1, "1 failed, 1 passed", 2, 2),
        (["busy", "busy", "calm", "calm"], 60, 1, "1 failed, 1 passed", 1, 1),
        (["busy", "busy"], 0, NOT_ALL_RUN, "2 not run", 1, 2),
        (["calm", "busy"], 0, NOT_ALL_RUN, "1 not run", 1, 1),
    ],
    ids=["calm", "disturbed once", "waited for", "never calm", "no wait"],
)
@pytest.mark.truth
def test_what_was_disturbed_is_taken_again_and_nothing_else_is(
    tmp_path: Path, said: list[str], wait_s: int, code: int, tally: str, times: int, made: int
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(said=said))
    (tmp_path / "test_sample.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.calm", "-m", "timing", "-q", "--wait-calm", str(wait_s)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "CI": ""}, capture_output=True, text=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert tally in done.stdout
    assert len((tmp_path / "times").read_text()) == times
    assert len((tmp_path / "made").read_text()) == made, "what a disturbed test made for others is made again"
    assert ("machine busy: other processes used 1 of 2 cores" in done.stdout) == (code == NOT_ALL_RUN)
