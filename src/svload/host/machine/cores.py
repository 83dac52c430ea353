"""Which cores make load and which serve. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class CoreSplit(NamedTuple):
    """Cores for generators and probe, cores for servers; `pinned` is False where both must share all of them."""

    load: tuple[int, ...]
    servers: tuple[int, ...]
    pinned: bool


def split_cores(available: Collection[int]) -> CoreSplit:
    """One core for the load, a quarter of them from eight up, the rest for the servers; one core is shared.

    The load takes the highest ones: interrupts mostly land on the lowest and would show as the generator's
    lag. Raises ValueError for no core at all.
    """
    cores = sorted(set(available))
    if not cores:
        raise ValueError("no cores to split")
    if len(cores) == 1:
        return CoreSplit(tuple(cores), tuple(cores), pinned=False)
    of_load = max(1, len(cores) // 4)
    return CoreSplit(tuple(cores[-of_load:]), tuple(cores[:-of_load]), pinned=True)
