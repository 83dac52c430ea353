"""`svload load` without a successful request: it ends at once if none is answered, reports the first
error, and never exits with 0."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from tests.servers import speaking

from .world import LONGER_THAN_ANY_WAIT, World

pytestmark = pytest.mark.truth

Serve = Callable[[socket.socket], None]
RESET = struct.pack("ii", 1, 0)


def answering(data: bytes, linger: bool = False) -> Serve:
    """Answer the first bytes of a request with these, and end the connection; `linger`: by a reset."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(data)
        if linger:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    return serve


def nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def elsewhere(scheme: str, port: int) -> Serve:
    """Redirect every request there."""

    def serve(connection: socket.socket) -> None:
        head = f"HTTP/1.1 302 Found\r\nLocation: {scheme}://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
        while connection.recv(4096):
            connection.sendall(head.encode())

    return serve


def busy(connection: socket.socket) -> None:
    while connection.recv(4096):
        connection.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 21\r\n\r\nsesame: \x1b[31mno seats")


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """Yield a URL whose connections are handled in this way until the block ends."""

    def talk(connection: socket.socket) -> None:
        # A bare connection only checks whether a server is there.
        if connection.recv(1, socket.MSG_PEEK):
            serve(connection)

    with speaking(talk) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize(
    ("serve", "error"),
    [
        (answering(b"", linger=True), "read_reset"),
        (answering(b"HTTP/1.1 200 OK\r\nContent-"), "short_head"),
        (nothing, "timeout_first_byte"),
        (answering(b""), "empty_answer"),
        (answering(b"\x15\x03\x03\0\2\2\x46"), "malformed"),  # an alert: this port speaks TLS
    ],
)
def test_a_server_that_never_answers_ends_the_load(world: World, serve: Serve, error: str):
    """It ends by itself, after the timeout of its first request."""
    with serving(serve) as url:
        ended = world.svload("load", url, "-c", "2", "-d", LONGER_THAN_ANY_WAIT, "-t", "0.2s")
    assert ended.returncode == 1, ended.stderr
    assert "completed no response" in ended.stderr.splitlines()[-1]
    assert error in ended.stderr.splitlines()[-1]


def test_https_at_a_plain_port_ends_the_load(world: World):
    with serving(busy) as url:
        ended = world.svload("load", url.replace("http", "https"), "-c", "2", "-d", LONGER_THAN_ANY_WAIT)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert "answered no request: tls_malformed" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(("scheme", "port"), [("http", 1), ("https", 1), ("http", 2)])
def test_a_server_whose_redirects_lead_nowhere_has_answered(world: World, scheme: str, port: int):
    with serving(elsewhere(scheme, port)) as url:
        ended = world.svload("load", url, "-n", "20", "-c", "2", "--follow-redirects", "5")
    assert ended.returncode == 1, ended.stderr
    assert "connect_refused" in ended.stdout
    assert "answered no request" not in ended.stderr


@pytest.mark.smoke
def test_where_nothing_was_ok_the_first_answer_is_shown_and_no_load_advised(world: World):
    with serving(busy) as url:
        plain = world.svload("load", url, "-c", "2", "-d", "0.3s")
        secret = world.svload("load", url, "-c", "2", "-n", "10", "-H", "Authorization: sesame", "--json")
    codes = (plain.returncode, secret.returncode)
    assert codes == (1, 1), "nothing was ok: 1 before 4, whatever it was judged as"
    text = " ".join(plain.stdout.split())
    for shown in (
        "first failure: status, status 503; failures from 0.0",
        "its response began: sesame: ",
        "no seats",
    ):
        assert shown in text
    for hidden in ("\x1b", "--rate", "could generate about"):
        assert hidden not in plain.stdout
    assert "No request succeeded" in plain.stderr
    first = json.loads(secret.stdout)["first_failure"]
    assert first["body"].startswith("…: ")
    assert "sesame" not in secret.stdout


def test_a_full_accept_queue_is_reported_after_the_time_out(world: World):
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # those that fill the queue, and some that wait for it
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        ended = world.svload("load", url, "-t", "0.2s", "-d", LONGER_THAN_ANY_WAIT)
    assert ended.returncode == 3, ended.stderr
    assert "nothing answers at" in ended.stderr
