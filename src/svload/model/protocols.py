"""Protocols whose requests are commands, each described once; how they look on the wire
is the engine's (`exchange/`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _one(words: Sequence[str]) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol on a stream of bytes: a request is commands that leave together, and each has one reply."""

    name: str
    """of the request's field, in a study as in a share"""
    doc: str
    """in the study's schema and reference"""
    example: tuple[str, str]
    """two commands, as a study writes them"""
    counts: Callable[[Sequence[str]], int] = _one
    """how many requests its server counts for a command of these words"""


def _keys(words: Sequence[str]) -> int:
    """memcached counts the keys of a get, and other commands once."""
    return len(words) - 1 if words[0] in ("get", "gets") else 1


PROTOCOLS = (
    Protocol(
        name="redis",
        doc="of tcp, in place of dialogue: commands for a Redis server, sent together: SET k ${vu}",
        example=("GET a", "GET b"),
    ),
    Protocol(
        name="memcached",
        doc="of tcp, in place of dialogue: commands for a memcached server, sent together; one that stores "
        "ends in the value: "
        "set KEY FLAGS EXPIRY VALUE",
        example=("get a", "get b"),
        counts=_keys,
    ),
)
NAMES = tuple(one.name for one in PROTOCOLS)
