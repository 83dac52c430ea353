"""Analysis of sampled stacks: which functions ran, and which were on the stack. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from svload.model.stacks import KERNEL, SEPARATOR

STARTS = re.compile(
    r"_start|main|(__)?clone3?|start_thread|__libc_start_\w+(@@\S+)?|std::thread::_.*|execute_native_thread_routine"
)
"""Functions that begin every thread: they are in all of its stacks, which carries no information."""


@dataclass(frozen=True)
class FunctionShare:
    """One function's samples: those in which it ran itself, and those in which it or a callee ran."""

    name: str
    own: int
    inclusive: int

    @property
    def in_kernel(self) -> bool:
        return self.name.endswith(KERNEL)


@dataclass
class Frame:
    """A function at one place of the call tree, with the samples that it was on the stack in."""

    name: str
    samples: int = 0
    called: dict[str, Frame] = field(default_factory=dict)

    @property
    def own(self) -> int:
        """Samples in which it ran itself."""
        return self.samples - sum(frame.samples for frame in self.called.values())


def call_tree(folded: Mapping[str, int]) -> Frame:
    """Return the stacks as a tree; its root is all samples, and below it are the processes by name."""
    root = Frame("all")
    for stack, samples in folded.items():
        at = root
        at.samples += samples
        for name in stack.split(SEPARATOR):
            at = at.called.setdefault(name, Frame(name))
            at.samples += samples
    return root


def function_shares(folded: Mapping[str, int]) -> list[FunctionShare]:
    """Return every function, sorted by the time it ran itself, most first. A recursive function counts once
    in a stack.

    The process's name, which begins each stack, is no function.
    """
    own: dict[str, int] = {}
    inclusive: dict[str, int] = {}
    for stack, samples in folded.items():
        names = stack.split(SEPARATOR)[1:]
        if not names:
            continue
        own[names[-1]] = own.get(names[-1], 0) + samples
        for name in set(names):
            inclusive[name] = inclusive.get(name, 0) + samples
    shares = [FunctionShare(name, own.get(name, 0), count) for name, count in inclusive.items()]
    return sorted(shares, key=lambda one: (-one.own, -one.inclusive, one.name))


def most_inclusive(shares: list[FunctionShare], count: int) -> list[FunctionShare]:
    """Return the functions of programs that were on the stack most: none of the kernel's, and none that begin
    a thread."""
    found = [
        one for one in shares if not (one.in_kernel or one.name.startswith("[") or STARTS.fullmatch(one.name))
    ]
    return sorted(found, key=lambda one: (-one.inclusive, -one.own, one.name))[:count]
