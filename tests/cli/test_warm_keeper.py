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


@pytest.mark.parametrize("why", ["lease", "keeper", "hands"])
def test_a_spare_takes_nothing_after_its_lease_without_its_keeper_or_hands(why: str) -> None:
    life, ours = os.pipe()
    until = time.time() + (0.05 if why == "lease" else 3600.0)
    with socket.socket(socket.AF_UNIX) as door, socket.socket(socket.AF_UNIX) as other:
        door.bind(f"\0svload-test-{os.getpid()}")
        door.listen()
        if why == "keeper":
            os.close(ours)
        if why == "hands":
            other.connect(door.getsockname())
        assert _accepted(door, life, until, lambda: why != "hands")[0] is None
        assert why != "hands" or other.recv(1) == b""
        assert why != "lease" or _accepted(door, life, time.time() - 1.0, bool)[0] is None
    for descriptor in (life, ours) if why != "keeper" else (life,):
        os.close(descriptor)


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
