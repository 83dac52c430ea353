"""Redis, alone or for a service that needs one."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from svload.host.machine.bounded import BoundedSocket
from svload.lab.kit import LOOPBACK, KitOptions, Permits, SizeBytes, Spelling, option, words
from svload.lab.server import Server, path_of
from svload.model.costs import Costs
from svload.model.facts import Counters, ServiceFacts, Setting
from svload.model.protocols import READS

TIMEOUT_S = 5.0
MOST_BYTES = 1 << 20
_SPELLING = Spelling("parameter", "[a-z0-9-]+", ("no", "yes"), without="\"'\\#")
_ADMINISTRATOR = "svload"
_ASKED_BY_US = ("info", "config", "dbsize", "flushall", "ping", "auth")
"""Commands of kit and monitor; the load's commands of these kinds are not counted either."""


class RedisOptions(KitOptions):
    """Options of `redis`; `tuning` contains its parameters (maxmemory-samples, tcp-backlog, hz, …)."""

    connections: int = option(10_000, ge=1, change="live", doc="maximum number of clients (maxclients)")
    item_memory: SizeBytes | None = option(
        None,
        change="live",
        unit="size",
        doc="memory for its data (maxmemory); default: no limit. `memory` limits the whole service",
    )
    eviction: Literal[
        "noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
        "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
    ] = option("noeviction", change="live", doc="what is evicted when item_memory is full (maxmemory-policy)")  # fmt: skip
    io_threads: int = option(1, ge=1, le=128, doc="threads that read requests and write answers (io-threads)")

    spelling = _SPELLING


_HARMLESS = words(
    """
    active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes active-defrag-max-scan-fields
    active-defrag-threshold-lower active-defrag-threshold-upper active-expire-effort activedefrag activerehashing
    appendfsync appendonly auto-aof-rewrite-min-size auto-aof-rewrite-percentage client-output-buffer-limit
    client-query-buffer-limit databases dynamic-hz hash-max-listpack-entries hash-max-listpack-value
    hll-sparse-max-bytes hz io-threads-do-reads jemalloc-bg-thread latency-monitor-threshold latency-tracking
    lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del lfu-decay-time lfu-log-factor
    list-compress-depth list-max-listpack-size maxmemory-clients maxmemory-eviction-tenacity maxmemory-samples
    no-appendfsync-on-rewrite proto-max-bulk-len save set-max-intset-entries slowlog-log-slower-than slowlog-max-len
    stream-node-max-bytes stream-node-max-entries tcp-backlog tcp-keepalive timeout zset-max-listpack-entries
    zset-max-listpack-value
    """
)
"""Left out: parameters that name files, programs, users or servers (dir, loadmodule, aclfile …)."""


_WRITING = words(
    """
    append bitfield bitop blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin copy decr decrby del
    expire expireat geoadd georadius georadiusbymember geosearchstore getdel getex getset hdel hincrby hincrbyfloat hmset
    hset hsetnx incr incrby incrbyfloat linsert lmove lmpop lpop lpush lpushx lrem lset ltrim move mset msetnx
    persist pexpire pexpireat pfadd pfmerge psetex rename renamenx rpop rpoplpush rpush rpushx sadd sdiffstore set setbit
    setex setnx setrange sinterstore smove sort spop srem sunionstore unlink xack xadd xautoclaim xclaim xdel xgroup
    xreadgroup xsetid xtrim zadd zdiffstore zincrby zinterstore zmpop zpopmax zpopmin zrangestore zrem zremrangebylex
    zremrangebyrank zremrangebyscore zunionstore
    """
)
"""Left out, besides administration and replication: commands that empty or swap whole databases (flushall,
flushdb, swapdb), that read or write Redis's internal format (restore, dump), that run programs (eval, fcall),
that send messages between clients (publish, subscribe), and that describe the server (info, object,
memory)."""
_NEWER: Mapping[tuple[int, int], frozenset[str]] = {
    (6, 2): words(
        """
        blmove copy geosearch geosearchstore getdel getex hrandfield lmove smismember xautoclaim zdiff zdiffstore zinter
        zmscore zrandmember zrangestore zunion
        """
    ),
    (7, 0): words("blmpop bzmpop expiretime lcs lmpop pexpiretime sintercard sort_ro zintercard zmpop"),
}
"""Commands by the version that introduced them: older versions refuse a list with unknown commands."""


