"""Limits shared by processes, through the kernel's control groups: version 1 (one hierarchy per controller)
or 2, by direct access to their files.

A lab's groups are created below the caller's, so that the caller's limits still apply; with version 2, where
a group with processes cannot have limited children, at the top.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.host.process import disk_rates

if TYPE_CHECKING:
    from svload.model.messages import GroupLimits

PERIOD_US = 100_000
UNIFIED = "unified"
_CONTROLLERS = {
    "cpus": ("cpu", "cpuacct"),
    "memory_bytes": ("memory",),
    "pids": ("pids",),
    **{disk_rates.kind_of(way): (disk_rates.BLKIO,) for way in disk_rates.WAYS},
}
"""The controllers of version 1 that each limit needs; version 2 counts CPU by its cpu controller."""
_OF_VERSION_2 = ("cpu", "memory", "pids", "io")
_REMOVE_BOUND_S = 3.0
_POLL_S = 0.01
_MAKE_TRIES = 10
_TOP = "svload"


class CgroupError(ValueError):
    """A limit that this machine does not support; the text is the reason."""


def writes_escape() -> bool:
    """Return whether version 1 limits disks here, which does not limit the page cache's later writes."""
    return disk_rates.BLKIO in _mounts()


def plan(
    lab: str, place: str, limits: GroupLimits, above: Sequence[str] = (), open_to: Sequence[str] = ()
) -> dict[str, str]:
    """Return the folders to create, by controller (`cpu`, `memory`, `blkio` …; `unified` with version 2).
    Raises CgroupError.

    `place` may be below another group with the controllers `above`, whose limits apply to its members too.
    With version 1, rates of disks apply to a single group: members have no folder there but join that of the
    group above (`joined`). `open_to` are limits that `change` may set later. Changes nothing, so that the
    result can be journaled before `create`.
    """
    kinds = (*limits.kinds, *open_to)
    wanted = list(dict.fromkeys([name for kind in kinds for name in _CONTROLLERS[kind]]))
    mounts, own = _mounts(), _groups("/proc/self/cgroup")
    if above == (UNIFIED,) or (not all(name in mounts for name in wanted) and _offers(mounts, wanted)):
        bases = {UNIFIED: mounts[UNIFIED][0]}
    elif all(name in mounts for name in wanted):
        if disk_rates.BLKIO in above and disk_rates.BLKIO in wanted:
            raise CgroupError(
                "version 1 of the kernel's control groups can't nest disk rates, and the group that it is "
                "within already has one"
            )
        wanted = list(dict.fromkeys([*wanted, *(name for name in above if name != disk_rates.BLKIO)]))
        if not wanted and above and "pids" in mounts:  # so that it can be ended as one
            wanted = ["pids"]
        bases = {name: _below(mounts[name], own.get(name, "/")) for name in wanted}
    else:
        lacking = " and ".join(name for name in wanted if name not in mounts)
        raise CgroupError(f"the kernel offers no cgroup for {lacking}")
    for base in bases.values():
        if not os.access(base, os.W_OK):
            raise CgroupError(f"{base} is not writable; limits need root")
    return {name: str(Path(base, _TOP, lab, place)) for name, base in bases.items()}


def plan_bare(lab: str, place: str) -> dict[str, str]:
    """Return the folder of a group without limits, in which all descendants of a process can be found. It is
    below the caller's group, so that nobody's share of the machine changes. Raises CgroupError."""
    mounts, own = _mounts(), _groups("/proc/self/cgroup")
    controller = "pids" if "pids" in mounts else UNIFIED
    if controller not in mounts:
        raise CgroupError("the kernel offers no cgroup")
    base = _below(mounts[controller], own.get(controller, "/"))
    if not os.access(base, os.W_OK):
        raise CgroupError(f"{base} is not writable")
    return {controller: str(Path(base, _TOP, lab, place.replace("/", "_")))}


def shared_by(pid: int, other: int) -> bool:
    """Return whether two processes are in the same group made by svload."""
    groups, others = _groups(f"/proc/{pid}/cgroup"), _groups(f"/proc/{other}/cgroup")
    return any(f"/{_TOP}/" in path and others.get(name) == path for name, path in groups.items())


