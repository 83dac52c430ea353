"""Protocols besides HTTP with real servers: sent, checked, and compared with the servers' counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import free_port, running

from .world import World, assert_valid, checks_of

pytestmark = pytest.mark.real

REDIS = """\
name: redis
lab: {{store: {{at: "tcp://127.0.0.1:{port}"}}}}
requests:
  set-and-get:
    tcp: tcp://store
    redis: ["SET k:${{vu}} 'value ${{iteration}}'", "GET k:${{vu}}", [MGET, "k:${{vu}}", none]]
    check: ["body contains value ${{iteration}}", 'body matches ^\\+OK\\r\\n']
    take: {{kept: {{regex: "value ([0-9]+)"}}}}
  again:
    tcp: tcp://store
    redis: ["ECHO ${{kept}}"]
    check: ["body contains ${{iteration}}"]
traffic:
  users: {{executor: per-vu-iterations, vus: 4, iterations: 50, scenario: [set-and-get, again]}}
measure: {{duration: 120s, replicates: 1}}
"""
MEMCACHED = """\
name: memcached
lab: {store: {kit: memcached}}
requests:
  set-and-get:
    tcp: tcp://store
    dialogue:
      - send: "set k${vu} 0 0 5\\r\\nhello\\r\\n"
      - expect: "STORED\\r\\n"
      - send: "get k${vu}\\r\\n"
      - match: "VALUE k[0-9]+ 0 ([0-9]+)\\r\\n"
        take: size
      - read: ${size}
      - expect: "\\r\\nEND\\r\\n"
    check: [size_bytes == 5, sha256 == 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824]
traffic:
  users: {executor: constant-vus, vus: 4, request: set-and-get, think_time: 2ms}
measure: {duration: 0.3s, replicates: 1}
"""

CACHE = """\
name: cache
lab: {store: {kit: memcached}}
requests:
  set-and-get:
    tcp: tcp://store
    memcached:
      - "set k:${vu} 0 60 'value ${iteration}'"
      - "get k:${vu} none"
      - "delete other:${vu}"
    check: ["body == value ${iteration}"]
    take: {kept: {regex: "value ([0-9]+)"}}
  count:
    tcp: tcp://store
    memcached: ["set n:${vu} 0 0 ${kept}", "incr n:${vu} 5", "touch n:${vu} 60", "decr none 1"]
    check: ['body matches ^STORED\\r\\n[0-9]+\\r\\nTOUCHED\\r\\nNOT_FOUND']
traffic:
  users: {executor: per-vu-iterations, vus: 4, iterations: 50, scenario: [set-and-get, count]}
measure: {duration: 120s, replicates: 1}
"""


def judged(world: World, text: str) -> dict[str, Any]:
    """Return the only trial of a study, judged."""
    [trial] = world.run(world.study(text), "--trust")["trials"]
    return dict(trial)


@pytest.fixture
def redis_port(needs: Callable[..., None], tmp_path: Path) -> Iterator[int]:
    needs("redis-server")
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with running(words, port):
        yield port


@pytest.mark.smoke
def test_commands_are_sent_and_their_replies_checked(world: World, redis_port: int) -> None:
    assert_all_ok(judged(world, REDIS.format(port=redis_port)))


def assert_all_ok(trial: dict[str, Any]) -> None:
    """Check that all 400 requests were ok and that the server counted them."""
    metrics = trial["metrics"]
    assert (metrics["users.requests"]["value"], metrics["users.success_rate"]["value"]) == (400, 1)
    assert_valid(trial, "accounting", "reconciliation", "manipulation")


def test_a_command_that_redis_refuses_is_reported_by_plan_or_by_its_error(
    world: World, redis_port: int
) -> None:
    text = REDIS.format(port=redis_port)
    planned = world.svload("plan", world.study(text.replace("ECHO", "SUBSCRIBE")))
    assert planned.returncode == 2
    assert "is not answered by one reply" in planned.stderr
    trial = judged(world, text.replace("ECHO", "NOSUCH"))
    assert trial["metrics"]["users.success_rate"]["value"] == 0.5


@pytest.mark.parametrize(("counts", "grade"), [("", "VALID"), ("    counts_as: 1\n", "REFUSED")])
def test_memcacheds_counters_agree(world: World, needs: Callable[..., None], counts: str, grade: str) -> None:
    """They agree by default; with `counts_as: 1`, less than is asked, they don't."""
    needs("memcached")
    trial = judged(world, MEMCACHED.replace("    check: [size", f"{counts}    check: [size"))
    assert trial["metrics"]["users.success_rate"]["value"] == 1
    reconciled = checks_of(trial)["reconciliation"]
    assert reconciled["grade"] == grade, reconciled
    assert "store requests" in reconciled["sentence"]


@pytest.mark.smoke
def test_memcached_commands_are_held_against_its_counters(world: World, needs: Callable[..., None]) -> None:
    needs("memcached")
    trial = judged(world, CACHE)
    assert_all_ok(trial)
    assert "store requests" in checks_of(trial)["reconciliation"]["sentence"]


def test_a_value_that_is_another_fails_the_request(world: World, needs: Callable[..., None]) -> None:
    needs("memcached")
    trial = judged(world, CACHE.replace('"body == value ${iteration}"', '"body == value of others"'))
    assert trial["metrics"]["users.success_rate"]["value"] == 0
