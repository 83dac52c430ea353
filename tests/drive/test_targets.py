"""No host outside is looked up or connected to unless the user named it."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from svload.drive.targets import allowed_blocks, is_authorised, parse_url, resolve_target
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint


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
    assert is_authorised("127.0.0.9") and is_authorised("::1") and is_authorised("localhost")
    assert not is_authorised("10.0.0.1") and not is_authorised("localhost.example.test")
    assert is_authorised("10.0.0.1", ["10.0.0.1"])


@pytest.mark.parametrize(
    ("listening", "address"),
    [((), V4), ((V4,), V4), ((V6,), V6), ((V6, V4), V4)],
)
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


def test_blocks_are_loopback_and_exactly_the_named_addresses():
    outside = Endpoint(scheme="http", address="10.1.2.3", port=80)
    assert allowed_blocks([outside]) == ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]
