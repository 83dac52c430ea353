"""The entry point of the known-truth server, without the server: errors in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from svload.truth import __main__ as door


def refuse(config: Path, ready_fd: int) -> str:
    raise ValueError("workers: at least 1\nsecond line")


def test_what_is_wrong_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "truth.json"
    config.write_text("{}")

    def error(path: Path) -> str:
        assert door.main(["--config", str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err

    assert "gone.json" in error(tmp_path / "gone.json")
    monkeypatch.setitem(sys.modules, "svload._native", None)
    assert "make setup" in error(config)
    monkeypatch.setattr(door, "serve", refuse)
    assert f"{config}: workers: at least 1 second line" in error(config)
