"""Which disk a folder's files are on: where the kernel counts and limits what is read and written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_NONE = 0
"""The major number of file systems that tell no device of their own (tmpfs, overlay, btrfs)."""


def disk_of(folder: str) -> str | None:
    """`major:minor` of the whole disk under the file system of `folder` or, while it is
    absent, of what it will be made in.

    None where there is no disk (tmpfs), or none can be told (overlay).
    """
    device = os.stat(_nearest(folder)).st_dev
    if os.major(device) == _NONE:
        device = _mounted_from(_nearest(folder))
    return None if os.major(device) == _NONE else _whole(f"{os.major(device)}:{os.minor(device)}")


def _nearest(folder: str) -> str:
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _mounted_from(folder: str) -> int:
    """The block device that the mount of `folder` names as its source; 0: it names none."""
    best, source = "", ""
    for point, name in _mounts():
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, source = point, name
    return os.stat(source).st_rdev if source.startswith("/dev/") and os.path.exists(source) else 0


def _mounts() -> Iterator[tuple[str, str]]:
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        head, _, tail = line.partition(" - ")
        yield head.split()[4], tail.split()[1]


def _whole(device: str) -> str:
    """Limits are those of whole disks: a partition's lies in its disk's folder of /sys."""
    folder = os.path.realpath(f"/sys/dev/block/{device}")
    if not os.path.exists(f"{folder}/partition"):
        return device
    try:
        return Path(folder).parent.joinpath("dev").read_text(encoding="ascii").strip()
    except OSError:
        return device
