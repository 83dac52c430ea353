"""How long a spare waits, and for whom."""

from __future__ import annotations

import os
import socket
import time

from svload.cli.warm_keeper import _accepted


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
