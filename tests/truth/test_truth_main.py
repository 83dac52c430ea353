"""The entry point of the known-truth server, without the server: signals, and one-line errors."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from svload.truth import __main__ as door


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Restore the process's own handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        os.close(descriptor)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write a configuration."""
    (tmp_path / "truth.json").write_text("{}")
    return str(tmp_path / "truth.json")


def native(monkeypatch: pytest.MonkeyPatch, serve: object) -> None:
    module = ModuleType("svload._native")
    module.truth_serve = serve
    monkeypatch.setitem(sys.modules, "svload._native", module)


def test_what_is_wrong_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(config: str, ready_fd: int, stop_fd: int) -> str:
        raise ValueError("workers: must be at least 1\nsecond line")

    native(monkeypatch, refuse)
    for config in (f"{file}.gone", file):
        assert door.main(["--config", config]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), config in err) == ("", 1, True)
    assert "workers: must be at least 1" in err


def test_without_the_engine_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "svload._native", None)
    assert door.main(["--config", file]) == 2
    assert "make setup" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_the_stop_descriptor_readable(
    monkeypatch: pytest.MonkeyPatch, file: str, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def serve(config: str, ready_fd: int, stop_fd: int) -> str:
        assert (config, ready_fd) == ("{}", 7)
        assert select.select([stop_fd], [], [], 0)[0] == []
        os.kill(os.getpid(), number)
        assert select.select([stop_fd], [], [], 10)[0] == [stop_fd]
        os.close(stop_fd)
        return '{"answers":3}'

    native(monkeypatch, serve)
    assert door.main(["--config", file, "--ready-fd", "7", "--verbose"]) == 0
    assert capsys.readouterr().err == '{"answers":3}\n'
