"""The servers of the speed bench, which it starts and ends: private ports, one core; each counts requests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.stalls import ask
from tests.servers import certified, completed, free_port, put, running, speaking
from tests.servers import truth as known_truth

from svload.host.machine.ports import free_ports

SIZES = {"/1k.bin": 1024, "/100k.bin": 102_400}
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
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
  }}
  server {{ listen 127.0.0.1:{http2} http2 backlog=4096; root {folder}/www; sendfile off; }}
  server {{ listen 127.0.0.1:{status}; location / {{ stub_status; }} }}
}}
"""


@dataclass
class Server:
    """Addresses of a server. `ca` verifies its certificate; `pids` are its processes among our children;
    `requests` returns how many it has received since its start."""

    port: int
    pids: frozenset[int]
    requests: Callable[[], int]
    https_port: int = 0
    http2_port: int = 0
    ca: Path | None = None


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[Server]:
    """Run nginx with one worker, HTTP, TLS 1.3 and HTTP/2.

    HTTP/2 runs without sendfile: nginx then writes an answer's head and body in one call. In two, the second
    waits for the client's delayed acknowledgement of the first (Nagle, 40 ms), so that a connection of one
    stream made 23 requests a second.
    """
    folder = folder.resolve()
    (folder / "www").mkdir(parents=True, exist_ok=True)
    for path, size in SIZES.items():
        (folder / "www" / path[1:]).write_bytes(b"x" * size)
    ca = folder / "ca.pem"
    tls = certified(ca, "127.0.0.1", "localhost")
    (folder / "server.pem").write_text(tls["cert_pem"])
    (folder / "server.key").write_text(tls["key_pem"])
    ports = dict(zip(("http", "https", "http2", "status"), free_ports(4), strict=True))
    conf = folder / "nginx.conf"
    conf.write_text(_NGINX.format(folder=folder, user="user root;" if os.geteuid() == 0 else "", **ports))
    asked = 0

    def requests() -> int:
        """Return the requests without those for the status: server accepts handled requests / 7 7 9 …"""
        nonlocal asked
        words = ask(f"http://127.0.0.1:{ports['status']}/").split()
        asked += 1
        return int(words[words.index(b"requests") + 3]) - asked

    command = ["nginx", "-p", str(folder), "-c", str(conf), "-e", "stderr"]
    with running(command, ports["http"], folder / "nginx.out") as child:
        yield Server(ports["http"], frozenset({child.pid}), requests, ports["https"], ports["http2"], ca)


@contextlib.contextmanager
def fast_server(program: Path, folder: Path) -> Iterator[Server]:
    """Run the bare C server of fast_server.c."""
    port, count = free_port(), folder / "fast_server.count"
    with running([str(program), str(port), str(count)], port, folder / "fast_server.out") as child:
        yield Server(port, frozenset({child.pid}), lambda: int.from_bytes(count.read_bytes(), "little"))


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[Server]:
    """Run a Redis server with one value of 64 B; it counts GETs."""
    port = free_port()

    def ask_redis(*words: str) -> str:
        return completed(["redis-cli", "-p", str(port), *words], check=True).stdout

    def gets() -> int:
        calls = re.search(r"cmdstat_get:calls=(\d+)", ask_redis("info", "commandstats"))
        return int(calls[1]) if calls else 0

    options = f"--port {port} --bind 127.0.0.1 --appendonly no --dir {folder}"
    command = ["redis-server", *options.split(), "--save", ""]
    with running(command, port, folder / "redis.out") as child:
        ask_redis("set", "key:__rand_int__", "x" * 64)
        yield Server(port, frozenset({child.pid}), gets)


@contextlib.contextmanager
def truth(folder: Path) -> Iterator[tuple[Server, Callable[[], list[int]]]]:
    """Run the known-truth server with an object of 1 KiB, /v1/a/c/o. Yield it, and a function that returns
    when it received each GET of the object since the last call, CLOCK_MONOTONIC ns."""
    with known_truth(folder / "truth.json", log=True) as ready:
        admin = f"http://127.0.0.1:{ready['admin_port']}"
        put(f"http://127.0.0.1:{ready['http_port']}/v1/a/c/o", b"x" * 1024)

        def stamps() -> list[int]:
            found, start = [], 0
            while rows := ask(f"{admin}/log?from={start}").splitlines():
                start += len(rows)
                found += [row[1] for row in map(json.loads, rows) if row[4].endswith("/o") and row[5] == 200]
            ask(f"{admin}/reset?what=log", "POST")
            return found

        yield Server(ready["http_port"], frozenset({ready["pid"]}), lambda: 0), stamps


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
