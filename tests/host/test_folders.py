from __future__ import annotations

from pathlib import Path

import pytest

from svload.host import cache_dir, labs_dir, state_dir


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
