"""A fixture that runs a command line in this process."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from svload.cli import main


@pytest.fixture
def svload(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[[str], tuple[int, str, str]]]:
    """svload(line) → exit code, stdout and stderr of this command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def said(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["svload", *shlex.split(line)])
        with pytest.raises(SystemExit) as left:
            main.run()
        found = capsys.readouterr()
        return int(left.value.code or 0), found.out, found.err

    yield said
    for number, handler in before.items():
        signal.signal(number, handler)
