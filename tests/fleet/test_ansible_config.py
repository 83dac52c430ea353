"""Ansible's configuration in the current folder counts only where no other user could have put it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svload.fleet.ansible import _settings, list_inventory, play
from svload.model.errors import SvloadError


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "owner", "counts"),
    [
        (0o755, 0o644, None, True),
        (0o700, 0o600, None, True),
        (0o777, 0o644, None, False),
        (0o1777, 0o644, None, False),
        (0o775, 0o644, None, False),
        (0o755, 0o666, None, False),
        (0o755, 0o644, 65534, False),
    ],
)
def test_who_could_have_written_it(
    folder_mode: int, file_mode: int, owner: int | None, counts: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    if owner is not None and os.geteuid() != 0:
        owner, counts = None, True  # only root can give a file away
    folder = tmp_path / "here"
    folder.mkdir()
    file = folder / "ansible.cfg"
    file.write_text("[defaults]\ncallback_plugins = .\n")
    file.chmod(file_mode)
    folder.chmod(folder_mode)
    if owner is not None:
        os.chown(file, owner, owner)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    assert ("ANSIBLE_CONFIG" in _settings()) is counts
    program = folder / "ansible-inventory"
    program.write_text('#!/bin/sh\nprintf \'{"cwd": "%s"}\' "$PWD"\n')
    program.chmod(0o755)
    monkeypatch.setattr("svload.fleet.ansible._program", lambda name: str(program))
    assert (list_inventory(program)["cwd"] == str(folder)) is counts, "Ansible itself reads the one beside it"


def test_an_inventory_that_hangs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ansible-inventory"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("svload.fleet.ansible._program", lambda name: str(program))
    monkeypatch.setattr("svload.fleet.ansible._LIST_WITHIN_S", 0.1)
    with pytest.raises(SvloadError, match=r"did not read it within 0\.1 s"):
        list_inventory(program)


def test_a_play_that_takes_too_long_is_an_error_though_a_machine_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(event_handler: Any, **_: object) -> object:
        event_handler({"event": "runner_on_failed"})
        return SimpleNamespace(status="timeout", stdout=None)

    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ansible_runner", SimpleNamespace(run=run))
    with pytest.raises(SvloadError, match="did not end in an hour"):
        play("check", tmp_path, ["h1"], {}, lambda event: None)
