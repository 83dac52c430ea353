"""Kits of real servers: bring-up, requests, reset and stop."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed
from tests.watch.watched import counted

from svload.host import Agent, start_agent
from svload.host.machine import fabric
from svload.lab import Lab, all_kits
from svload.lab.kits.nginx import DIRECTIVES, OWN
from svload.lab.server import path_of
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint
from svload.model.study import ObjectSet
from svload.watch import monitors_for

from .conftest import mariadb, pids_of, redis, settings_of, settled, sizes, spec

pytestmark = pytest.mark.real


def test_nginx_serves_files_over_both_schemes_and_counts_its_own_ports(lab_of: Any, needs: Any) -> None:
    needs("nginx")
    options = {"tls": True, "backlog": 333, "workers": 2, "tuning": {"keepalive_requests": 5000}}
    site = spec("site", "nginx", files={"/1k": "1 KiB", "/deep/b": 70000}, **options)
    lab = lab_of(site, work="path with spaces")
    facts = lab.up()["site"]
    at = lab.endpoints()
    before = lab.counters()["site"].values
    assert before["file_bytes"] == 1024 + 70000
    assert before["file_resident_bytes"] == before["file_bytes"], "what was just written is in the page cache"
    with counted(facts, "nginx", accepted_total=2, handled_total=2):
        assert sizes(at["http://site"], "/1k", times=3, Host="site") == [(200, 1024)] * 3
        assert sizes(at["https://site"], "/deep/b", times=2, Host="site") == [(200, 70000)] * 2
    wanted = {"requests": 5, "connections": 2}
    assert settled(lab, "site", wanted, before) == wanted
    assert settings_of(facts) == {"backlog": "333"}
    assert facts.version.startswith("1.")


def test_varnish_counts_true_hits_and_misses_and_forgets_on_reset(lab_of: Any, needs: Any) -> None:
    needs("nginx", "varnishd", "hitch")
    tuning = {"thread_pool_min": 20, "thread_pool_max": 90, "listen_depth": 200, "workspace_thread": "4k"}
    site = spec("site", "nginx", files={"/a": 2000}, tls="hitch")
    lab = lab_of(site, spec("cache", "varnish", of="site", storage="64 MiB", tls="hitch", tuning=tuning))
    facts = lab.up()
    at = lab.endpoints()
    assert set(at) == {"http://site", "https://site", "http://cache", "https://cache"}
    tuned = {"thread_pool_max": "90", "workspace_thread": "4k", "listen_depth": "200"}
    assert settings_of(facts["cache"]).items() >= tuned.items()

    def through(scheme: str, wanted: dict[str, float], **headers: str) -> dict[str, float]:
        before = lab.counters()["cache"].values
        assert sizes(at[f"{scheme}://cache"], "/a", times=10, **headers, Host="cache") == [(200, 2000)] * 10
        return settled(lab, "cache", wanted, before)

    first = {"requests": 10.0, "hits": 9.0, "misses": 1.0}
    with counted(facts["cache"], "varnish", cache_hit_total=9, cache_miss_total=1):
        assert through("http", first) == first
    hits = {"requests": 10.0, "hits": 10.0, "misses": 0.0}
    assert through("https", hits) == hits, "http and https share an entry"
    misses = {"requests": 10.0, "hits": 0.0, "misses": 10.0}
    assert through("http", misses, X_Cold="round-{}") == misses
    assert through("https", misses, X_Cold="other-{}") == misses

    proof = lab.reset(["cache"])["cache"]
    assert (proof["n_object"], proof["client_req"], proof["cache_hit"]) == (0, 0, 0)
    assert through("https", first) == first
    requests = lab.counters()["site"].values["requests"]
    assert requests == 1 + 10 + 10 + 1, "nginx saw the misses and nothing else"

    before = lab.counters()["cache"].values
    lost = sizes(at["http://cache"], "/nothing", times=3, Host="cache")
    assert [status for status, _ in lost] == [404] * 3
    secret = sizes(at["http://cache"], "/a", times=3, Authorization="Basic none", Host="cache")
    assert secret == [(200, 2000)] * 3
    assert settled(lab, "cache", {"hits": 0.0}, before) == {"hits": 0.0}, "nothing of these is kept"
    assert lab.counters()["site"].values["requests"] >= requests + 6
    assert len(pids_of(*facts.values())) == 4


@pytest.mark.parametrize(
    ("asked", "found", "why"),
    [(32 << 20, 32 << 20, ""), (64 << 10, 2 << 20, "memcached counts in MiB, with a minimum of 2")],
)
def test_memcached_says_why_it_holds_more(lab_of: Any, needs: Any, asked: int, found: int, why: str) -> None:
    needs("memcached")
    lab = lab_of(spec("store", "memcached", connections=2048, item_memory=f"{asked >> 10} KiB"))
    facts = lab.up()["store"]
    assert [end.scheme for end in facts.endpoints] == ["tcp"]
    connections, memory = sorted(facts.settings, key=lambda one: one.name)
    assert (connections.name, connections.found, connections.why) == ("memcached.connections", "2048", "")
    assert memory.name == "memcached.item_memory_bytes"
    assert (memory.asked, memory.found, memory.why) == (str(asked), str(found), why)
    at = facts.admin["memcached"]["address"], facts.admin["memcached"]["port"]
    grown = {"hits_total": 1, "misses_total": 2, "sets_total": 1, "items": 1}
    with counted(facts, "memcached", **grown), socket.create_connection(at, HANG_S) as client:
        client.sendall(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nget c\r\nquit\r\n")
        while client.recv(4096):
            pass
    assert lab.reset(["store"])["store"]["cmd_flush"] == 1
    with socket.create_connection(at, HANG_S) as client:
        client.sendall(b"get a\r\n")
        assert client.recv(100) == b"END\r\n"
    assert lab.counters()["store"].values["hits"] == 1, "those before the reset continue"


def test_redis_counts_its_load_forgets_on_reset_and_takes_its_options_live(lab_of: Any, needs: Any) -> None:
    needs("redis-server")
    tuning = {"hz": 50, "maxmemory-samples": 7, "tcp-backlog": 99, "save": "900 1"}
    options = {"connections": 200, "tuning": tuning}
    lab = lab_of(spec("store", "redis", item_memory="64 MiB", eviction="allkeys-lru", **options))
    facts = lab.up()["store"]
    memory = {"maxmemory": str(64 << 20), "maxmemory-policy": "allkeys-lru"}
    tuned = {name: str(value) for name, value in tuning.items()}
    assert settings_of(facts) == {"maxclients": "200", "io-threads": "1"} | memory | tuned
    at = lab.endpoints()["tcp://store"]
    grown = {"hits_total": 1, "misses_total": 2, "keys": 2, "errors_total": 1, "connections_total": 1}
    with counted(facts, "redis", **grown) as read, redis(at) as say:
        asked = (("SET", "a", "1"), ("SET", "b", "2"), ("GET", "a"), ("GET", "c"), ("GET", "d"))
        assert [say(*words) for words in asked] == ["OK", "OK", "1", None, None]
        assert say("NONSENSE").startswith("refused")
    assert (read["connections_limit"], read["limit_bytes"]) == (200, 64 << 20)
    assert lab.reset(["store"])["store"]["keys"] == 0
    before = lab.counters()["store"].values
    with redis(at) as say:
        asked = (("GET", "a"), ("SET", "a", "1"), ("EXISTS", "a"), ("EXISTS", "b"))
        assert [say(*words) for words in asked] == [None, "OK", 1, 0]
    grown = {name: value - before[name] for name, value in lab.counters()["store"].values.items()}
    assert grown == {"requests": 4, "hits": 1, "misses": 2, "connections": 1}
    assert lab.apply([spec("store", "redis", item_memory="32 MiB", eviction="volatile-ttl", **options)]) == []
    found = settings_of(lab.facts()["store"])
    assert (found["maxmemory"], found["maxmemory-policy"]) == (str(32 << 20), "volatile-ttl")
    with redis(at) as say:
        assert say("GET", "a") == "1", "what it held is still there"


def test_what_redis_refuses_is_reported_with_its_own_words(lab_of: Any, needs: Any) -> None:
    needs("redis-server")
    lab = lab_of(spec("store", "redis", tuning={"hz": "many"}))
    with pytest.raises(SvloadError, match=r"argument couldn't be parsed into an integer.*\[service-died\]"):
        lab.up()


def test_mariadb_is_created_counted_and_reset(lab_of: Any, needs: Any, tmp_path: Path) -> None:
    needs("mariadbd", "mariadb-install-db", "mariadb")
    tables = "CREATE TABLE users (name VARCHAR(9) PRIMARY KEY); INSERT INTO users VALUES ('ada');"
    (tmp_path / "tables.sql").write_text(tables)
    tuning = {"back_log": 33, "thread_cache_size": 5}
    options: dict[str, Any] = {"sql": "tables.sql", "buffer_pool": "64 MiB", "tuning": tuning}
    lab = lab_of(spec("db", "mariadb", connections=20, **options))
    with NamedTemporaryFile(dir="/tmp", prefix="#sql-temptable-", suffix=".MAI") as of_another_server:
        facts = lab.up()["db"]
        assert Path(of_another_server.name).exists()
    [at] = facts.endpoints
    tuned = {"thread_cache_size": "5", "back_log": "33", "innodb_buffer_pool_size": str(64 << 20)}
    assert settings_of(facts) == {"max_connections": "20"} | tuned
    assert "MariaDB" in facts.version
    before = lab.counters()["db"].values
    assert mariadb(at, "INSERT INTO users VALUES ('ben'); SELECT COUNT(*) FROM users") == "2"
    grown = {name: value - before[name] for name, value in lab.counters()["db"].values.items()}
    assert grown == {"requests": 2, "connections": 1}
    with counted(facts, "mariadb", denied_total=2) as read:
        assert "Access denied" in mariadb(at, "SELECT 1", password="wrong")
        assert "denied" in mariadb(at, "SELECT * FROM mysql.global_priv")
    assert (read["connections_limit"], read["pool_limit_bytes"]) == (20, 64 << 20)
    proof = lab.reset(["db"])["db"]
    assert proof["tables"] == 1
    assert mariadb(at, "SELECT name FROM users") == "ada"
    assert lab.apply([spec("db", "mariadb", connections=30, **options)]) == []
    assert mariadb(at, "SELECT @@max_connections") == "30"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("tables.sql", "You have an error in your SQL syntax"),
        ("link.sql", "no file “link.sql” in the study's folder"),
    ],
)
def test_an_sql_fault_is_reported_in_mariadbs_words(
    lab_of: Any, needs: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str, fault: str
) -> None:
    needs("mariadbd", "mariadb-install-db", "mariadb")
    (tmp_path / "tables.sql").write_text("CREATE TABEL users (name INT);")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "tables.sql"
    elsewhere.write_text("CREATE TABLE users (name INT);")
    (tmp_path / "link.sql").symlink_to(elsewhere)
    lab = lab_of(spec("db", "mariadb", sql=name))
    with pytest.raises(SvloadError, match=fault):
        lab.up()


def test_hitch_as_a_service_of_its_own(lab_of: Any, needs: Any) -> None:
    needs("hitch", "nginx")
    options = {"workers": 1, "backlog": 77, "tuning": {"keepalive": 60, "prefer-server-ciphers": True}}
    lab = lab_of(spec("site", "nginx", files={"/a": 2000}), spec("front", "hitch", of="site", **options))
    facts = lab.up()
    assert set(lab.endpoints()) == {"http://site", "https://front"}
    assert sizes(lab.endpoints()["https://front"], "/a", times=2, Host="front") == [(200, 2000)] * 2
    assert settings_of(facts["front"]) == {"hitch.backlog": "77"}
    assert [process.name for process in facts["front"].processes] == ["hitch"]


def test_a_hitch_front_stands_before_a_truth_server_too(lab_of: Any, needs: Any) -> None:
    needs("hitch")
    lab = lab_of(spec("backend", "truth", role="store", tls="hitch"))
    facts = lab.up()["backend"]
    assert [(one.scheme, one.via) for one in facts.endpoints] == [("http", None), ("https", "hitch")]
    assert [one.name for one in facts.processes] == ["truth", "hitch"]
    objects = ObjectSet(name="few", service="backend", count=3, size={"constant": 100})
    path = lab.stores.fill(objects, seed=3).table.columns()["path"][0]
    assert sizes(lab.endpoints()["https://backend"], path, Host="backend") == [(200, 100)]


def _is_taken(folder: Path, directive: str) -> bool:
    """Return whether nginx's http block knows this directive as one with a value and no block."""
    config = folder / "nginx.conf"
    config.write_text(f"events {{}}\nhttp {{ {directive}; }}\n")
    command = [path_of("nginx"), "-t", "-q", "-e", "stderr", "-p", str(folder), "-c", str(config)]
    return f'invalid number of arguments in "{directive}"' in completed(command).stderr


