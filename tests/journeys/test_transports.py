"""Ways to reach a server, such as a Unix socket by its path, and to leave it."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import ClassVar

import pytest
from tests.servers import Answering, speaking

from .world import World

pytestmark = pytest.mark.truth


class Answer(Answering):
    """Answer everything with the requested path, and keep it."""

    disable_nagle_algorithm = False  # a Unix socket has none
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.answer(self.path.encode())


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


def test_a_unix_socket_is_loaded_by_its_path_and_only_if_it_is_named(world: World, tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    with Server(str(path), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load = ("load", f"http://unix:{path}:/hello", "--vus", "2", "--iterations", "20")
        refused = world.svload(*load, "--json")
        assert refused.returncode == 2
        assert f"--authorise unix:{path}" in refused.stderr
        assert not Answer.asked
        found = world.json(*load, "--authorise", f"unix:{path}")
        assert (found["ok"], found["failed"]) == (20, 0)
        [row] = world.json("probe", load[1], "--authorise", f"unix:{path}")
        assert (row["error"], row["http_code"], row["size_download"]) == ("", 200, len("/hello"))
        server.shutdown()


STUDY = """\
name: ends
lab: {{server: {{at: "http://127.0.0.1:{port}"}}}}
traffic:
  load: {{executor: per-vu-iterations, vus: 3, iterations: 10, connection: new, close: {close}, source_addresses: [127.0.0.7], request: GET http://server/}}
measure: {{duration: 100s, replicates: 1}}
"""


@pytest.mark.parametrize("close", ["fin", "reset"])
def test_connections_end_as_the_study_says(world: World, close: str) -> None:
    """As the server sees it: the kernel's list of ports in TIME_WAIT is machine-wide, and may be full."""
    seen: Counter[tuple[str, str]] = Counter()

    def talk(connection: socket.socket) -> None:
        address, _ = connection.getpeername()
        how = "fin"
        try:
            for line in connection.makefile("rb"):
                if line == b"\r\n":
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except ConnectionResetError:
            how = "reset"
        seen[address, how] += 1

    with speaking(talk) as port:
        world.run(world.study(STUDY.format(port=port, close=close)))
    assert {key: count for key, count in seen.items() if key[0] != "127.0.0.1"} == {("127.0.0.7", close): 30}
