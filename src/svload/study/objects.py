"""What a store is filled with: names and sizes of objects, drawn once from the study's seed."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

from svload.model.study import ObjectSet

Z99 = NormalDist().inv_cdf(0.99)


def draw_objects(objects: ObjectSet, seed: int) -> list[tuple[str, int]]:
    """`(path, size_bytes)` of every object, the same for the same seed.

    Paths are Swift's, `/v1/AUTH_<account>/<container>/<object>`; containers are dealt to accounts, objects to containers
    in turn. Log-normal sizes have the stated median m and 99 % quantile q: exp(ln m + ln(q/m)/z₀.₉₉ · Z). The first
    object has the median size of all, so that a feeder that takes only the first row asks for a typical one.
    """
    sizes = _sizes(objects, seed)
    middle = sorted(range(len(sizes)), key=lambda index: (sizes[index], index))[(len(sizes) - 1) // 2]
    sizes[0], sizes[middle] = sizes[middle], sizes[0]
    return [(_path(objects, index), size) for index, size in enumerate(sizes)]


def account_names(objects: ObjectSet) -> list[str]:
    """The accounts: `AUTH_test` alone, or `AUTH_a0`, `AUTH_a1` …"""
    return ["AUTH_test"] if objects.accounts == 1 else [f"AUTH_a{index}" for index in range(objects.accounts)]


def _path(objects: ObjectSet, index: int) -> str:
    container = index % objects.containers
    account = "AUTH_test" if objects.accounts == 1 else f"AUTH_a{container % objects.accounts}"
    return f"/v1/{account}/c{container}/o{index}"


def _sizes(objects: ObjectSet, seed: int) -> list[int]:
    size, count = objects.size, objects.count
    if "constant" in size:
        return [int(size["constant"])] * count
    numbers = random.Random(
        seed
    )  # random() is the part of the module that promises the same sequence for ever
    if "uniform" in size:
        low, high = size["uniform"]
        return [int(low) + int(numbers.random() * (int(high) - int(low) + 1)) for _ in range(count)]
    median, p99 = float(size["lognormal"]["median"]), float(size["lognormal"]["p99"])
    normal = NormalDist(math.log(median), max(math.log(p99 / median) / Z99, 1e-12))
    return [max(1, round(math.exp(normal.inv_cdf(max(numbers.random(), 1e-12))))) for _ in range(count)]
