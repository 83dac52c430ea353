"""CPUs are kept awake by an open descriptor, which holds no longer than the block."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from svload.host.machine.awake import DEVICE, awake, can_stay_awake


def test_it_is_asked_for_and_given_back(tmp_path: Path) -> None:
    device = tmp_path / "latency"
    device.write_bytes(b"")
    before = set(os.listdir("/proc/self/fd"))
    with awake(device=device) as held:
        assert held
        assert device.read_bytes() == bytes(4)
        assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    assert set(os.listdir("/proc/self/fd")) <= before


def test_who_does_not_want_it_or_may_not_have_it_goes_on(tmp_path: Path) -> None:
    with awake(False) as held:
        assert not held
    with awake(device=tmp_path / "none") as held:
        assert not held
    with awake(device=Path("/dev/full")) as held:
        assert not held, "the kernel did not take it"
    assert not can_stay_awake(tmp_path / "none")


def test_a_block_that_fails_gives_it_back(tmp_path: Path) -> None:
    device = tmp_path / "latency"
    device.write_bytes(b"")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="planned"), awake(device=device):
        raise ValueError("planned")
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.skipif(not can_stay_awake(), reason="only root may keep CPUs awake")
def test_the_kernel_holds_it_as_long_as_the_block() -> None:
    def asked() -> int:
        return int(struct.unpack("=i", DEVICE.read_bytes()[:4])[0])

    before = asked()
    with awake():
        assert asked() == 0
    assert asked() == before
