"""Servers that require a client certificate: the hint says so, however they refuse."""

from __future__ import annotations

import socket
import ssl
from contextlib import AbstractContextManager

import pytest
import trustme
from tests.servers import speaking

from svload.drive.probe import probe
from svload.model.request_hints import HINTS

ALERT, CLOSED, EMPTY = "tls_alert", "tls_closed", "empty_answer"
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def refusing(authority: trustme.CA, version: ssl.TLSVersion, alert: bool) -> AbstractContextManager[int]:
    """Serve a port that asks clients for their certificate, and closes with an alert or without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version

    def talk(peer: socket.socket) -> None:
        read, write = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(read, write, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                peer.sendall(write.read())
                read.write(peer.recv(65536))
            except ssl.SSLError:
                break
        if alert:
            peer.sendall(write.read())
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):  # unread data would turn the close into a reset
            pass

    return speaking(talk)


@pytest.mark.parametrize(
    ("version", "alert", "error"),
    [(TLS12, True, ALERT), (TLS13, True, ALERT), (TLS12, False, CLOSED), (TLS13, False, EMPTY)],
)
def test_the_hint_names_the_client_certificate(version: ssl.TLSVersion, alert: bool, error: str) -> None:
    authority = trustme.CA()
    with refusing(authority, version, alert) as port:
        (row,) = probe(f"https://127.0.0.1:{port}/", ca_pem=authority.cert_pem.bytes().decode())
    assert row["error"] == error
    assert "client certificate" in HINTS[error]


def test_errors_of_the_server_certificate_name_no_client_certificate() -> None:
    names = [name for name, hint in HINTS.items() if "client certificate" in hint]
    assert names == [ALERT, CLOSED, EMPTY]
