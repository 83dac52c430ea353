"""Raw dialogues from study to report: checked, counted, judged."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
import trustme

from .world import World, assert_valid, only_run

pytestmark = pytest.mark.truth

STUDY = """\
name: talk
lab: {{server: {{{at}}}}}
requests:
  ping:
    tcp: {scheme}://server
    dialogue:
      - expect: "220 ready\\r\\n"
      - send: "PING ${{vu}}/${{iteration}}\\r\\n"
      - match: "PONG [0-9]+/[0-9]+\\r\\n"
      - send_hex: 51 0d 0a
      - until_close: true
traffic:
  users: {{executor: per-vu-iterations, vus: 3, iterations: 20, request: ping}}
measure: {{duration: 100s, replicates: 1}}
"""


class Pong(StreamRequestHandler):
    """Greets, answers PING, and quits when it is told to."""

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            if line == b"Q\r\n":
                return
            self.wfile.write(line.replace(b"PING", b"PONG"))

    def finish(self) -> None:
        super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            # The client may leave the goodbye unanswered.
            with suppress(OSError):
                self.request.unwrap()


@contextmanager
def answering(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), Pong) as server:
        if tls is not None:
            # Each handshake runs in its own thread, and none ends the server.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def certified(folder: Path, host: str) -> ssl.SSLContext:
    """Write a server's certificate for `host`; its authority's is ca.pem in the folder."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_dialogue_is_held_and_judged(world: World, scheme: str) -> None:
    tls = certified(world.root, "127.0.0.1") if scheme == "tls" else None
    with answering(tls) as port:
        at = f'at: "{scheme}://127.0.0.1:{port}"' + (", ca_file: ca.pem" if tls else "")
        trial = world.run(world.study(STUDY.format(at=at, scheme=scheme)), "--trust")["trials"][0]
    assert_valid(trial, "accounting", "reconciliation", "manipulation")
    assert trial["metrics"]["users.requests"]["value"] == 60
    assert trial["metrics"]["users.success_rate"]["value"] == 1


def test_a_dialogue_with_a_server_of_another_name_fails_by_its_name(world: World) -> None:
    with answering(certified(world.root, "other.test")) as port:
        at = f'at: "tls://127.0.0.1:{port}", ca_file: ca.pem'
        world.run(world.study(STUDY.format(at=at, scheme="tls")), "--trust")
    (summary,) = only_run(world).glob("trials/*/summary.json")
    group = json.loads(summary.read_text())["groups"][0]
    assert (group["ok"], set(group["errors"])) == (0, {"tls_wrong_name"})
