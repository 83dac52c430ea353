"""Limits of a process group by the kernel's control groups: version 1 (one hierarchy a controller) or 2, written directly.

A child's groups are made below the caller's own ones, so that no limit lifts one that the caller lives under; with version 2,
where a group with processes cannot have limited children, at the top.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PERIOD_US = 100_000
_REMOVE_BOUND_S = 3.0
_POLL_S = 0.01
_TOP = "svload"


class CgroupError(Exception):
    """A limit that this machine cannot hold; the text says why."""


def plan(lab: str, child: str, cpus: float | None, memory_bytes: int | None) -> dict[str, str]:
    """The folders to make, by controller (`cpu`, `cpuacct`, `memory`; `unified` with version 2). Raises CgroupError.

    Changes nothing, so that the answer can be journaled before `create`.
    """
    wanted = [
        *(["cpu", "cpuacct"] if cpus is not None else []),
        *(["memory"] if memory_bytes is not None else []),
    ]
    mounts, own = _mounts(), _groups("/proc/self/cgroup")
    if all(name in mounts for name in wanted):
        bases = {name: _below(mounts[name], own.get(name, "/")) for name in wanted}
    elif "unified" in mounts and _offers(mounts["unified"][0], wanted):
        bases = {"unified": mounts["unified"][0]}
    else:
        raise CgroupError(
            "the kernel offers no cgroup for " + " and ".join(name for name in wanted if name not in mounts)
        )
    for base in bases.values():
        if not os.access(base, os.W_OK):
            raise CgroupError(f"{base} is not writable; limits need root")
    return {name: str(Path(base, _TOP, lab, child)) for name, base in bases.items()}


def create(paths: Mapping[str, str], cpus: float | None, memory_bytes: int | None) -> None:
    """Make the planned folders and set the limits. Raises OSError."""
    for controller, path in paths.items():
        if controller == "unified":
            _open_version_2(Path(path))
        os.makedirs(path, exist_ok=True)
    if cpus is not None:
        set_cpus(paths, cpus)
    if memory_bytes is not None:
        set_memory(paths, memory_bytes)


def set_cpus(paths: Mapping[str, str], cpus: float) -> None:
    """Set the quota, in cores, live. Raises OSError."""
    quota_us = max(1000, round(cpus * PERIOD_US))
    if "cpu" in paths:
        Path(paths["cpu"], "cpu.cfs_period_us").write_text(str(PERIOD_US))
        Path(paths["cpu"], "cpu.cfs_quota_us").write_text(str(quota_us))
    else:
        Path(paths["unified"], "cpu.max").write_text(f"{quota_us} {PERIOD_US}")


def set_memory(paths: Mapping[str, str], memory_bytes: int) -> None:
    """Set the limit, live. Raises OSError (EBUSY when more is in use than can be reclaimed)."""
    if "memory" in paths:
        Path(paths["memory"], "memory.limit_in_bytes").write_text(str(memory_bytes))
    else:
        Path(paths["unified"], "memory.max").write_text(str(memory_bytes))


def read_back(paths: Mapping[str, str]) -> dict[str, float]:
    """The limits as the kernel holds them: `cpus` (cores), `memory_bytes`; absent where there is none."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError, KeyError):
        period = int(Path(paths["cpu"], "cpu.cfs_period_us").read_text())
        quota = int(Path(paths["cpu"], "cpu.cfs_quota_us").read_text())
        if quota > 0:
            found["cpus"] = quota / period
    with contextlib.suppress(OSError, ValueError, KeyError):
        found["memory_bytes"] = int(Path(paths["memory"], "memory.limit_in_bytes").read_text())
    with contextlib.suppress(OSError, ValueError, KeyError):
        quota_text, period_text = Path(paths["unified"], "cpu.max").read_text().split()
        found["cpus"] = int(quota_text) / int(period_text)
    with contextlib.suppress(OSError, ValueError, KeyError):
        found["memory_bytes"] = int(Path(paths["unified"], "memory.max").read_text())
    return found


def of_process(pid: int) -> dict[str, str]:
    """The folders of a process's groups by controller, as far as they are visible here."""
    mounts, own = _mounts(), _groups(f"/proc/{pid}/cgroup")
    return {name: _below(mounts[name], path) for name, path in own.items() if name in mounts}


def throttled_s(paths: Mapping[str, str]) -> float | None:
    """How long tasks of the group were held back by its CPU quota so far; None where the kernel does not tell."""
    for controller, field, unit in (("cpu", "throttled_time", 1e9), ("unified", "throttled_usec", 1e6)):
        for line in _lines(os.path.join(paths.get(controller, "/proc/nowhere"), "cpu.stat")):
            name, _, value = line.partition(" ")
            if name == field:
                return int(value) / unit
    return None


def join(paths: Sequence[str]) -> None:
    """Move the calling process in (before exec, so that all it starts is inside from birth). Raises OSError."""
    for path in paths:
        Path(path, "cgroup.procs").write_text("0")


def remove(paths: Mapping[str, str]) -> bool:
    """End what is still inside, remove the folders and emptied parents; False if none was there. Raises OSError when it lasts."""
    there = [path for path in paths.values() if os.path.isdir(path)]
    deadline = time.monotonic() + _REMOVE_BOUND_S
    for path in there:
        while not _try_remove(path):
            if time.monotonic() > deadline:
                raise OSError(f"{path} stays busy")
            time.sleep(_POLL_S)
        for parent in list(Path(path).parents)[:2]:
            with contextlib.suppress(OSError):
                os.rmdir(parent)
    return bool(there)


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
    """Controller → (mount point, root of the mount within the hierarchy)."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in _lines("/proc/self/mountinfo"):
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if kind[0] == "cgroup2":
            mounts["unified"] = (fields[4], fields[3])
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                mounts.setdefault(option, (fields[4], fields[3]))
    return mounts


def _groups(path: str) -> dict[str, str]:
    """Controller → group, of a process's /proc/…/cgroup."""
    groups: dict[str, str] = {}
    for line in _lines(path):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller or "unified"] = path
    return groups


def _below(mount: tuple[str, str], own: str) -> str:
    """Where this process's own group is visible; the mount's top if it is not."""
    point, root = mount
    relative = os.path.relpath(own, root)
    path = point if relative == "." or relative.startswith("..") else os.path.join(point, relative)
    return path if os.path.isdir(path) else point


def _offers(top: str, wanted: Sequence[str]) -> bool:
    offered = (
        Path(top, "cgroup.controllers").read_text().split()
        if os.path.exists(f"{top}/cgroup.controllers")
        else []
    )
    return all(name in offered for name in wanted if name != "cpuacct")


def _open_version_2(path: Path) -> None:
    """Let controllers through the parents: lab, svload, top."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in reversed(list(path.parents)[:3]):
        for controller in ("cpu", "memory"):
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
