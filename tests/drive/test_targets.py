"""No host outside is looked up or connected to unless the user named it; certificates that either side requires."""

from __future__ import annotations

import socket
import ssl
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.servers import speaking

from svload.drive.probe import probe
from svload.drive.share.cut import redirect_tls
from svload.drive.targets import allowed_blocks, is_authorised, parse_url, resolve_target, system_authorities
from svload.model.errors import SvloadError, fail
from svload.model.executors import ConstantVus
from svload.model.facts import Endpoint
from svload.model.request_hints import HINTS
from svload.model.traffic import Group, Request


@pytest.mark.parametrize(
    ("url", "endpoint", "path"),
    [
        ("http://127.0.0.1:8080/a?b=1", "http://127.0.0.1:8080", "/a?b=1"),
        ("localhost", "http://localhost", "/"),
        ("https://[::1]:8443", "https://[::1]:8443", "/"),
        ("http://unix:/run/app.sock", "http://localhost", "/"),
        ("http://unix:/run/app.sock:/a?b=1", "http://localhost", "/a?b=1"),
    ],
)
def test_a_url_is_taken_apart(url: str, endpoint: str, path: str):
    target = parse_url(url)
    assert (target.endpoint, target.path) == (endpoint, path)


V4, V6 = "127.0.0.1", "::1"
HOSTS = ["u:p@localhost", "localhost:99999", "localhost:0", "local\x7fhost", "lo cal", "bücher.example"]


@pytest.mark.parametrize("url", ["ftp://x/", "http://", *(f"http://{host}/" for host in (*HOSTS, "x" * 300))])
def test_a_bad_url_is_one_clear_mistake(url: str):
    with pytest.raises(SvloadError) as caught:
        parse_url(url)
    assert [problem.code for problem in caught.value.problems] == ["url-bad"]


def test_an_unknown_host_is_not_even_looked_up(monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: asked.append(args))
    with pytest.raises(SvloadError) as caught:
        resolve_target(parse_url("http://example.test/"))
    assert caught.value.problems[0].code == "unauthorised-target"
    assert "--authorise example.test" in str(caught.value)
    assert asked == []


def test_loopback_needs_no_permission_and_a_named_host_has_it():
    assert all(map(is_authorised, ("127.0.0.9", "::1", "localhost")))
    assert not any(map(is_authorised, ("10.0.0.1", "localhost.example.test")))
    assert is_authorised("10.0.0.1", ["10.0.0.1"])
    outside = Endpoint(scheme="http", address="10.1.2.3", port=80)
    assert allowed_blocks([outside]) == ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]


@pytest.mark.parametrize(("listening", "address"), [((), V4), ((V4,), V4), ((V6,), V6), ((V6, V4), V4)])
def test_localhost_is_where_its_server_listens(listening: tuple[str, ...], address: str):
    """Many current servers listen at ::1 only."""
    with ExitStack() as servers:
        port = 0
        for one in listening:
            family = socket.AF_INET6 if ":" in one else socket.AF_INET
            server = servers.enter_context(socket.create_server((one, port), family=family))
            port = server.getsockname()[1]
        found = resolve_target(parse_url(f"http://localhost:{port or 9}/"))
    assert (found.address, found.port) == (address, port or 9)


@pytest.mark.parametrize(
    ("name", "address"),
    [("localhost.localdomain", V4), ("ip6-localhost", V6), ("ip6-loopback", V6), ("localhost", V4)],
)
def test_loopback_needs_no_name_server(name: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lying name server would get its address authorised."""

    def lies(host: str, *_words: object, **_more: object) -> list[tuple[object, ...]]:
        if host == name:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 9))]
        return real(host, *_words, **_more)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lies)
    assert resolve_target(parse_url(f"http://{name}:9/")).address == address
    with pytest.raises(SvloadError):
        resolve_target(parse_url(f"http://{name}.example:9/"))


def test_a_socket_is_authorised_by_its_path(tmp_path: Path):
    path = tmp_path / "app.sock"
    target = parse_url(f"http://unix:{path}:/a")
    with pytest.raises(SvloadError, match=f"--authorise unix:{path}"):
        resolve_target(target)
    with pytest.raises(SvloadError, match="there is no such socket"):
        resolve_target(target, [f"unix:{path}"])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        endpoint = resolve_target(target, [f"unix:{path}"])
    assert endpoint.connects_to == f"unix:{path}"
    assert allowed_blocks([endpoint]) == ["127.0.0.0/8", "::1/128", f"unix:{path}"]


LAB = {"ca_pem": "LAB"}


def test_a_system_without_authorities_is_told_an_option_of_every_command(monkeypatch: pytest.MonkeyPatch):
    """Only some commands have --ca as a second name."""
    monkeypatch.setattr("ssl.SSLContext.get_ca_certs", lambda *_, **__: [])
    with pytest.raises(SvloadError, match="--cacert"):
        system_authorities.__wrapped__()


@pytest.mark.parametrize(
    ("follow", "system", "endpoints", "expected"),
    [
        (0, "SYSTEM", {"http://w": {}}, None),  # without redirects no authority is needed
        (1, "SYSTEM", {"http://w": {}, "https://w": LAB, "https://v": LAB}, ("LABSYSTEM", True)),
        (1, "SYSTEM", {"http://w": {"verify": False}, "https://v": {}}, (None, False)),  # nor after one
        (1, "", {"http://w": {}}, None),  # a system without authorities trusts nobody
    ],
)
def test_redirects_trust_the_labs_authorities_and_the_systems(
    follow: int, system: str, endpoints: dict[str, Any], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def authorities() -> str:
        if not system:
            raise fail("lab-failed", reason="none", hint="")
        return system

    monkeypatch.setattr("svload.drive.share.cut.system_authorities", authorities)
    request = Request(name="get", scheme="http", host="w", path=(), follow_redirects=follow)
    group = Group(name="g", executor=ConstantVus(vus=1), request=request)
    address = {"scheme": "http", "address": "127.0.0.1", "port": 1}
    tls = redirect_tls([group], {name: Endpoint(**address, **more) for name, more in endpoints.items()})
    assert (tls and (tls.ca_pem, tls.verify)) == expected


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
    named = {name for name, hint in HINTS.items() if "client certificate" in hint}
    assert named == {ALERT, CLOSED, EMPTY}, "not in errors of the server's certificate"
