"""Rates of a control group's reads from and writes to disks: blkio.throttle of version 1, io.max of version
2.

Version 1 cannot attribute later writes by the page cache to a group, so they are not limited.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

Way = Literal["read", "write"]
WAYS: tuple[Way, Way] = ("read", "write")
BLKIO, UNIFIED = "blkio", "unified"
_COUNTED = {"read": ("Read", "rbytes"), "write": ("Write", "wbytes")}


def kind_of(way: Way) -> str:
    """The limit's name in `GroupLimits`."""
    return f"disk_{way}_bytes_per_s"


def hold(paths: Mapping[str, str], rates: Mapping[Way, int | None], disks: Sequence[str]) -> None:
    """Set these rates, bytes/s (None: no limit), on each of the disks (`major:minor`). Raises OSError."""
    for disk in disks:
        if BLKIO in paths:
            for way, rate in rates.items():
                Path(paths[BLKIO], f"blkio.throttle.{way}_bps_device").write_text(f"{disk} {rate or 0}")
        else:
            words = " ".join(f"{way[0]}bps={rate or 'max'}" for way, rate in rates.items())
            Path(paths[UNIFIED], "io.max").write_text(f"{disk} {words}")


def disks(paths: Mapping[str, str], way: Way) -> list[str]:
    """Return the disks that have a rate."""
    if BLKIO in paths:
        return [words[0] for words in _lines(paths[BLKIO], f"blkio.throttle.{way}_bps_device")]
    rates = (words for words in _lines(paths.get(UNIFIED, ""), "io.max"))
    return [words[0] for words in rates if f"{way[0]}bps=max" not in words]


def held(paths: Mapping[str, str], way: Way) -> int | None:
    """Return the rate in the kernel, bytes per second, the smallest of all disks; None without a limit."""
    rates = []
    if BLKIO in paths:
        for words in _lines(paths[BLKIO], f"blkio.throttle.{way}_bps_device"):
            rates += [int(words[1])]
    for words in _lines(paths.get(UNIFIED, ""), "io.max"):
        found = dict(word.split("=") for word in words[1:])
        if found.get(f"{way[0]}bps", "max") != "max":
            rates += [int(found[f"{way[0]}bps"])]
    return min(rates, default=None)


def moved_bytes(paths: Mapping[str, str], way: Way) -> int | None:
    """Return the bytes read or written since the group was made, on the disk with a rate where they are
    most; None if not counted.

    The rate applies to each disk; a disk that lies on another one may count the same bytes again.
    """
    old, new = _COUNTED[way]
    if BLKIO in paths:
        lines = _lines(paths[BLKIO], "blkio.throttle.io_service_bytes")
        found = {words[0]: int(words[2]) for words in lines if words[1] == old}
    elif os.path.exists(os.path.join(paths.get(UNIFIED, "/proc/nowhere"), "io.stat")):
        lines = _lines(paths[UNIFIED], "io.stat")
        counts = {words[0]: dict(word.split("=") for word in words[1:]) for words in lines}
        found = {disk: int(one.get(new, 0)) for disk, one in counts.items()}
    else:
        return None
    return max((found.get(disk, 0) for disk in disks(paths, way)), default=0)


def _lines(folder: str, file: str) -> list[list[str]]:
    """Yield the words of each line about a disk."""
    try:
        text = Path(folder, file).read_text(encoding="ascii")
    except OSError:
        return []
    return [words for line in text.splitlines() if ":" in (words := line.split() or [""])[0]]