def test_nginx_takes_the_directives_that_a_study_may_tune(needs: Any, tmp_path: Path) -> None:
    needs("nginx")
    others = {"sendfle", "proxy_pass", "upstream", "load_module"}
    taken = {name for name in DIRECTIVES | OWN | others if _is_taken(tmp_path, name)}
    assert taken == DIRECTIVES | OWN


# behind a link of 5 MB/s and 10 ms: they come up and answer, clients see the rate and the latency, and monitors read


LINK = {"rate": "5 MB/s", "latency": "10 ms"}
RATE, LATENCY_S = 5_000_000, 0.01
SIZE = 2_500_000


def redis_says(at: Endpoint, size: int) -> int:
    """SET then GET, so that the value crosses the link both ways."""
    with redis(at) as say:
        assert say("SET", "a", "x" * size) == "OK"
        return len(say("GET", "a"))


@pytest.fixture
def linked(tmp_path: Path, needs: Callable[..., None]) -> Iterator[Agent]:
    """Return an agent whose lab has its own network, which this thread has entered."""
    needs("root")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)
    with start_agent(tmp_path / "agent", "test", own_network=True) as agent, agent.joined():
        yield agent


@pytest.mark.parametrize(
    ("kit", "options", "says", "ways"),
    [
        ("redis", {}, redis_says, 2),
        ("mariadb", {}, lambda at, size: len(mariadb(at, f"SELECT REPEAT('x', {size})")), 1),
        ("varnish", {"of": "site", "storage": "64 MiB"}, lambda at, size: sizes(at, f"/{size}")[0][1], 1),
    ],
)
def test_its_link_is_seen(
    linked: Agent, tmp_path: Path, needs: Any, kit: str, options: Any, says: Any, ways: int
) -> None:
    """`says` makes it answer with so many bytes, which cross the link so often."""
    needs("nginx", *all_kits()[kit].programs)
    site = spec("site", "nginx", files={"/10": 10, f"/{SIZE}": SIZE})
    specs = (site, spec("store", kit, link=LINK, **options))
    lab = Lab(specs, linked, tmp_path / "work", tmp_path / "cache", study_dir=tmp_path)
    try:
        facts = lab.up()["store"]
        [at] = facts.endpoints
        assert at.address.startswith("10.203.")
        held = {"link_rate_bytes_per_s": str(RATE), "link_latency_s": str(LATENCY_S)}
        assert settings_of(facts).items() >= held.items()
        says(at, 10)
        began = sampled(facts.model_dump(mode="json"))
        says(at, SIZE)
        ended = sampled(facts.model_dump(mode="json"))
        assert {"link", kit} <= {monitor for monitor, _ in ended}
        sent = ended["link", "link_out_bytes_total"] - began["link", "link_out_bytes_total"]
        assert 1 < sent / SIZE < 1.2, "headers included"
        assert ended["link", "link_rate_bytes"] == RATE
        if ways == 2:
            came = ended["link", "link_in_bytes_total"] - began["link", "link_in_bytes_total"]
            assert 1 < came / SIZE < 1.2
        assert lab.counters()["store"].values["requests"] > 0
        assert lab.alive() == []
    finally:
        lab.down()


def sampled(facts: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return one reading of every monitor of the service."""
    found = {}
    for kind in monitors_for(facts):
        monitor = kind(facts["service"], facts)
        found |= {(kind.name, reading.metric): reading.value for reading in monitor.sample()}
        monitor.close()
    return found
