"""What the traffic of a study that is not trusted may ask of real servers: only what their kits allow."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.watch.watched import Watched

from svload.lab import Lab, all_kits
from svload.lab.kits.redis import _encoded, _read
from svload.model.facts import ServiceFacts

from .conftest import spec

pytestmark = pytest.mark.real
Say = Callable[..., Any]


def listening(pid: int) -> set[str]:
    """Local addresses, in hex, of the TCP sockets on which a process listens."""
    held = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        link = os.readlink(f"/proc/{pid}/fd/{name}")
        held |= {link[8:-1]} if link.startswith("socket:[") else set()
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in held:
                found.add(fields[1])
    return found


# Redis


@pytest.fixture
def store(needs: Callable[..., None], lab_of: Any) -> Lab:
    """A Redis of a study that is not trusted; only the list of commands is in the way of DEBUG and MODULE."""
    needs("redis-server")
    tuning = {"enable-debug-command": "yes", "enable-module-command": "yes"}
    lab: Lab = lab_of(spec("store", "redis", tuning=tuning))
    lab.up()
    return lab


@contextmanager
def redis(facts: ServiceFacts, *, administrator: bool = False) -> Iterator[Say]:
    """say(word, …) → the answer; what Redis refuses, as it says that."""
    at = facts.endpoints[0]
    with socket.create_connection((at.address, at.port), 5) as line, line.makefile("rb") as answers:

        def say(*words: str) -> Any:
            line.sendall(_encoded(words))
            try:
                return _read(answers)
            except OSError as why:
                return f"refused: {why}"

        if administrator:
            where = facts.admin["redis"]
            assert say("AUTH", where["user"], Path(where["password_file"]).read_text()) == "OK"
        yield say


def state_of(facts: ServiceFacts) -> dict[str, Any]:
    """What traffic must leave as it is: settings, users, programs, replication, where it listens."""
    with redis(facts, administrator=True) as say:
        told = str(say("INFO", "replication")).splitlines()
        return {
            "settings": say("CONFIG", "GET", "*"),
            "users": say("ACL", "LIST"),
            "modules": say("MODULE", "LIST"),
            "functions": say("FUNCTION", "LIST"),
            "replication": [
                one for one in told if one.startswith(("role", "master_host", "connected_slaves"))
            ],
            "listens": listening(facts.processes[0].pid),
        }


def every_command(facts: ServiceFacts) -> dict[str, list[str]]:
    """Each command and subcommand that the server lists, with as many words as it takes at least."""
    with redis(facts, administrator=True) as say:
        listed = say("COMMAND", "LIST")
        names = [name for name in listed if not any(one.startswith(f"{name}|") for one in listed)]
        arity = {name: abs(say("COMMAND", "INFO", name)[0][1]) for name in names}
    words = {name: name.split("|") for name in names}
    return {name: words[name] + ["k"] * (arity[name] - len(words[name])) for name in names}


def test_redis_refuses_each_command_outside_the_list(store: Lab) -> None:
    facts = store.facts()["store"]
    kit = all_kits()["redis"]
    assert kit.permits is not None
    before, commands = state_of(facts), every_command(facts)
    assert len(commands) > 300, "it lists some 360, without those that are only a name for several"
    outside = {name for name in commands if name.split("|")[0] not in kit.permits.commands}
    assert len(outside) > 150
    wrong = []
    for name, words in commands.items():
        with redis(facts) as say:
            answer = str(say(*words))
        if ("NOPERM" in answer) != (name in outside):
            wrong.append((name, answer))
    assert wrong == []
    assert state_of(facts) == before


ATTACKS: tuple[Sequence[str], ...] = (
    ("CONFIG", "SET", "protected-mode", "no"),
    ("CONFIG", "SET", "bind", "0.0.0.0"),
    ("MIGRATE", "127.0.0.1", "9", "k", "0", "100"),
    ("REPLICAOF", "127.0.0.1", "9"),
    ("SLAVEOF", "127.0.0.1", "9"),
    ("ACL", "SETUSER", "default", "+@all"),
    ("FLUSHALL",),
    ("EVAL", "return redis.call('config', 'set', 'hz', '50')", "0"),
    ("SHUTDOWN", "NOSAVE"),
)


@pytest.mark.parametrize("words", ATTACKS, ids=" ".join)
def test_redis_is_not_reconfigured_by_traffic(store: Lab, words: Sequence[str]) -> None:
    facts = store.facts()["store"]
    before = state_of(facts)
    with redis(facts) as say:
        assert "NOPERM" in say(*words)
        assert "NOPERM" in say(*(word.lower() for word in words))
        say("MULTI")
        assert str(say(*words)).startswith("refused"), "NOPERM, or not in a transaction at all"
    assert state_of(facts) == before
    assert store.alive() == []


def test_redis_takes_all_from_the_traffic_of_a_trusted_study(needs: Callable[..., None], lab_of: Any) -> None:
    needs("redis-server")
    lab = lab_of(spec("store", "redis"), trusted=True)
    facts = lab.up()["store"]
    before = state_of(facts)
    with redis(facts) as say:
        assert say("CONFIG", "SET", "hz", "50") == "OK"
        assert say("FLUSHALL") == "OK"
    assert state_of(facts) != before, "a change is seen where one is made"


def test_redis_counts_what_traffic_asks_and_nothing_of_svload(store: Lab) -> None:
    facts = store.facts()["store"]
    assert re.fullmatch("[0-9a-f]{64}", Path(facts.admin["redis"]["password_file"]).read_text())
    assert Path(facts.admin["redis"]["password_file"]).stat().st_mode & 0o077 == 0
    store.reset(["store"])
    monitor = Watched({"admin": facts.admin}, "redis")
    before = store.counters()["store"].values
    with redis(facts) as say:
        assert [say("SET", "a", "1"), say("GET", "a"), say("GET", "b")] == ["OK", "1", None]
    after = store.counters()["store"].values
    assert {name: after[name] - before[name] for name in ("requests", "hits", "misses", "connections")} == {
        "requests": 3.0,
        "hits": 1.0,
        "misses": 1.0,
        "connections": 1.0,
    }
    assert monitor.sample()["keys"] == 1.0


def test_an_older_redis_gets_only_commands_that_it_knows() -> None:
    from svload.lab.kits.redis import _known_to

    old, new = _known_to("Redis server v=6.0.16 sha=0"), _known_to("Redis server v=7.2.4 sha=0")
    assert old < new
    assert {"get", "set"} <= old
    assert not {"getex", "lmpop"} & old
