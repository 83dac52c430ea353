"""Ways to reach a server: IPv6, a Unix socket by its path, and the user's own source addresses."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer, ThreadingMixIn, ThreadingTCPServer, UnixStreamServer
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.bounds import HANG_S
from tests.servers import Answering

from .world import World

pytestmark = pytest.mark.truth


class Answer(Answering):
    """Answer everything with the requested path."""

    disable_nagle_algorithm = False  # a Unix socket has none

    def do_GET(self) -> None:
        self.server.seen[str(self.client_address[0]) if self.client_address else ""] += 1
        self.answer(self.path.encode())


class UnixServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def serving(server: BaseServer) -> Iterator[Counter[str]]:
    server.seen = Counter()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.seen
    finally:
        server.shutdown()
        server.server_close()


def test_a_unix_socket_is_loaded_by_its_path_and_only_if_it_is_named(world: World, tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    with serving(UnixServer(str(path), Answer)) as seen:
        url = f"http://unix:{path}:/hello"
        refused = world.svload("load", url, "--vus", "2", "--iterations", "20", "--json")
        assert refused.returncode == 2
        assert f"--authorise unix:{path}" in refused.stderr
        assert not seen
        ended = world.svload(
            "load", url, "--vus", "2", "--iterations", "20", "--json", "--authorise", f"unix:{path}"
        )
        text = json.loads(ended.stdout)
        assert (text["ok"], text["failed"]) == (20, 0), ended.stderr
        assert sum(seen.values()) == 20
        row = world.json("probe", url, "--authorise", f"unix:{path}")[0]
        assert (row["error"], row["http_code"], row["size_download"]) == ("", 200, len("/hello"))


def test_an_ipv6_address_is_loaded(world: World, serve_truth: Callable[..., dict[str, Any]]) -> None:
    ready = serve_truth(address="::1")
    ended = world.svload(
        "load", f"http://[::1]:{ready['http_port']}/info", "--vus", "2", "--iterations", "20", "--json"
    )
    assert json.loads(ended.stdout)["ok"] == 20, ended.stderr


STUDY = """\
name: sources
lab: {{server: {{at: "http://127.0.0.1:{port}"}}}}
traffic:
  load:
    executor: per-vu-iterations
    vus: 3
    iterations: 10
    connection: new
    source_addresses: [127.0.0.2, 127.0.0.3]
    request: GET http://server/
measure: {{duration: 100s, replicates: 1}}
"""


class Ends(Answer):
    """Count how clients end their connections, by their address; never end one itself."""

    def do_GET(self) -> None:
        super().do_GET()
        self.close_connection = False

    def handle(self) -> None:
        how = "fin"
        try:
            super().handle()
        except ConnectionResetError:
            how = "reset"
        self.server.seen[f"{how} {self.client_address[0]}"] += 1


@pytest.mark.parametrize(("close", "address"), [("fin", "127.0.0.7"), ("reset", "127.0.0.8")])
def test_a_connection_ends_as_the_study_says(world: World, close: str, address: str) -> None:
    """As the server sees it: the kernel's list of ports in TIME_WAIT is machine-wide, and may be full."""
    server = ThreadingTCPServer(("127.0.0.1", 0), Ends)
    with serving(server) as seen:
        study = STUDY.format(port=server.server_address[1]).replace("127.0.0.2, 127.0.0.3", address)
        (world.root / "study.yaml").write_text(
            study.replace("connection: new", f"connection: new\n    close: {close}")
        )
        world.run("study.yaml")
    ended = {name: count for name, count in seen.items() if name.endswith(f" {address}")}
    assert ended == {f"{close} {address}": 30}


def test_connections_leave_from_the_given_addresses_in_turn(world: World) -> None:
    server = ThreadingTCPServer(("127.0.0.1", 0), Answer)
    with serving(server) as seen:
        port = server.server_address[1]
        world.run(world.study(STUDY.format(port=port)))
        assert set(seen) == {"127.0.0.2", "127.0.0.3"}
        assert abs(seen["127.0.0.2"] - seen["127.0.0.3"]) <= 1


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
    urlopen(Request(container, b"", method="PUT"), timeout=HANG_S).close()
    world.run(world.study(UPLOAD.format(port=port)), "--trust")
    for number in range(3):
        with urlopen(f"{container}/o{number}", timeout=HANG_S) as stored:
            assert len(stored.read()) == 300 * 1024
