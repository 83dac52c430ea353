"""Protocols besides HTTP with real servers: sent, checked, and compared with the servers' counters."""

from __future__ import annotations

from collections.abc import Callable
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
    """Return the only trial of a study: all 400 requests were ok, and the server counted them."""
    [trial] = world.run(world.study(text), "--trust")["trials"]
    metrics = trial["metrics"]
    assert (metrics["users.requests"]["value"], metrics["users.success_rate"]["value"]) == (400, 1)
    assert_valid(trial, "accounting", "reconciliation", "manipulation")
    return dict(trial)


@pytest.mark.smoke
def test_commands_are_sent_and_their_replies_checked(
    world: World, needs: Callable[..., None], tmp_path: Path
) -> None:
    needs("redis-server")
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with running(words, port):
        judged(world, REDIS.format(port=port))


@pytest.mark.smoke
def test_memcached_commands_are_held_against_its_counters(world: World, needs: Callable[..., None]) -> None:
    needs("memcached")
    assert "store requests" in checks_of(judged(world, CACHE))["reconciliation"]["sentence"]