def joined(paths: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Return the folders of a group's processes: its own, and those shared with the group `above`."""
    shared = {name: path for name, path in above.items() if name == disk_rates.BLKIO}
    return {**shared, **paths}


def create(paths: Mapping[str, str], limits: GroupLimits, disks: Sequence[str] = ()) -> None:
    """Create the folders if missing, and set limits, also of `disks` (`major:minor`). Raises OSError."""
    for controller, path in paths.items():
        if controller == UNIFIED:
            _open_version_2(Path(path))
        _make_folder(path)
    change(paths, limits, disks=disks)


def change(
    paths: Mapping[str, str], limits: GroupLimits, lifted: Iterable[str] = (), disks: Sequence[str] = ()
) -> None:
    """Set limits of an existing group and remove the `lifted` ones. Rates apply to `disks`; if empty, to
    those that have one. Raises OSError, or CgroupError before anything is set."""
    lifted = tuple(lifted)
    for kind in (*limits.kinds, *lifted):
        if UNIFIED not in paths and not all(name in paths for name in _CONTROLLERS[kind]):
            raise CgroupError(f"the group was made without {kind}")
    kinds = (*limits.kinds, *lifted)
    rates = {way: getattr(limits, kind) for kind, way in _WAYS.items() if kind in kinds}
    disks = disks or list(dict.fromkeys([disk for way in rates for disk in disk_rates.disks(paths, way)]))
    if not disks and any(rates.values()):
        raise CgroupError("the group was made without a rate of disks")
    if rates:
        disk_rates.hold(paths, rates, disks)
    for kind in kinds:
        if kind not in _WAYS:
            _SETTERS[kind](paths, getattr(limits, kind))


def put_back(paths: Mapping[str, str], before: Mapping[str, float | None]) -> None:
    """Restore these limits of a group; None means no limit. Raises OSError, CgroupError."""
    from svload.model.messages import GroupLimits

    held = {
        kind: float(value) if kind == "cpus" else int(value)
        for kind, value in before.items()
        if value is not None
    }
    lifted = [kind for kind, value in before.items() if value is None]
    change(paths, GroupLimits.read(held), lifted)


def _set_cpus(paths: Mapping[str, str], cpus: float | None) -> None:
    quota_us = -1 if cpus is None else max(1000, round(cpus * PERIOD_US))
    if "cpu" in paths:
        allowed = cores_allowed()
        if cpus is not None and allowed is not None and cpus > allowed:
            raise CgroupError(f"svload itself may use {allowed:g} cores here, and it asks for {cpus:g}")
        Path(paths["cpu"], "cpu.cfs_period_us").write_text(str(PERIOD_US))
        Path(paths["cpu"], "cpu.cfs_quota_us").write_text(str(quota_us))
    else:
        Path(paths[UNIFIED], "cpu.max").write_text(f"{'max' if cpus is None else quota_us} {PERIOD_US}")


def cores_allowed() -> float | None:
    """Return the smallest quota of this process's group and those above it, in cores: version 1 of control
    groups refuses a larger one below them. None without a quota, or with version 2, which accepts any."""
    mounts, own = _mounts(), _groups("/proc/self/cgroup")
    if "cpu" not in mounts:
        return None
    found = []
    folder = Path(_below(mounts["cpu"], own.get("cpu", "/")))
    for one in (folder, *folder.parents):
        with contextlib.suppress(OSError, ValueError):
            quota = int((one / "cpu.cfs_quota_us").read_text())
            if quota > 0:
                found.append(quota / int((one / "cpu.cfs_period_us").read_text()))
    return min(found, default=None)


def _set_memory(paths: Mapping[str, str], memory_bytes: int | None) -> None:
    """Set the limit of memory, without swap. Raises OSError (EBUSY if too much is in use)."""
    if "memory" in paths:
        folder = paths["memory"]
        total = Path(folder, "memory.memsw.limit_in_bytes")
        if total.exists():  # never below the limit without swap
            total.write_text("-1")
        Path(folder, "memory.limit_in_bytes").write_text("-1" if memory_bytes is None else str(memory_bytes))
        if total.exists() and memory_bytes is not None:
            total.write_text(str(memory_bytes))
        return
    swap = Path(paths[UNIFIED], "memory.swap.max")
    if swap.exists():
        swap.write_text("max" if memory_bytes is None else "0")
    Path(paths[UNIFIED], "memory.max").write_text("max" if memory_bytes is None else str(memory_bytes))


def _set_pids(paths: Mapping[str, str], pids: int | None) -> None:
    Path(paths.get("pids") or paths[UNIFIED], "pids.max").write_text("max" if pids is None else str(pids))


_SETTERS: Mapping[str, Callable[[Mapping[str, str], Any], None]] = {
    "cpus": _set_cpus,
    "memory_bytes": _set_memory,
    "pids": _set_pids,
}
"""The functions that set or remove (None) each limit while processes run. A further kind of limit needs a
line here and one in `_CONTROLLERS`."""
_WAYS: Mapping[str, disk_rates.Way] = {disk_rates.kind_of(way): way for way in disk_rates.WAYS}
"""The limits that are set for each disk."""


def read_back(paths: Mapping[str, str]) -> dict[str, float]:
    """Return the limits as read from the kernel, by the names of `GroupLimits`; missing ones are absent."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError, KeyError):
        period = int(Path(paths["cpu"], "cpu.cfs_period_us").read_text())
        quota = int(Path(paths["cpu"], "cpu.cfs_quota_us").read_text())
        if quota > 0:
            found["cpus"] = quota / period
    with contextlib.suppress(OSError, ValueError, KeyError):
        quota_text, period_text = Path(paths[UNIFIED], "cpu.max").read_text().split()
        found["cpus"] = int(quota_text) / int(period_text)
    for name, controller, old, new in (
        ("memory_bytes", "memory", "memory.limit_in_bytes", "memory.max"),
        ("pids", "pids", "pids.max", "pids.max"),
    ):
        for folder, file in ((controller, old), (UNIFIED, new)):
            with contextlib.suppress(OSError, ValueError, KeyError):
                value = int(Path(paths[folder], file).read_text())
                if 0 <= value < _UNLIMITED:
                    found[name] = value
    for way in disk_rates.WAYS:
        if (rate := disk_rates.held(paths, way)) is not None:
            found[disk_rates.kind_of(way)] = rate
    return found


_UNLIMITED = 1 << 62
"""Version 1 shows an unset memory limit as the largest number of pages."""


def throttled_s(paths: Mapping[str, str]) -> float | None:
    """Return how long the CPU quota has throttled the group's tasks; None if not counted."""
    old = _field(paths, "cpu", "cpu.stat", "throttled_time")
    new = _field(paths, UNIFIED, "cpu.stat", "throttled_usec")
    return old / 1e9 if old is not None else new / 1e6 if new is not None else None


class CpuTime:
    """The CPU time that a group has used, ended processes included, from a file kept open."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self._file: int | None = None

    def seconds(self) -> float | None:
        """Return the CPU time; None if the kernel does not report it or the group is gone."""
        try:
            if self._file is None:
                self._file = os.open(self._where(), os.O_RDONLY | os.O_CLOEXEC)
            text = os.pread(self._file, 4096, 0)
            if UNIFIED not in self._paths:
                return int(text) / 1e9
            return next(int(line[11:]) / 1e6 for line in text.splitlines() if line.startswith(b"usage_usec "))
        except (OSError, ValueError, KeyError, StopIteration):
            self.close()
            return None

    def _where(self) -> str:
        if UNIFIED in self._paths:
            return os.path.join(self._paths[UNIFIED], "cpu.stat")
        return os.path.join(self._paths["cpuacct"], "cpuacct.usage")

    def close(self) -> None:
        """Close the file; the next reading opens it again."""
        if self._file is not None:
            os.close(self._file)
        self._file = None


def oom_kills(paths: Mapping[str, str]) -> int | None:
    """Return how many of the group's processes the kernel has killed for lack of memory; None if they are not
    counted.

    With version 1, a kill because of a parent's limit is counted in the victim's group.
    """
    old = _field(paths, "memory", "memory.oom_control", "oom_kill")
    return old if old is not None else _field(paths, UNIFIED, "memory.events", "oom_kill")


def _field(paths: Mapping[str, str], controller: str, file: str, wanted: str) -> int | None:
    for line in _lines(os.path.join(paths.get(controller, "/proc/nowhere"), file)):
        name, _, value = line.partition(" ")
        if name == wanted:
            return int(value)
    return None


def join(paths: Iterable[str]) -> None:
    """Move this process into the group (before exec, so that children start inside). Raises OSError."""
    for path in paths:
        Path(path, "cgroup.procs").write_text("0")


def above(paths: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """Return the folders between these and the lab's, for controllers that the group above does not have (its
    are `known`): they are created with these and belong to no other group."""
    return {
        name: str(Path(path).parent)
        for name, path in paths.items()
        if name not in known and Path(path).parent not in _of_the_lab(Path(path))
    }


def remove(paths: Mapping[str, str]) -> bool:
    """End the remaining processes and remove the folders, with the last one also the lab's; return False if
    there were none.

    Raises OSError if processes or folders remain.
    """
    there = [path for path in paths.values() if os.path.isdir(path)]
    deadline = time.monotonic() + _REMOVE_BOUND_S
    for path in there:
        while not _try_remove(path):
            if time.monotonic() > deadline:
                raise OSError(f"{path} stays busy")
            time.sleep(_POLL_S)
        tidy(path)
    return bool(there)


def make(paths: Mapping[str, str]) -> None:
    """Create the folders of a group without limits. Raises OSError."""
    for path in paths.values():
        _make_folder(path)


def _make_folder(path: str) -> None:
    """Create a folder with those above it. Another lab that ends removes an empty one above. Raises OSError."""
    for _ in range(_MAKE_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return os.makedirs(path, exist_ok=True)
    os.makedirs(path, exist_ok=True)


def tidy(path: str) -> None:
    """Remove the lab's folder above this one, and svload's, if they are empty."""
    for parent in _of_the_lab(Path(path)):
        with contextlib.suppress(OSError):
            os.rmdir(parent)


def _of_the_lab(path: Path) -> list[Path]:
    """Return the lab's folder and svload's, not a shared group between, which its own entry removes."""
    return [parent for parent in path.parents if parent.name == _TOP or parent.parent.name == _TOP]


def _try_remove(path: str) -> bool:
    with contextlib.suppress(OSError):
        for pid in Path(path, "cgroup.procs").read_text().split():
            if int(pid) > 1:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _mounts() -> dict[str, tuple[str, str]]:
    """Return controller → (mount point, root of the mount within the hierarchy)."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in _lines("/proc/self/mountinfo"):
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if kind[0] == "cgroup2":
            mounts[UNIFIED] = (fields[4], fields[3])
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                mounts.setdefault(option, (fields[4], fields[3]))
    return mounts


