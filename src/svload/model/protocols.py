"""Protocols whose requests are commands, each described once; the engine implements their wire format
(`exchange/`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _one(words: Sequence[str]) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol on a byte stream: a request is a list of commands sent together, each with one reply."""

    name: str
    """name of the request's field, in a study and in a share"""
    doc: str
    """text in the study's schema and reference"""
    example: tuple[str, str]
    """two commands, as written in a study"""
    reads: str
    """commands, in lower case, that change nothing on a server but its counters"""
    counts: Callable[[Sequence[str]], int] = _one
    """how many requests its server counts for a command with these words"""


def _keys(words: Sequence[str]) -> int:
    """Count each key of a get, and other commands once, as memcached does."""
    return len(words) - 1 if words[0] in ("get", "gets") else 1


PROTOCOLS = (
    Protocol(
        name="redis",
        doc="of tcp, in place of dialogue: commands for a Redis server, sent together: SET k ${vu}",
        example=("GET a", "GET b"),
        reads="""
            auth bitcount bitfield_ro bitpos dbsize discard echo exec exists expiretime geodist geohash
            geopos georadius_ro georadiusbymember_ro geosearch get getbit getrange hello hexists hget
            hgetall hkeys hlen hmget hrandfield hscan hstrlen hvals keys lcs lindex llen lpos lrange mget
            multi pexpiretime pfcount ping pttl quit randomkey reset scan scard sdiff select sinter
            sintercard sismember smembers smismember sort_ro srandmember sscan strlen substr sunion time
            touch ttl type unwatch watch xinfo xlen xpending xrange xread xrevrange zcard zcount zdiff
            zinter zintercard zlexcount zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange
            zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion
        """,
    ),
    Protocol(
        name="memcached",
        doc="of tcp, in place of dialogue: commands for a memcached server, sent together; one that stores "
        "ends in the value: "
        "set KEY FLAGS EXPIRY VALUE",
        example=("get a", "get b"),
        reads="get gets mn version",
        counts=_keys,
    ),
)
NAMES = tuple(one.name for one in PROTOCOLS)
READS = {one.name: frozenset(one.reads.split()) for one in PROTOCOLS}
