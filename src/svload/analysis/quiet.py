"""A check whether a machine is quiet enough to measure on, by a short look at it before anything is started.
Pure (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from svload.analysis import limits
from svload.model.units import show_percent

_NAMED = 3


def called(name: str) -> str:
    """Return a process's name for a sentence: a process named svload is not the svload that measures."""
    return "another svload" if name == "svload" else name


class Whose(NamedTuple):
    """A process: its name in the kernel, its user, its command (the program and the first file)."""

    name: str
    pid: int
    user: str = ""
    command: str = ""

    def __str__(self) -> str:
        text = f"{self.user}, {self.command}" if self.command else self.user
        return f"{called(self.name)} (process {self.pid}{f', {text}' if text else ''})"


@dataclass(frozen=True)
class Look:
    """A machine's activity over about a second: shares of that time. `waited` is None where the kernel does
    not report it."""

    cores: int
    stolen: Mapping[str, float]
    """core → share that the hypervisor gave to others"""
    waited: float | None
    """share in which a runnable task waited for a core"""
    others: Sequence[tuple[Whose, float]]
    """processes other than svload's, each with the cores that it used, the busiest first"""


def disturbances(look: Look) -> tuple[str, ...]:
    """Return what would make trials WEAK or REFUSED now, one clause each; empty on a quiet machine."""
    texts = []
    used = sum(cores for _, cores in look.others)
    busy = used > limits.OTHERS_CPU * look.cores
    if busy:
        named = ", ".join(str(who) for who, _ in look.others[:_NAMED])
        texts.append(f"other processes use {used:.2g} of {look.cores} cores: {named}")
    core, stolen = max(look.stolen.items(), key=lambda one: one[1], default=("", 0.0))
    if stolen > limits.STEAL:
        texts.append(f"the hypervisor gives {show_percent(stolen, 2)} of {core} to other guests")
    if not texts and look.waited is not None and look.waited > 5 * limits.RUN_QUEUE:
        texts.append(
            f"processes that can't be seen from here wait for a core {show_percent(look.waited, 2)} of the time"
        )
    return tuple(texts)
