"""Ways to reach a server: IPv6, a Unix socket by its path, and the user's own source addresses."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer, ThreadingMixIn, ThreadingTCPServer, UnixStreamServer
from typing import Any
from urllib.request import urlopen

import pytest
from tests.bounds import HANG_S
from tests.servers import Answering, put

from .world import World

pytestmark = pytest.mark.truth


class Answer(Answering):
    """Answer everything with the requested path, and count how clients end their connections, by their
    address; never end one itself."""

    disable_nagle_algorithm = False  # a Unix socket has none

    def do_GET(self) -> None:
        self.answer(self.path.encode())
        self.close_connection = False

    def handle(self) -> None:
        how = "fin"
        try:
            super().handle()
        except ConnectionResetError:
            how = "reset"
        self.server.seen[how, self.client_address[0] if self.client_address else ""] += 1


class UnixServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def serving(server: BaseServer) -> Iterator[Counter[tuple[str, str]]]:
    server.seen = Counter()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.seen
    finally:
        server.shutdown()
        server.server_close()


def test_a_unix_socket_is_loaded_by_its_path_and_only_if_it_is_named(world: World, tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    with serving(UnixServer(str(path), Answer)) as seen:
        load = ("load", f"http://unix:{path}:/hello", "--vus", "2", "--iterations", "20")
        refused = world.svload(*load, "--json")
        assert refused.returncode == 2
        assert f"--authorise unix:{path}" in refused.stderr
        assert not seen
        found = world.json(*load, "--authorise", f"unix:{path}")
        assert (found["ok"], found["failed"]) == (20, 0)
        [row] = world.json("probe", load[1], "--authorise", f"unix:{path}")
        assert (row["error"], row["http_code"], row["size_download"]) == ("", 200, len("/hello"))


def test_an_ipv6_address_is_loaded(world: World, serve_truth: Callable[..., dict[str, Any]]) -> None:
    url = f"http://[::1]:{serve_truth(address='::1')['http_port']}/info"
    assert world.json("load", url, "--vus", "2", "--iterations", "20")["ok"] == 20


STUDY = """\
name: sources
lab: {{server: {{at: "http://127.0.0.1:{port}"}}}}
traffic:
  load:
    executor: per-vu-iterations
    vus: 3
    iterations: 10
    connection: new
    {how}
    request: GET http://server/
measure: {{duration: 100s, replicates: 1}}
"""


@pytest.mark.parametrize(
    ("how", "ended"),
    [
        ("close: fin\n    source_addresses: [127.0.0.7]", {("fin", "127.0.0.7"): 30}),
        ("close: reset\n    source_addresses: [127.0.0.8]", {("reset", "127.0.0.8"): 30}),
        ("source_addresses: [127.0.0.2, 127.0.0.3]", {("fin", "127.0.0.2"): 15, ("fin", "127.0.0.3"): 15}),
    ],
    ids=["fin", "reset", "in turn"],
)
def test_connections_come_and_end_as_the_study_says(
    world: World, how: str, ended: dict[tuple[str, str], int]
) -> None:
    """As the server sees it: the kernel's list of ports in TIME_WAIT is machine-wide, and may be full."""
    server = ThreadingTCPServer(("127.0.0.1", 0), Answer)
    with serving(server) as seen:
        world.run(world.study(STUDY.format(port=server.server_address[1], how=how)))
    assert {key: count for key, count in seen.items() if key[1] != "127.0.0.1"} == ended


UPLOAD = """\
name: uploads
lab: {{server: {{at: "http://127.0.0.1:{port}"}}}}
requests:
  up: {{put: "http://server/v1/a/c/o${{iteration}}", body: {{random: 300 KiB}}, chunked: true, expect_status: 201}}
traffic:
  load: {{executor: per-vu-iterations, vus: 1, iterations: 3, request: up}}
measure: {{duration: 100s, replicates: 1}}
"""


@pytest.mark.smoke
def test_a_chunked_upload_is_stored_whole(world: World, serve_truth: Callable[..., dict[str, Any]]) -> None:
    port = serve_truth()["http_port"]
    container = f"http://127.0.0.1:{port}/v1/a/c"
    put(f"{container}/first")
    world.run(world.study(UPLOAD.format(port=port)), "--trust")
    for number in range(3):
        with urlopen(f"{container}/o{number}", timeout=HANG_S) as stored:
            assert len(stored.read()) == 300 * 1024