def _groups(path: str) -> dict[str, str]:
    """Return controller → group from a process's /proc/…/cgroup."""
    groups: dict[str, str] = {}
    for line in _lines(path):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller or UNIFIED] = path
    return groups


def _below(mount: tuple[str, str], own: str) -> str:
    """Return the folder of this process's group; the top of the mount if it is not visible."""
    point, root = mount
    relative = os.path.relpath(own, root)
    path = point if relative == "." or relative.startswith("..") else os.path.join(point, relative)
    return path if os.path.isdir(path) else point


def _offers(mounts: Mapping[str, tuple[str, str]], wanted: Sequence[str]) -> bool:
    """Return whether version 2 has these controllers: on a hybrid machine it has few or none."""
    if UNIFIED not in mounts:
        return False
    offered = [word for line in _lines(f"{mounts[UNIFIED][0]}/cgroup.controllers") for word in line.split()]
    names = {"cpuacct": "cpu", disk_rates.BLKIO: "io"}
    return all(names.get(name, name) in offered for name in wanted)


def _open_version_2(path: Path) -> None:
    """Enable the controllers in all parents of the group, from the top of the hierarchy."""
    _make_folder(str(path.parent))
    names = [parent.name for parent in path.parents]
    for parent in reversed(list(path.parents)[: names.index(_TOP) + 2]):
        for controller in _OF_VERSION_2:
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