class Redis(Server):
    """A separate redis-server on TCP and a Unix socket; what `tuning` lets it save is in a separate folder.

    svload connects as a separate user with a random password for each start; traffic is the default user.
    """

    name = "redis"
    summary = "Redis, an in-memory store"
    Options = RedisOptions
    costs = Costs(up_s=0.1, reset_s=0.05, answers_per_s=50_000)
    front = False
    harmless = frozenset({"connections", "item_memory", "eviction", "io_threads"})
    harmless_tuning = _HARMLESS
    permits = Permits(
        "commands that read and write keys, by the access list of its default user", READS["redis"] | _WRITING
    )
    programs = {"redis-server": "redis-server"}
    counted = ("requests", "hits", "misses", "connections")
    options: RedisOptions
    _port: int
    _password: str
    _opened: int
    """The number of connections that this kit has opened since the start or the reset."""

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._opened = 0
        self._port = self.context.take_port("redis", self.options.port)
        self._password = secrets.token_hex(32)
        self._password_file = self.write("password", self._password)
        self.spawn("redis", [path_of("redis-server"), self.write("redis.conf", self._config())])

    @property
    def _socket(self) -> Path:
        return self.context.work / "s"

    def _config(self) -> str:
        options, work = self.options, self.context.work
        settings = {
            "bind": self.context.address,
            "port": self._port,
            "dir": f'"{work}"',
            "daemonize": "no",
            "save": '""',
            "appendonly": "no",
            "io-threads": options.io_threads,
            **_live(options),
        }
        if self.context.address != LOOPBACK:  # only reachable in the lab's network
            settings["protected-mode"] = "no"
        if len(str(self._socket)) < 108:  # the limit of a Unix socket's address
            settings |= {"unixsocket": f'"{self._socket}"', "unixsocketperm": "700"}
        settings |= {name: _spelled(value) for name, value in options.tuning.items()}
        users = [f"{_ADMINISTRATOR} on #{sha256(self._password.encode()).hexdigest()} ~* +@all"]
        if not self.context.trusted:
            known = sorted(_known_to(self.tool([path_of("redis-server"), "--version"])))
            users.append(f"default reset on nopass ~* -@all {' '.join(f'+{name}' for name in known)}")
        lines = [f"{name} {value}" for name, value in settings.items()] + [f"user {one}" for one in users]
        return "".join(f"{line}\n" for line in lines)

    def condition(self) -> bool:
        """Return whether it answers PING; while it loads a file, it answers with an error."""
        return bool(self._ask("PING") == "PONG")

    def describe(self) -> ServiceFacts:
        admin = {
            "address": self.context.address,
            "port": self._port,
            "user": _ADMINISTRATOR,
            "password_file": str(self._password_file),
        }
        return self.service_facts(
            self._info().get("redis_version", ""),
            self.endpoint(self._port, "tcp"),
            admin={"redis": admin},
            outputs={"socket": str(self._socket)},
        )

    def reset(self) -> dict[str, Any]:
        """Delete every key and reset every counter; proved by its count of keys."""
        try:
            try:
                self._ask("FLUSHALL", "SYNC")
            except Refused:  # before version 6.2, which always does it at once
                self._ask("FLUSHALL")
            self._ask("CONFIG", "RESETSTAT")
            self._opened = 0
            keys = int(self._ask("DBSIZE"))
            info = self._info()
        except OSError as why:
            raise self.reset_failed("redis", why) from why
        if keys:
            raise self.reset_failed("redis", f"it still holds {keys} keys after FLUSHALL")
        return {
            "keys": keys,
            "used_memory": float(info["used_memory"]),
            "connected_clients": float(info["connected_clients"]),
        }

    def counters(self) -> Counters:
        at_ns = time.monotonic_ns()
        return canonical(self._info(), at_ns, self._opened)

    def adjust(self, options: KitOptions) -> bool:
        """Apply changes by CONFIG SET; return False if the running server refuses."""
        assert isinstance(options, RedisOptions)
        before, after = _live(self.options), _live(options)
        try:
            for name, value in after.items():
                if value != before[name]:
                    self._ask("CONFIG", "SET", name, str(value))
        except Refused:
            return False
        self.options = options
        return True

    def effective(self) -> Sequence[Setting]:
        """Return each option and parameter as the running server has it, and the kernel's accept queue."""
        asked = {**_live(self.options), "io-threads": self.options.io_threads, **self.options.tuning}
        asked.pop("tcp-backlog", None)
        settings = []
        for name, value in asked.items():
            found = self._ask("CONFIG", "GET", name)
            shown = str(found[1]) if isinstance(found, list) and len(found) > 1 else None
            wanted = _spelled(value)
            same = shown is not None and _plain(shown) == _plain(wanted)
            settings.append(Setting(name=name, asked=wanted, found=wanted if same else shown))
        backlog = self.options.tuning.get("tcp-backlog")
        return [
            *settings,
            self.backlog_setting("tcp-backlog", None if backlog is None else int(backlog), self._port),
        ]

    def _info(self) -> dict[str, str]:
        return parse_info(str(self._ask("INFO", "all")))

    def _ask(self, *command: str) -> Any:
        """Return the answer to a command as administrator. Raises OSError; Refused for an error."""
        with BoundedSocket((self.context.address, self._port), TIMEOUT_S, MOST_BYTES) as line:
            self._opened += 1
            line.sendall(_encoded(("AUTH", _ADMINISTRATOR, self._password)) + _encoded(command))
            with line.makefile("rb") as answers:
                _read(answers)
                return _read(answers)


