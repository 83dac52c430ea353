"""Raw dialogues from study to report: checked, counted, judged."""

from __future__ import annotations

import socket
import ssl
from functools import partial
from pathlib import Path

import pytest
import trustme
from tests.servers import speaking

from .world import World, assert_valid

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


def pong(tls: ssl.SSLContext | None, connection: socket.socket) -> None:
    """Greet, answer PING, and quit when it is told to."""
    if tls is not None:
        connection = tls.wrap_socket(connection, server_side=True)
    connection.sendall(b"220 ready\r\n")
    for line in connection.makefile("rb"):
        if line == b"Q\r\n":
            break
        connection.sendall(line.replace(b"PING", b"PONG"))
    if tls is not None:
        connection.unwrap()
    connection.close()


def certified(folder: Path) -> ssl.SSLContext:
    """Return the context of a server with a certificate; its authority's is ca.pem in the folder."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_dialogue_is_held_and_judged(world: World, scheme: str) -> None:
    tls = certified(world.root) if scheme == "tls" else None
    with speaking(partial(pong, tls)) as port:
        at = f'at: "{scheme}://127.0.0.1:{port}"' + (", ca_file: ca.pem" if tls else "")
        trial = world.run(world.study(STUDY.format(at=at, scheme=scheme)), "--trust")["trials"][0]
    assert_valid(trial, "accounting", "reconciliation", "manipulation")
    assert trial["metrics"]["users.requests"]["value"] == 60
    assert trial["metrics"]["users.success_rate"]["value"] == 1
