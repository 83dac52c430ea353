"""CPU of processes that are no part of the measurement: neither generators, servers, monitors nor
svload itself, nor the kernel's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.watch import proc
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.process import ProcessMonitor

KERNEL = 2
"""kthreadd: its children work for whoever asked, the load included."""
NAMED = 5
LEAST_S = 0.01
_WORDS_BYTES = 60


class OthersMonitor(Monitor):
    """The empty entity for all of them; `name pid` for those that used most since the reading before.

    Times are the scheduler's own, process by process; the time of one that ended is found with
    the parent that waited for it.
    """

    name = "others"
    summary = "CPU of processes that are no part of the measurement"
    metrics: ClassVar[Mapping[str, str]] = {
        "cpu_seconds_total": "CPU time of all of them",
        "cpu_seconds": "of those that used most: CPU time since the reading before, ended children included",
        "pid": "number of such a process; the entity is `name pid user command`, and of the command it has "
        "the program and the first file",
    }
    cpu_share = 0.01
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        me = proc.read_stat("self", self.root)
        self._own = frozenset({int(pid) for pid in facts.get("own", ())} | ({me.parent} if me else set()))
        self._before: dict[int, proc.Stat] | None = None
        self._total = 0.0
        self._whose: dict[tuple[int, int], str] = {}

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """The machine itself."""
        return facts is None

    def sample(self) -> Iterable[Reading]:
        """One pass over all processes, shared with the services' monitors."""
        now = {one.pid: one for one in self.table.renew()}
        # Who once belonged stays ours, even if its parent ends and it is adopted.
        belongs = self.table.families(self._own)
        self._own = belongs if belongs <= now.keys() else belongs.intersection(now)
        used = () if self._before is None else proc.used_between(self._before.values(), now.values())
        self._before = now
        others = [
            one for one in used if one.pid not in self._own and KERNEL not in (one.pid, now[one.pid].parent)
        ]
        others.sort(key=lambda one: one.seconds, reverse=True)
        self._total += sum(one.seconds for one in others)
        named = [one for one in others[:NAMED] if one.seconds >= LEAST_S]
        return [
            Reading("", "cpu_seconds_total", self._total),
            *(Reading(f"{one.name} {one.pid}", "cpu_seconds", one.seconds) for one in named),
            *(Reading(self._named(one, now[one.pid].start_ticks), "pid", one.pid) for one in named),
        ]

    def _named(self, one: proc.Used, start_ticks: int) -> str:
        key = (one.pid, start_ticks)
        if key not in self._whose:
            self._whose[key] = (
                f"{one.name} {one.pid} {user_of(one.pid, self.root)} {command_of(one.pid, self.root)}".rstrip()
            )
        return self._whose[key]


def user_of(pid: int, root: str = "/proc") -> str:
    """The user whom a process belongs to: by name, by number where none is known, `?` when it is gone."""
    try:
        uid = os.stat(f"{root}/{pid}").st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name.replace(" ", "_")
    except KeyError:
        return str(uid)


def command_of(pid: int, root: str = "/proc") -> str:
    """A process's program and the first file or word that it was given, both without folders; empty when it is gone.

    No more of its arguments: they may hold secrets.
    """
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    program, *others = [os.path.basename(word.split(" ", 1)[0]) for word in words if word] or [""]
    first = others[0] if others and not words[1].startswith("-") and "=" not in words[1] else ""
    return f"{program} {first}".strip()[:_WORDS_BYTES]