class Refused(OSError):
    """An error that Redis answered."""


def _known_to(release: str) -> frozenset[str]:
    """Return what traffic may do with the version that `redis-server --version` reports."""
    found = re.search(r"v=(\d+)\.(\d+)", release)
    version = (int(found[1]), int(found[2])) if found else (6, 0)
    return Redis.permits.names.difference(*(names for since, names in _NEWER.items() if since > version))


def canonical(info: Mapping[str, str], at_ns: int, opened: int) -> Counters:
    """Return canonical counters from INFO, without svload's commands and the kit's `opened` connections."""
    calls = {
        name.removeprefix("cmdstat_"): float(_fields(value)["calls"])
        for name, value in info.items()
        if name.startswith("cmdstat_")
    }
    values = {"requests": sum(count for name, count in calls.items() if not name.startswith(_ASKED_BY_US))}
    for canonical_name, name in (
        ("hits", "keyspace_hits"),
        ("misses", "keyspace_misses"),
        ("connections", "total_connections_received"),
    ):
        if name in info:
            values[canonical_name] = float(info[name])
    if "connections" in values:
        values["connections"] -= opened
    return Counters(at_ns=at_ns, values=values, raw={f"calls.{name}": count for name, count in calls.items()})


def parse_info(text: str) -> dict[str, str]:
    """Return INFO's `name:value` lines by name."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


def _fields(text: str) -> dict[str, str]:
    """Return `calls=3,usec=7,…` by name."""
    return {name: value for name, _, value in (pair.partition("=") for pair in text.split(","))}


def _live(options: RedisOptions) -> dict[str, Any]:
    """Return parameter → value for the options that a running server can change."""
    return {
        "maxclients": options.connections,
        "maxmemory": options.item_memory or 0,
        "maxmemory-policy": options.eviction,
    }


def _spelled(value: Any) -> str:
    return _SPELLING.value(value) or '""'


_UNITS = {"": 1, "k": 1000, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}


def _plain(text: str) -> str | int:
    """Return a value in a normalised form: sizes (`64mb`) in bytes, other texts unchanged."""
    found = re.fullmatch(r"(-?\d+)([a-z]*)", text.lower())
    return int(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else text


def _encoded(command: Sequence[str]) -> bytes:
    words = [word.encode() for word in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def _read(answers: Any) -> Any:
    """Read one RESP value: a text, a number, a list, or None."""
    line = answers.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("Redis hung up")
    kind, rest = line[:1], line[1:-2].decode(errors="replace")
    if kind == b"-":
        raise Refused(f"Redis answered “{rest}”")
    if kind == b"+":
        return rest
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return answers.read(int(rest) + 2)[:-2].decode(errors="replace") if int(rest) >= 0 else None
    if kind == b"*":
        return [_read(answers) for _ in range(int(rest))]
    raise OSError(f"Redis answered {line[:60]!r}")
