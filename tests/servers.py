"""Servers started for a test: on a free port, with a bounded wait, ended with the test."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import environ
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.bounds import HANG_S

from svload.host import cache_dir
from svload.host.process.readable import readable


def free_port() -> int:
    """Return a free TCP port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def accepts(port: int) -> bool:
    """Return whether something listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], object], bound_s: float = HANG_S) -> None:
    """Return when it holds; fail the test after the bound."""
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline, f"did not hold within {bound_s} s: {condition}"
        time.sleep(0.01)


def completed(words: Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return it with its output: without input, whatever its exit code,
    unless `how` sets these otherwise."""
    stdin = {} if "input" in how else {"stdin": subprocess.DEVNULL}
    how = {"timeout": HANG_S, "check": False, **stdin, **how}
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **how)


@contextmanager
def child(code: str, *words: object, **how: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run Python code as a child with pipes until the block ends; yield it and the first line it prints."""
    command = [sys.executable, "-c", code, *map(str, words)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def running(command: Sequence[str], port: int, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in the foreground, from when it listens on `port` until the block ends; its output goes to
    `log`."""
    program = shutil.which(command[0], path=environ.get("PATH", "") + ":/usr/sbin") or command[0]
    with open(log or "/dev/null", "wb") as found:
        process = subprocess.Popen([program, *command[1:]], stdout=found, stderr=found)
    with process:
        try:
            wait_until(lambda: accepts(port) or process.poll() is not None)
            assert process.poll() is None, (
                f"{command[0]} ended at once: {log.read_text()[-500:] if log else ''}"
            )
            yield process
        finally:
            process.terminate()
            process.wait(HANG_S)


class Answering(BaseHTTPRequestHandler):
    """Answers on persistent connections, and prints nothing; a subclass defines the answer in `do_GET`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, body: bytes = b"ok", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler] = Answering) -> Iterator[int]:
    """Run a server of this process on a free port of loopback for the duration of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(HANG_S)


@contextmanager
def speaking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server of this process that gives each connection to `talk`, in a thread; yield its port.

    A connection whose other end has gone ends `talk`; those that are left are shut down with the block.
    """
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def hold(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            talk(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(listener.accept()[0])
                threads.append(threading.Thread(target=hold, args=connections[-1:], daemon=True))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(HANG_S)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(HANG_S)


@contextmanager
def truth(file: Path, **config: Any) -> Iterator[dict[str, Any]]:
    """Run a known-truth server with this configuration, written to the file, until the block ends; yield its
    ready line (ports, pid)."""
    file.write_text(json.dumps({"role": "store", "http_port": 0, "admin_port": 0, **config}))
    command = [sys.executable, "-m", "svload.truth", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert readable(process.stdout.fileno(), HANG_S), "no ready line"
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def put(url: str, body: bytes = b"x") -> None:
    """Put an object into a known-truth store, after the container that it is in."""
    for one in (url.rsplit("/", 1)[0], url):
        urlopen(Request(one, body, method="PUT"), timeout=HANG_S).close()


def certified(authority: Path, *names: str) -> dict[str, str]:
    """Return a known-truth server's `tls` for these names; write the authority's certificate to the file."""
    import trustme

    made = trustme.CA()
    made.cert_pem.write_to_path(str(authority))
    issued = made.issue_cert(*names)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return {"cert_pem": chain.decode(), "key_pem": issued.private_key_pem.bytes().decode()}


def program(answers: str = "self.answer()", before: str = "", host: str = "127.0.0.1") -> str:
    """Return a program that serves on the ports in its first argument and prints "ready"; `answers` is the
    body of `do_GET` and `do_PUT`."""
    return f"""\
#!{sys.executable}
from __future__ import annotations
import itertools, json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

{textwrap.dedent(before)}

{inspect.getsource(Answering)}

class Answers(Answering):
    def do_GET(self):
{textwrap.indent(textwrap.dedent(answers).strip(), " " * 8)}

    do_PUT = do_GET

servers = [ThreadingHTTPServer(("{host}", int(port)), Answers) for port in sys.argv[1].split(",")]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
servers[0].serve_forever()
"""


def nginx(folder: Path, port: int, inside: str, events: str = "", workers: int = 1) -> list[str]:
    """Return the command of an nginx with one server on `port`; write its configuration to the folder."""
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; user root; pid {folder}/pid; error_log stderr; worker_processes {workers};\n"
        f"events {{ {events} }}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port}; {inside} }} }}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(config), "-e", "stderr"]


def varnish(home: Path, port: int, behind: int, *more: str) -> list[str]:
    """Return the command of a Varnish on `port`, before a server on the port `behind`."""
    listens = ["-a", f"http=127.0.0.1:{port}", "-T", f"127.0.0.1:{free_port()}", "-b", f"127.0.0.1:{behind}"]
    return ["varnishd", "-F", "-j", "none", "-n", str(home), *listens, *more]


def memcached(port: int, *more: str) -> list[str]:
    """Return the command of a memcached on `port`."""
    return ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port), "-U", "0", *more]


def python_with(requirements: Path) -> Path:
    """Return the interpreter of an environment with what the file lists by hash, kept between runs."""
    folder = cache_dir() / f"test-python-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not (folder / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=HANG_S)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", str(requirements)], check=True, timeout=HANG_S)
        (folder / "made").touch()
    return folder / "bin/python"
