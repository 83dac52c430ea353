"""The undo journal: the changes of the machine, written and fsynced before they are made, and how to undo
them.

One JSON object per line: `{"entry": n, "kind": …}` announces a change, `{"found": n, …}` adds its results,
`{"done": n}` marks it as undone. A torn last line announces a change that was not made. Undoing is idempotent
and checks before it acts: a process by start time and boot, a setting by boot and the value that we set, a
cgroup's folder by being ours.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svload.host.agent.folders import JOURNAL
from svload.host.machine import linux
from svload.host.process import cgroups
from svload.model.outputs import sync

MARK, CHILD = "SVLOAD_LAB", "SVLOAD_CHILD"
"""Environment variables of all processes of a lab: the lab, and the child that they descend from."""
_KILL_BOUND_S = 3.0
_POLL_S = 0.01
_AFTER_S = 60.0
"""The time within which a started server has forked its processes."""

Entry = dict[str, Any]


class Journal:
    """A lab's journal for appending, by the living agent or the holder of a dead one's lock."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sync(folder)
        text = (folder / JOURNAL).read_bytes()
        self._next = 1 + max((entry["entry"] for entry in read_entries(folder)), default=-1)
        self._torn = text != b"" and not text.endswith(b"\n")

    def announce(self, kind: str, **what: object) -> int:
        """Write a change before it is made; return its number, for `found` and `done`."""
        number, self._next = self._next, self._next + 1
        self._write({"entry": number, "kind": kind, **what})
        os.fsync(self._file)
        return number

    def found(self, number: int, **what: object) -> None:
        """Add the results of the change."""
        self._write({"found": number, **what})
        os.fsync(self._file)

    def done(self, number: int) -> None:
        """Mark the change as undone. This line may be lost: it is not synced, and a full disk is no error."""
        with contextlib.suppress(OSError):
            self._write({"done": number})

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: Entry) -> None:
        data = b"\n" * self._torn + json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._torn = True
        if os.write(self._file, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = False


@dataclass
class Undone:
    """What an undo did and what it could not do, one sentence each."""

    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def read_entries(folder: Path) -> list[Entry]:
    """Return all announced changes in order, each with `done` and its results, without torn lines."""
    entries: dict[int, Entry] = {}
    try:
        text = (folder / JOURNAL).read_bytes()
    except FileNotFoundError:
        return []
    for raw in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            _read_line(json.loads(raw), entries)
    return list(entries.values())


def _read_line(line: Entry, entries: dict[int, Entry]) -> None:
    if "entry" in line:
        entries[line["entry"]] = {**line, "done": False}
    elif "done" in line:
        entries[line["done"]]["done"] = True
    elif "found" in line:
        entries[line["found"]].update({key: value for key, value in line.items() if key != "found"})


def undo(folder: Path) -> Undone:
    """Undo, newest first, the changes in the journal of `folder` that are not undone yet. Bounded; safe to
    repeat.

    Processes are ended first: nothing may use a setting that is being restored.
    """
    outcome = Undone()
    open_entries = [entry for entry in reversed(read_entries(folder)) if not entry["done"]]
    if not open_entries:
        return outcome
    written_wall = (folder / JOURNAL).stat().st_mtime
    open_entries = [{"until_wall": written_wall, **entry} for entry in open_entries]
    journal = Journal(folder)
    try:
        for entry in sorted(open_entries, key=lambda entry: entry["kind"] not in ("process", "lab")):
            _undo_one(entry, journal, outcome)
    finally:
        journal.close()
    return outcome


def _undo_one(entry: Entry, journal: Journal, outcome: Undone) -> None:
    try:
        line = _UNDOERS[entry["kind"]](entry)
    except (OSError, KeyError, ValueError) as why:
        outcome.failures.append(f"{entry['kind']} {entry.get('name', entry['entry'])}: {why}")
        return
    journal.done(entry["entry"])
    if line:
        outcome.lines.append(line)


def _undo_process(entry: Entry) -> str | None:
    """Kill the process and the rest of its session, each only if it is provably the one we started."""
    if entry["boot_id"] != linux.boot_id():
        return None
    ended = _kill_all(lambda: session_of(entry["pid"], entry["start_ticks"], entry["mark"]))
    return f"ended {entry['name']} (pid {entry['pid']})" if ended else None


def _undo_lab(entry: Entry) -> str | None:
    """Kill descendants outside its session, by the mark in their environment. Raises OSError for processes
    that may be the lab's but hide their environment."""
    if entry["boot_id"] != linux.boot_id():
        return None
    ended = _kill_all(lambda: marked(entry["mark"]))
    if hidden := _hidden(int(entry["mark"].rpartition("-")[2]), entry["until_wall"]):
        who = ", ".join(f"{one.pid} ({one.name})" for one in hidden)
        raise OSError(
            f"process {who} began in it and hides its owner: end it with “kill” if it belonged to a server"
        )
    return f"ended {ended} strays" if ended else None


def _hidden(from_ticks: int, until_wall: float) -> list[linux.ProcessStat]:
    """Return this user's processes of that time that have lost both their parent and their environment.

    Root's labs need no such guess: their PID namespace ends with all processes in it.
    """
    user = os.geteuid()
    if not user:
        return []
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    until_ticks = (until_wall + _AFTER_S - booted) * linux.TICKS_PER_S
    found = {one.pid: one for one in linux.processes()}

    def is_hidden(one: linux.ProcessStat) -> bool:
        parent = found.get(one.parent)
        orphan = one.parent == 1 or (parent is not None and parent.parent == 1 and parent.name == "systemd")
        if one.ended or not orphan or not from_ticks <= one.start_ticks <= until_ticks:
            return False
        try:
            folder = Path(f"/proc/{one.pid}")
            return folder.stat().st_uid == user and b"PATH=" not in (folder / "environ").read_bytes()
        except OSError:
            return False

    return [one for one in found.values() if is_hidden(one)]


def _kill_all(find: Callable[[], list[linux.ProcessStat]]) -> int:
    """Kill until none is found; return how many there were at first. Raises PermissionError, TimeoutError."""
    first = targets = find()
    deadline = time.monotonic() + _KILL_BOUND_S
    while targets:
        for target in targets:
            linux.send_signal(target.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"pid {targets[0].pid} can't be stopped")
        time.sleep(_POLL_S)
        targets = find()
    return len(first)


def session_of(
    pid: int, start_ticks: int, mark: str, *, own_namespace: bool = False
) -> list[linux.ProcessStat]:
    """Return the living processes of the session led by machine pid `pid` that are provably the lab's.

    The proof is the leader's start time or, once it is gone, the lab's mark in a member's initial
    environment; inside the agent's own PID namespace (`own_namespace`) every process is the lab's.
    """
    leader = linux.process_stat(pid)
    if leader is not None and leader.start_ticks != start_ticks:
        return []
    here = linux.namespace("pid", "self")

    def proven(member: int) -> bool:
        if leader is not None or _is_marked(member, mark):
            return True
        return own_namespace and linux.namespace("pid", member) == here

    return [
        found
        for found in linux.processes()
        if pid in (found.pid, found.session) and not found.ended and proven(found.pid)
    ]


def marked(mark: str) -> list[linux.ProcessStat]:
    """Return the living processes with the lab's mark in their initial environment."""
    return [found for found in linux.processes() if not found.ended and _is_marked(found.pid, mark)]


def strays(mark: str, child: str) -> list[linux.ProcessStat]:
    """Return the living processes that descend from a child, by their initial environment."""
    name = f"{CHILD}={child}".encode()
    return [found for found in marked(mark) if linux.environment_has(found.pid, name)]


def _is_marked(pid: int, mark: str) -> bool:
    return linux.environment_has(pid, f"{MARK}={mark}".encode())


def _undo_sysctl(entry: Entry) -> str | None:
    """Restore the old value if ours is still set, in the boot and the network namespace where it was set.

    A lab's namespace is gone with the lab, and every setting's value with the boot. Raises OSError if the
    machine's setting would have to be restored from within another namespace.
    """
    if entry.get("boot_id", linux.boot_id()) != linux.boot_id():  # older versions wrote none
        return None
    name = entry["name"]
    if name.startswith("net.") and entry["network"] != linux.namespace("net"):
        if entry.get("layer") == "machine":
            raise OSError("it was set in another network namespace")
        return None
    return restore(entry)


def restore(entry: Entry) -> str | None:
    """Restore the old value of a system setting in this namespace, if ours is still set. Raises OSError.

    `back` is the setting to write if it is another one: of a ratio and an amount that replace each other, the
    kernel does not take the 0 of the one that was not in use.
    """
    now = normal(sysctl_path(entry["name"]).read_text(encoding="utf-8"))
    ours = {normal(entry["value"]), normal(entry["set_to"] if "set_to" in entry else entry["value"])}
    if now == normal(entry["old"]) or now not in ours:
        return None
    name, old = entry.get("back") or (entry["name"], entry["old"])
    sysctl_path(name).write_text(old, encoding="utf-8")
    return f"put {name} back to {normal(old)}"


def _undo_file(entry: Entry) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(entry["name"])
        return f"removed {entry['name']}"
    return None


def _undo_cgroup(entry: Entry) -> str | None:
    removed = cgroups.remove(entry["paths"])
    for path in entry.get("between", {}).values():
        with contextlib.suppress(OSError):  # another group is below it, and removes it later
            os.rmdir(path)
            cgroups.tidy(path)
    return f"removed the group of {entry['name']}" if removed else None


def _undo_limits(entry: Entry) -> str | None:
    """Restore changed limits of a group that still exists."""
    if not all(os.path.isdir(path) for path in entry["paths"].values()):
        return None
    cgroups.put_back(entry["paths"], entry["before"])
    return f"put the limits of {entry['name']} back"


_UNDOERS: dict[str, Callable[[Entry], str | None]] = {
    "lab": _undo_lab,
    "process": _undo_process,
    "sysctl": _undo_sysctl,
    "file": _undo_file,
    "cgroup": _undo_cgroup,
    "limits": _undo_limits,
}


def sysctl_path(name: str) -> Path:
    """Return the path in /proc/sys of `net.ipv4.x` or `net/ipv4/x`. Raises ValueError if invalid."""
    parts = name.split("/") if "/" in name else name.split(".")
    if not parts or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"“{name}” is not a valid system setting")
    return Path("/proc/sys", *parts)


def normal(value: str) -> str:
    """Return a system setting's value with normalised white space."""
    return " ".join(value.split())
