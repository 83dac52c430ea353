"""`svload load` where nothing is ok: it ends at once where no request is answered, says what
came first, and never exits 0."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from .world import World

pytestmark = pytest.mark.truth

Serve = Callable[[socket.socket], None]
RESET = struct.pack("ii", 1, 0)


def reset(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def half_a_head(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-")


def nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def busy(connection: socket.socket) -> None:
    while connection.recv(4096):
        connection.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 21\r\n\r\nsesame: \x1b[31mno seats")


@contextmanager
def serving(serve: Serve) -> Iterator[int]:
    """A port where each connection is served so, a thread each, until the block ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                serve(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("serve", "error"), [(reset, "read_reset"), (half_a_head, "short_head"), (nothing, "timeout_first_byte")]
)
def test_a_server_that_never_answers_ends_the_load(world: World, serve: Serve, error: str):
    with serving(serve) as port:
        began = time.monotonic()
        ended = world.svload("load", f"http://127.0.0.1:{port}/", "-c", "2", "-d", "60s", "-t", "0.5s")
        lasted_s = time.monotonic() - began
    assert ended.returncode == 1, ended.stderr
    assert lasted_s < 15, "the load asked for a minute"
    assert "gave no request a whole answer" in ended.stderr.splitlines()[-1]
    assert error in ended.stderr.splitlines()[-1]


def test_where_nothing_was_ok_the_first_answer_is_shown_and_no_load_advised(world: World):
    with serving(busy) as port:
        url = f"http://127.0.0.1:{port}/"
        plain = world.svload("load", url, "-c", "2", "-d", "1s")
        secret = world.svload("load", url, "-c", "2", "-n", "10", "-H", "Authorization: sesame", "--json")
    assert plain.returncode in (1, 4)  # 4: a busy machine
    said = " ".join(plain.stdout.split())
    assert "the first failure: status, status 503; failures from 0.0" in said
    assert "its answer began: sesame: " in said
    assert "no seats" in said
    assert "\x1b" not in plain.stdout
    assert "--rate" not in plain.stdout
    assert "can measure up to" not in plain.stdout
    assert "No request succeeded" in plain.stderr
    first = json.loads(secret.stdout)["first_failure"]
    assert first["body"].startswith("…: ")
    assert "sesame" not in secret.stdout


def test_a_full_accept_queue_is_told_within_the_time_out(world: World):
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # those that fill the queue, and some that wait for it
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(listener.getsockname())
        began = time.monotonic()
        ended = world.svload("load", f"http://127.0.0.1:{listener.getsockname()[1]}/", "-t", "1s", "-d", "2s")
        assert time.monotonic() - began < 10, "it was a minute"
    assert ended.returncode == 3, ended.stderr
    assert "nothing answers at" in ended.stderr
