"""The owners of processes that used the machine's CPU beside the measurement: what monitor `others` reports
about the ones that it names."""

from __future__ import annotations

from typing import NamedTuple

from svload.analysis.readings import Monitors


def called(name: str) -> str:
    """Return a process's name for a sentence: a process named svload is not the svload that measures."""
    return "another svload" if name == "svload" else name


class Whose(NamedTuple):
    """One process: its name in the kernel, its user, its command (the program and the first file); empty
    where a run has no such reading."""

    name: str
    pid: int
    user: str = ""
    command: str = ""

    def __str__(self) -> str:
        text = f"{self.user}, {self.command}" if self.command else self.user
        return f"{called(self.name)} (process {self.pid}{f', {text}' if text else ''})"


def whose(monitors: Monitors) -> dict[str, Whose]:
    """Return by entity of `cpu_seconds` (`name pid`) which process it is."""
    mine = monitors["monitor"] == "others"
    named = set(monitors["entity"][mine & (monitors["metric"] == "cpu_seconds")])
    found = {}
    for entity in sorted(named):
        name, _, pid = str(entity).rpartition(" ")
        found[str(entity)] = Whose(name, int(pid)) if pid.isdigit() else Whose(str(entity), 0)
    for entity in set(monitors["entity"][mine & (monitors["metric"] == "pid")]):
        known = next((one for one in found if str(entity).startswith(f"{one} ")), None)
        if known is not None:
            user, _, command = str(entity)[len(known) + 1 :].partition(" ")
            found[known] = found[known]._replace(user=user, command=command)
    return found
