"""When the spare of `svload warm` stops waiting, and when it refuses a command."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from svload.cli import warm_keeper
from svload.cli.warm_keeper import _accepted
from svload.host.process.warm import FACTS, warm_dir, warm_state


def test_it_waits_no_longer_than_its_lease() -> None:
    life, ours = os.pipe()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0svload-test-{os.getpid()}")
        door.listen()
        assert _accepted(door, life, time.time() + 0.05, bool)[0] is None
        assert _accepted(door, life, time.time() - 1.0, bool)[0] is None
    os.close(life)
    os.close(ours)


def test_it_waits_no_longer_than_its_keeper_lives() -> None:
    life, ours = os.pipe()
    os.close(ours)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0svload-test-{os.getpid()}")
        door.listen()
        assert _accepted(door, life, time.time() + 3600.0, bool)[0] is None
    os.close(life)


def test_a_spare_whose_hands_are_gone_takes_nothing() -> None:
    life, ours = os.pipe()
    with socket.socket(socket.AF_UNIX) as door, socket.socket(socket.AF_UNIX) as other:
        door.bind(f"\0svload-test-{os.getpid()}")
        door.listen()
        other.connect(door.getsockname())
        assert _accepted(door, life, time.time() + 3600.0, lambda: False)[0] is None
        assert other.recv(1) == b""
    os.close(life)
    os.close(ours)


def test_one_that_is_starting_is_not_taken_for_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def rehearse() -> None:
        found.append(warm_state())
        raise warm_keeper._Left

    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warm_keeper, "_rehearse", rehearse)
    monkeypatch.setattr(warm_keeper, "stay_single_threaded", lambda: None)
    monkeypatch.setattr(warm_keeper.signal, "signal", lambda number, handler: None)
    warm_dir().mkdir(mode=0o700)
    (warm_dir() / FACTS).write_text('{"pid": 1}')
    ready, end = os.pipe()
    assert warm_keeper.main(time.time() + 60.0, end) == 0
    assert found == [None]
    for descriptor in (ready, end):
        os.close(descriptor)
