"""The servers of the bench, which it starts and ends: private ports, server core; each counts requests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import accepts, certified, speaking

from benches.measure import SERVER_CORE, Failed, pinned
from svload.host.machine.ports import free_ports

SIZES = {"/1k.bin": 1024, "/100k.bin": 102_400}
CIPHERS = "TLS_AES_128_GCM_SHA256"
_UP_S = 10.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_RECORDED = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\nConnection: keep-alive\r\n\r\n" + b"x" * 1024

_NGINX = """
daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid; error_log stderr warn;
worker_rlimit_nofile 16384; {user}
events {{ worker_connections 12000; use epoll; }}
http {{
  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; open_file_cache max=16;
  open_file_cache_valid 1h; keepalive_requests 1000000000; keepalive_timeout 1h;
  default_type application/octet-stream; etag on;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{http} backlog=4096; listen 127.0.0.1:{https} ssl backlog=4096; root {folder}/www;
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {ciphers};
  }}
  server {{ listen 127.0.0.1:{http2} http2 backlog=4096; root {folder}/www; sendfile off; }}
  server {{ listen 127.0.0.1:{status}; location / {{ stub_status; }} }}
}}
"""


@dataclass
class Server:
    """Addresses of a server. `ca` verifies its certificate; `pids` are its processes among our children."""

    http_port: int
    pids: frozenset[int]
    https_port: int = 0
    ca: Path | None = None
    status_port: int = 0
    http2_port: int = 0
    count_file: Path | None = None
    _asked: int = 0

    def requests(self) -> int:
        """Return the requests received since its start, without the status requests."""
        if self.count_file is not None:
            return int.from_bytes(self.count_file.read_bytes(), "little")
        # server accepts handled requests / 7 7 9 …
        words = ask(self.status_port, "GET", "/").split()
        self._asked += 1
        return int(words[words.index(b"requests") + 3]) - self._asked

    def port(self, scheme: str, http2: bool = False) -> int:
        """Return the port for this protocol; HTTP/2 by prior knowledge."""
        return self.http2_port if http2 else self.https_port if scheme == "https" else self.http_port


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[Server]:
    """Run nginx with one worker on the server core, HTTP, TLS 1.3 and HTTP/2. Raise Failed if it is missing
    or does not start.

    HTTP/2 runs without sendfile: nginx then writes an answer's head and body in one call. In two, the second
    waits for the client's delayed acknowledgement of the first (Nagle, 40 ms), so that a connection of one
    stream made 23 requests a second.
    """
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        raise Failed("nginx is not here (root, Debian: make apt)")
    folder = folder.resolve()
    (folder / "www").mkdir(parents=True, exist_ok=True)
    for path, size in SIZES.items():
        (folder / "www" / path[1:]).write_bytes(b"x" * size)
    ca = folder / "ca.pem"
    tls = certified(ca, "127.0.0.1", "localhost")
    (folder / "server.pem").write_text(tls["cert_pem"])
    (folder / "server.key").write_text(tls["key_pem"])
    http_port, https_port, status_port, http2_port = free_ports(4)
    user = "user root;" if os.geteuid() == 0 else ""
    conf = folder / "nginx.conf"
    ports = {"http": http_port, "https": https_port, "status": status_port, "http2": http2_port}
    conf.write_text(_NGINX.format(folder=folder, user=user, ciphers=CIPHERS, **ports))
    command = [program, "-p", str(folder), "-c", str(conf), "-e", "stderr"]
    with running(command, folder / "nginx.out", lambda: all(map(accepts, ports.values()))) as child:
        yield Server(http_port, frozenset({child.pid}), https_port, ca, status_port, http2_port)


@contextlib.contextmanager
def fast_server(program: Path, folder: Path) -> Iterator[Server]:
    """Run the bare C server of fast_server.c on the server core."""
    count_file = folder / "fast_server.count"
    out = folder / "fast_server.out"
    with running([str(program), str(count_file)], out, lambda: b"\n" in out.read_bytes()) as child:
        yield Server(int(out.read_text()), frozenset({child.pid}), count_file=count_file)


@contextlib.contextmanager
def truth(folder: Path) -> Iterator[tuple[Server, int]]:
    """Run the known-truth server with request log; yield it, and its admin port; `/v1/a/c/o` is 1 KiB."""
    config, out = folder / "truth.json", folder / "truth.out"
    config.write_text(json.dumps({"role": "store", "http_port": 0, "admin_port": 0, "log": True}))
    command = [sys.executable, "-m", "svload.truth", "--config", str(config)]
    with running(command, out, lambda: b"\n" in out.read_bytes()) as child:
        ports = json.loads(out.read_text().partition("\n")[0])
        for path, body in (("/v1/a/c", b""), ("/v1/a/c/o", b"x" * 1024)):
            ask(ports["http_port"], "PUT", path, body)
        yield Server(ports["http_port"], frozenset({child.pid})), ports["admin_port"]


def log_stamps(admin_port: int) -> list[int]:
    """Return when the truth server received each GET of its object, CLOCK_MONOTONIC ns; empty the log."""
    stamps, start = [], 0
    while rows := ask(admin_port, "GET", f"/log?from={start}").splitlines():
        start += len(rows)
        stamps += [row[1] for row in map(json.loads, rows) if row[4].endswith("/o") and row[5] == 200]
    ask(admin_port, "POST", "/reset?what=log")
    return stamps


def ask(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    """Send one request to a server of ours. Raise OSError if it answers with an error."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method)
    with _OPENER.open(request, timeout=20) as answer:
        return bytes(answer.read())


@contextlib.contextmanager
def recorded() -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Run a server of 1 KiB answers until the block ends; yield its port, and each request's time of arrival
    (CLOCK_MONOTONIC ns) and head. For sizes of requests and a command's first request, never for load."""
    heads: list[tuple[int, bytes]] = []

    def talk(connection: socket.socket) -> None:
        held = b""
        while data := connection.recv(65536):
            at_ns = time.monotonic_ns()
            *whole, held = (held + data).split(b"\r\n\r\n")
            for head in whole:
                heads.append((at_ns, head + b"\r\n\r\n"))
                connection.sendall(_RECORDED)
                if b"\r\nconnection: close" in head.lower() or b" HTTP/1.0" in head:
                    return

    with speaking(talk) as port:
        yield port, heads


@contextlib.contextmanager
def running(
    command: Sequence[str], out: Path, is_up: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on the server core, from when it is up until the block ends; its output goes to `out`.
    Raise Failed if it does not come up."""
    with out.open("wb") as file:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=pinned(SERVER_CORE)
        )
    try:
        deadline = time.monotonic() + _UP_S
        while not is_up():
            if child.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{out.stem} did not come up: {out.read_text(errors='replace')[-300:].strip()}")
            time.sleep(0.02)
        yield child
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(5)
