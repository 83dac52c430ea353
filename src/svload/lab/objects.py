"""The objects of a store: names, sizes and contents, all drawn from the study's seed. Pure."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svload.model.study import ObjectSet
from svload.model.units import size_bytes

CONTENT_VERSION = 2
"""Increased when names, sizes or contents of the same set and seed change; part of the key of filled data."""
LEAST_IMAGE_BYTES = 1024
"""The smallest JPEG; smaller sizes drawn from a distribution are raised to it."""
Z99 = 2.3263478740408408
"""The 0.99 quantile of the standard normal distribution."""


@dataclass(frozen=True, order=True)
class PlannedObject:
    """One object. Its path is `/v1/account/container/name`; all three parts are plain ASCII."""

    account: str
    container: str
    name: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Return the path as in a URL."""
        return f"/v1/{self.account}/{self.container}/{self.name}"


def planned_objects(objects: ObjectSet, seed: int) -> list[PlannedObject]:
    """Return the set's objects in listing order: container i belongs to account i mod accounts, object i to
    container i mod containers.

    The first object has the distribution's median size, so that `take: first` and `take: walk` do not differ
    by size.
    """
    draw = random.Random(f"svload objects {seed}")
    sizes = [_size(objects.size, draw) for _ in range(objects.count)]
    sizes[:1] = [_median(objects.size)]
    if objects.content == "jpeg":
        sizes = [max(size, LEAST_IMAGE_BYTES) for size in sizes]
    return sorted(
        PlannedObject(
            _account(container % objects.accounts),
            _container(objects, container),
            f"o{number:06d}",
            sizes[number],
        )
        for number in range(objects.count)
        for container in (number % objects.containers,)
    )


def planned_containers(objects: ObjectSet) -> list[tuple[str, str]]:
    """Return (account, container) of the set, including empty ones."""
    return [
        (_account(number % objects.accounts), _container(objects, number))
        for number in range(objects.containers)
    ]


def planned_accounts(objects: ObjectSet) -> list[str]:
    """Return the set's accounts with containers (an object store creates the others when first used)."""
    return [_account(number) for number in range(min(objects.accounts, objects.containers))]


def content(path: str, size: int, seed: int) -> bytes:
    """Return `size` random bytes, the same for the same path and seed (SHAKE-128)."""
    return hashlib.shake_128(f"svload object {seed} {path}".encode()).digest(size)


def fill_key(sets: Sequence[ObjectSet], seed: int) -> str:
    """Return the digest of everything that determines the contents of a store."""
    plain = [json.loads(one.model_dump_json()) for one in sets]
    for one in plain:
        del one["service"], one["table"]  # renaming a service does not change its data
        if one["content"] == "random":
            del one["content"]  # keeps the keys from before there were other contents
    text = json.dumps([CONTENT_VERSION, seed, plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class ObjectTable:
    """What a store holds, in listing order: URL path, size in bytes and MD5 of each object."""

    paths: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    digests: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def sha256(self) -> str:
        """Return the digest of the whole table."""
        lines = (
            f"{path} {size} {digest}\n"
            for path, size, digest in zip(self.paths, self.sizes_bytes, self.digests, strict=True)
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns path, size_bytes and digest."""
        return {"path": list(self.paths), "size_bytes": list(self.sizes_bytes), "digest": list(self.digests)}


def _account(number: int) -> str:
    return f"AUTH_a{number:05d}"


def _container(objects: ObjectSet, number: int) -> str:
    """Return a container's name, which contains the set's, so that sets in one store stay separate."""
    return f"{re.sub('[^a-z0-9]', '', objects.name.lower())}-{number:05d}"


def _median(spec: Mapping[str, Any]) -> int:
    [(kind, value)] = spec.items()
    if kind == "uniform":
        return sum(size_bytes(end) for end in value) // 2
    return size_bytes(value["median"] if kind == "lognormal" else value)


def _size(spec: Mapping[str, Any], draw: random.Random) -> int:
    [(kind, value)] = spec.items()
    if kind == "constant":
        return size_bytes(value)
    if kind == "uniform":
        low, high = (size_bytes(end) for end in value)
        return draw.randint(low, high)
    if kind == "lognormal":
        median, p99 = size_bytes(value["median"]), size_bytes(value["p99"])
        return max(1, round(median * math.exp(math.log(p99 / median) / Z99 * draw.gauss(0.0, 1.0))))
    raise ValueError(f"“{kind}” is not a distribution of sizes (constant, uniform, lognormal)")
