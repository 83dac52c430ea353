"""The lab's control groups by name: each is journaled before it is created, and removed on request or with
the lab.

Changes of limits while a group's processes run are journaled too, with the value before the first change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svload.host.agent.journal import Journal
from svload.host.process import cgroups
from svload.host.process.spawn import refused
from svload.model.messages import MakeGroup, SetLimits


@dataclass(frozen=True)
class _Made:
    """One group. `joined`: its folders, and those that it shares with the group above. `between`: folders
    that were created on the way to its own. `disks`: those whose rates it may limit."""

    place: str
    paths: dict[str, str]
    joined: dict[str, str]
    between: dict[str, str]
    disks: list[str]
    entry: int


@dataclass(frozen=True)
class _Changed:
    """Limits that were changed since the group was created: their values before (None: no limit)."""

    before: dict[str, float | None]
    entry: int


class Groups:
    """Groups of one lab, below a folder of its `mark`."""

    def __init__(self, mark: str, journal: Journal) -> None:
        self._mark, self._journal = mark, journal
        self._by_name: dict[str, _Made] = {}
        self._changed: dict[str, _Changed] = {}
        self._tracked: dict[str, tuple[dict[str, str], int]] = {}

    def make(self, order: MakeGroup) -> dict[str, Any]:
        """Create the group, or set its limits if it exists. Raises SvloadError agent-refused."""
        made = self._by_name.get(order.name)
        fresh = made is None
        try:
            made = made or self._planned(order)
            cgroups.create(made.paths, order.limits, made.disks or _disks_of(order))
        except (cgroups.CgroupError, OSError) as why:
            if fresh and made is not None:
                self._remove(made)
            hint = "Give it less, leave cpus, memory, pids and disk_rate out, or run as root."
            raise refused(f"{order.name} cannot be limited: {why}", hint) from why
        self._by_name[order.name] = made
        return {"paths": made.paths, "found": cgroups.read_back(made.paths)}

    def set_limits(self, order: SetLimits) -> dict[str, Any]:
        """Change limits in place, all or none. Raises SvloadError agent-refused."""
        made = self._known(order.name)
        paths = made.paths
        now = cgroups.read_back(paths)
        changed = self._changed.get(order.name)
        kinds = (*order.limits.kinds, *order.lifted)
        before = {kind: now.get(kind) for kind in kinds} | (changed.before if changed else {})
        entry = self._journal.announce("limits", name=order.name, paths=paths, before=before)
        try:
            cgroups.change(paths, order.limits, order.lifted, made.disks)
        except (cgroups.CgroupError, OSError) as why:
            with contextlib.suppress(cgroups.CgroupError, OSError):
                cgroups.put_back(paths, {kind: now.get(kind) for kind in kinds})
            self._journal.done(entry)
            raise refused(f"the limits of {order.name} could not be changed: {why}") from why
        if changed:
            self._journal.done(changed.entry)
        self._changed[order.name] = _Changed(before, entry)
        found = cgroups.read_back(paths)
        if all(found.get(kind) == value for kind, value in before.items()):
            self._forget(order.name)
        return {"before": now, "found": found}

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the folders that its processes are in. Raises SvloadError agent-refused."""
        return tuple(self._known(name).joined.values())

    def _known(self, name: str) -> _Made:
        if name not in self._by_name:
            raise refused(f"there is no group “{name}”")
        return self._by_name[name]

    def drop(self, name: str) -> dict[str, Any]:
        """End its processes and remove it. Raises SvloadError agent-refused if a process does not die."""
        made = self._by_name.pop(name, None)
        if made is None:
            return {"removed": False}
        try:
            cgroups.remove(made.paths)
        except OSError as why:
            self._by_name[name] = made
            raise refused(f"the group {name} could not be removed: {why}") from why
        self._forget(name)
        self._leave(made)
        return {"removed": True}

    def _leave(self, made: _Made) -> None:
        """Remove the folders created on the way to it, or leave them to another group that is below them."""
        for path in made.between.values():
            with contextlib.suppress(OSError):
                os.rmdir(path)
                cgroups.tidy(path)
        self._journal.done(made.entry)

    # groups without limits, one for each process of a server, so that its descendants are found and ended
    # with it

    def track(self, name: str) -> tuple[str, ...]:
        """Return the folders for this child and its descendants; empty if the machine provides no group."""
        try:
            paths = cgroups.plan_bare(self._mark, name)
        except cgroups.CgroupError:
            return ()
        entry = self._journal.announce("cgroup", name=name, paths=paths)
        try:
            cgroups.make(paths)
        except OSError:
            self._journal.done(entry)
            return ()
        self._tracked[name] = (paths, entry)
        return tuple(paths.values())

    def end(self, name: str) -> None:
        """End all that is left of it. Raises OSError if a process does not die."""
        paths, entry = self._tracked.get(name, ({}, -1))
        if paths:
            cgroups.remove(paths)
            self._journal.done(entry)
            del self._tracked[name]

    def _forget(self, name: str) -> None:
        """Forget its changed limits, since they are restored or the group is gone."""
        changed = self._changed.pop(name, None)
        if changed is not None:
            self._journal.done(changed.entry)

    def _planned(self, order: MakeGroup) -> _Made:
        above = self._by_name.get(order.within) if order.within is not None else None
        if order.within is not None and above is None:
            raise refused(f"there is no group “{order.within}” for {order.name} to be in")
        place = f"{above.place}/{order.name}" if above else order.name
        paths = cgroups.plan(
            self._mark, place, order.limits, tuple(above.joined) if above else (), order.open_to
        )
        joined = cgroups.joined(paths, above.joined if above else {})
        between = cgroups.above(paths, above.joined) if above else {}
        disks = _disks_of(order)
        entry = self._journal.announce("cgroup", name=order.name, paths=paths, between=between)
        return _Made(place, paths, joined, between, disks, entry)

    def _remove(self, made: _Made) -> None:
        with contextlib.suppress(OSError):
            cgroups.remove(made.paths)
            self._leave(made)


def _disks_of(order: MakeGroup) -> list[str]:
    """Return the disks whose rates are limited. Raises CgroupError if the files are not on a disk."""
    if not any(kind.startswith("disk_") for kind in (*order.limits.kinds, *order.open_to)):
        return []
    found = {folder: disk_of(folder) for folder in order.folders}
    disks = sorted({disk for disk in found.values() if disk is not None})
    if not disks:
        raise cgroups.CgroupError(f"no disk is known under {' and '.join(found) or 'its files'}")
    return disks


_NONE = 0
"""The major number of file systems without a device (tmpfs, overlay, btrfs)."""


def disk_of(folder: str) -> str | None:
    """Return `major:minor` of the whole disk under the file system of `folder` or, if that is missing, of the
    folder in which it will be created.

    None if there is no disk (tmpfs) or it cannot be determined (overlay).
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
    """Return the block device that is the source of the mount of `folder`; 0 if there is none."""
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
    """Return the whole disk of a partition, the folder above it in /sys: limits apply to whole disks."""
    folder = os.path.realpath(f"/sys/dev/block/{device}")
    if not os.path.exists(f"{folder}/partition"):
        return device
    try:
        return Path(folder).parent.joinpath("dev").read_text(encoding="ascii").strip()
    except OSError:
        return device
