"""Raw dialogues through the whole river: studied, held, counted, judged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from .world import World, findings, known, only_run

pytestmark = pytest.mark.truth

STUDY = """\
name: talk
lab: {{server: {{at: "tcp://127.0.0.1:{port}"}}}}
requests:
  ping:
    tcp: tcp://server
    dialogue:
      - expect: "220 ready\\r\\n"
      - send: "PING ${{vu}}/${{iteration}}\\r\\n"
      - match: "PONG [0-9]+/[0-9]+\\r\\n"
      - send_hex: 51 0d 0a
      - until_close: true
traffic:
  users: {{executor: per-vu-iterations, vus: 3, iterations: 20, request: ping}}
measure: {{duration: 10s, replicates: 1}}
"""


class Pong(StreamRequestHandler):
    """Greets, answers PING, and goes when it is told to."""

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            if line == b"Q\r\n":
                return
            self.wfile.write(line.replace(b"PING", b"PONG"))


@contextmanager
def answering() -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), Pong) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_a_dialogue_is_held_and_judged(world: World) -> None:
    with answering() as port:
        (world.root / "study.yaml").write_text(STUDY.format(port=port))
        ended = world.svload("run", "study.yaml", "--out", str(world.runs))
    assert ended.returncode in (0, 4), ended.stderr[-1500:]
    trial = findings(only_run(world))["trials"][0]
    checks = {check["check"]: check for check in trial["verdict"]["checks"]}
    for name in ("identities", "little", "reconciliation", "tls-sessions", "connection-reuse"):
        assert checks[name]["grade"] == "VALID", checks[name]
    assert trial["metrics"]["users.requests"]["value"] == 60
    assert trial["metrics"]["users.success_rate"]["value"] == 1
    assert known(trial["metrics"]["users.response.p50"]) != 0


def test_a_dialogue_that_is_none_is_one_clear_mistake(world: World) -> None:
    text = STUDY.format(port=9).replace('expect: "220 ready\\r\\n"', "expects: hello")
    (world.root / "study.yaml").write_text(text)
    ended = world.svload("plan", "study.yaml")
    assert ended.returncode == 2
    assert "expects" in ended.stderr
    assert "expect" in ended.stderr
