"""Commands with closed, full or broken standard streams: they still report what they can, and keep their
exit codes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.bounds import HANG_S
from tests.servers import completed
from tests.support import make_run

from svload.api import RunResult
from svload.cli import streams
from svload.cli.output import show_result
from svload.model.errors import ExitCode
from svload.run.execution import Outcome
from svload.run.interrupts import interrupts
from svload.store import RunDir

pytestmark = pytest.mark.truth

SVLOAD = f"{sys.executable} -m svload"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return completed(["bash", "-c", command])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_defect(closed: str):
    assert shell(f"{SVLOAD} schema nope {closed}").returncode == 2
    assert shell(f"{SVLOAD} schema {closed}").returncode == 0


def test_no_file_takes_the_place_of_a_closed_stream():
    code = "from svload.cli.streams import open_descriptors as o; o(); print(open('/dev/null').fileno() > 2)"
    assert shell(f'{sys.executable} -c "{code}" <&-').stdout == "True\n"


def test_a_reader_that_has_gone_changes_no_exit_code():
    """1 would mean that a threshold failed, 0 that none did."""
    assert shell(f"{SVLOAD} schema | true; echo ${{PIPESTATUS[0]}}").stdout == "0\n"
    piped = shell(f"({SVLOAD} schema nope; echo $? >&3) 3>&1 2>&1 >/dev/null | cat")
    assert piped.stdout.splitlines()[-1] == "2"


def test_a_full_disk_behind_stdout_is_reported_in_one_line():
    answer = shell(f"{SVLOAD} schema > /dev/full")
    assert answer.returncode == 3
    assert answer.stderr.splitlines() == [
        "svload: The system refused access to stdout (No space left on device). Free space, raise the limit, or use "
        "another path (SVLOAD_STATE and SVLOAD_CACHE name svload's own folders). [file-refused]"
    ]


def test_a_sign_that_the_terminal_lacks_is_a_question_mark(monkeypatch: pytest.MonkeyPatch):
    read, write = os.pipe()
    with os.fdopen(write, "wb", closefd=False) as raw, io.TextIOWrapper(raw, encoding="ascii") as ascii_only:
        monkeypatch.setattr(sys, "stdout", ascii_only)
        streams.sound_streams()
        print("3 × µs", flush=True)
    os.close(write)
    assert os.read(read, 99) == b"3 ? ?s\n"
    os.close(read)


def test_a_defect_without_room_for_its_file_is_one_line():
    broken = (
        "import sys, types; sys.modules['svload.cli.app'] = types.SimpleNamespace(app=lambda **_: 1 / 0); "
        "import tempfile; tempfile.tempdir = '/proc/nowhere'; from svload.cli.main import run; run()"
    )
    answer = shell(f'{sys.executable} -c "{broken}"')
    assert answer.returncode == 3
    assert len(answer.stderr.splitlines()) == 1, answer.stderr
    assert "ZeroDivisionError" in answer.stderr and "SVLOAD_DEBUG=1 prints them" in answer.stderr


@pytest.mark.parametrize("width", ["0", "-5", "abc", ""])
def test_an_invalid_width_is_ignored(monkeypatch: pytest.MonkeyPatch, width: str):
    monkeypatch.setenv("COLUMNS", width)
    streams.sound_streams()
    assert "COLUMNS" not in os.environ


def test_a_terminal_that_goes_away_ends_a_load_as_ctrl_c_does():
    with interrupts() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(HANG_S)


def test_a_file_size_limit_is_no_defect_whoever_writes(tmp_path: Path):
    """Python's own writes raise an errno; the workbook's library and DuckDB report it as text."""
    run = make_run(tmp_path, cases=1, replicates=1)

    def limited(size: int, *words: object) -> subprocess.CompletedProcess[str]:
        code = (
            "import resource, sys; from svload.cli import main; from svload.host.process import limits;"
            f"limits.NEEDS = (); resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}));"
            f"sys.argv = {['svload', *map(str, words)]}; main.main()"
        )
        return shell(f'{sys.executable} -c "{code}"')

    for size in (0, 32 * 1024):
        answer = limited(size, "report", run.path)
        assert answer.returncode == 3, answer.stderr
        assert "File too large" in answer.stderr
    for command in ("report", "verify"):
        assert shell(f"{SVLOAD} {command} {run.path}").returncode == 0
    assert list(run.derived.glob(".*")) == []
    for form in ("csv", "parquet"):
        answer = limited(0, "export", run.path, "-f", form, "--to", to := tmp_path / form)
        refused = f"svload: {to} cannot be written: File too large. Use another path, or free space. [usage]"
        assert (answer.returncode, answer.stderr.splitlines()) == (2, [refused])
        assert list(to.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "sealed", "advised"),
    [(ExitCode.USAGE, 0, False), (ExitCode.USAGE, 1, True), (ExitCode.LAB_FAILED, 0, True)],
)
def test_resume_is_advised_unless_it_would_fail_in_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: ExitCode, sealed: int, advised: bool
):
    run = RunDir(tmp_path)
    run.lock_path.touch()
    with pytest.raises(typer.Exit):
        show_result(RunResult(run, Outcome(code, sealed, 6, False), None, {}, code), as_json=False)
    assert ("svload resume" in capsys.readouterr().err) is advised
