"""The split of cores between load and servers. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class CoreSplit(NamedTuple):
    """Cores for generators and probe, cores for servers; `pinned` is False where both must share all of them."""

    load: tuple[int, ...]
    servers: tuple[int, ...]
    pinned: bool


def split_cores(available: Collection[int]) -> CoreSplit:
    """Give one core to the load, a quarter of them from eight up, and the rest to the servers; a single core
    is shared.

    The load gets the highest cores, since interrupts mostly occur on the lowest and would appear as generator
    lag. Raises ValueError without cores.
    """
    cores = sorted(set(available))
    if not cores:
        raise ValueError("no cores to split")
    if len(cores) == 1:
        return CoreSplit(tuple(cores), tuple(cores), pinned=False)
    of_load = max(1, len(cores) // 4)
    return CoreSplit(tuple(cores[-of_load:]), tuple(cores[:-of_load]), pinned=True)
