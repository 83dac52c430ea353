"""HTTP/2, and HTTP/1.1 beside it, with third-party servers: the engine's counts equal the servers' logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.drive.share_text import MS, share
from tests.servers import free_port, running, wait_until

from svload import _native

pytestmark = pytest.mark.real

Serve = Callable[[Sequence[str], int], None]


@pytest.fixture
def serve(tmp_path: Path, needs: Callable[..., None]) -> Iterator[Serve]:
    """Start a server that stays in the foreground, and wait until it listens."""
    with ExitStack() as started:

        def start(command: Sequence[str], port: int) -> None:
            needs(command[0])
            started.enter_context(running(command, port, tmp_path / "server.log"))

        yield start


@pytest.fixture
def certificate(tmp_path: Path) -> str:
    """Write key.pem and cert.pem for the name `web`; return the authority."""
    authority = trustme.CA()
    issued = authority.issue_cert("web")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return str(authority.cert_pem.bytes(), "ascii")


def load(
    port: int, vus: int, streams: int, requests: int, ca: str | None = None, **group: Any
) -> dict[str, Any]:
    """Run a closed loop; return the group's summary."""
    tls = None if ca is None else {"server_name": "web", "ca_pem": ca}
    endpoint = "https://web" if tls else "http://web"
    request = {"name": "get", "method": "GET", "endpoint": endpoint, "path": [{"text": "/file"}]}
    request |= {"timeout_ns": 20_000 * MS} | group.pop("request", {})
    plain = {
        "http2": {"streams": streams},
        "executor": {"kind": "constant-vus", "vus": vus, "limit": requests},
        "stop_offset_ns": 20_000 * MS,
        "graceful_stop_ns": 20_000 * MS,
        "request": request,
    }
    tables = _native.run_share(json.dumps(share(plain | group, port, endpoint, tls)), {}, lambda text: None)
    summary = json.loads(tables["summary"]["json"][1][0])["groups"][0]
    assert summary["due"] == summary["begun"] == summary["ok"] + summary["failed"], summary
    return dict(summary)


NGINX = """\
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  log_format told '$server_protocol $status $sent_http_content_length $connection';
  access_log {folder}/access.log told;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; client_max_body_size 0;
  {settings}
  server {{
    listen 127.0.0.1:{port} {listen}; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    location / {{ root {folder}; }}
  }}
}}
"""


def nginx(folder: Path, serve: Serve, listen: str, settings: str = "keepalive_requests 1000000;") -> int:
    port = free_port()
    text = NGINX.format(folder=folder, port=port, listen=listen, settings=settings)
    (folder / "nginx.conf").write_text(text)
    (folder / "file").write_bytes(b"x" * 30_000)
    serve(["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)], port)
    return port


def logged(
    folder: Path, requests: int, name: str = "access.log", begins: Sequence[str] = ()
) -> list[list[str]]:
    """Return the lines of the server's log with this prefix, once all are written."""

    def written() -> list[list[str]]:
        lines = [line.split() for line in (folder / name).read_text().splitlines()]
        return [line for line in lines if line[: len(begins)] == [*begins]]

    wait_until(lambda: len(written()) >= requests)
    return written()


@pytest.mark.parametrize(("vus", "streams", "connections"), [(64, 1, 64), (64, 16, 4), (10, 100, 1)])
@pytest.mark.parametrize("listen", ["http2", "ssl http2"])
def test_nginx_logged_what_was_counted(
    tmp_path: Path, serve: Serve, certificate: str, listen: str, vus: int, streams: int, connections: int
) -> None:
    port = nginx(tmp_path, serve, listen)
    found = load(port, vus, streams, 3_000, certificate if "ssl" in listen else None)
    assert (found["ok"], found["status"], found["body_bytes"]) == (3_000, {"200": 3_000}, 3_000 * 30_000)
    assert (found["connections_opened"], found["http2"]["requests"]) == (connections, 3_000)
    lines = logged(tmp_path, 3_000)
    assert Counter(line[0] for line in lines) == {"HTTP/2.0": 3_000}
    assert sum(int(line[2]) for line in lines) == found["body_bytes"]
    assert len({line[3] for line in lines}) == connections


def test_nginx_leaving_early_fails_only_the_rest(tmp_path: Path, serve: Serve, certificate: str) -> None:
    port = nginx(tmp_path, serve, "http2", "keepalive_requests 100;")
    found = load(port, 32, 16, 4_000)
    opened, goaways = found["connections_opened"], found["http2"]["goaways"]
    assert found["ok"] + found["errors"].get("http2_goaway", 0) == 4_000
    assert set(goaways) == {"NO_ERROR"}
    assert 0 <= opened - goaways["NO_ERROR"] <= 2, "the last connections of both lines may end with the load"
    assert found["ok"] <= 100 * opened
    assert len(logged(tmp_path, found["ok"])) == found["ok"]


@pytest.mark.parametrize("tls", [False, True])
def test_nghttpd_echoes_what_it_was_sent(tmp_path: Path, serve: Serve, certificate: str, tls: bool) -> None:
    port = free_port()
    secure = [str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")] if tls else []
    plain = [] if tls else ["--no-tls"]
    serve(["nghttpd", "--echo-upload", "-a", "127.0.0.1", *plain, str(port), *secure], port)
    size = 3_000_000
    sent = {
        "method": "POST",
        "body": {"random": {"bytes": size}},
        "checks": [{"name": "size", "size_bytes": size}],
    }
    found = load(port, 8, 4, 40, certificate if tls else None, request=sent)
    assert (found["ok"], found["body_bytes"], found["connections_opened"]) == (40, 40 * size, 2)
    assert found["bytes_sent"] > 40 * size


# One thread: of two that want to write a log line at once, HAProxy lets one give up and drops its line.
HAPROXY = """\
global
  nbthread 1
  log stdout format raw daemon
defaults
  mode http
  log global
  log-format "%HV %ST %B %cp"
  timeout client 20s
  timeout server 20s
  timeout connect 1s
frontend web
  bind 127.0.0.1:{port} {bind}
  http-request return status 200 content-type text/plain file {folder}/file
"""


def haproxy(folder: Path, serve: Serve, bind: str) -> int:
    port = free_port()
    (folder / "both.pem").write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    (folder / "file").write_bytes(b"z" * 10_000)
    config = HAPROXY.format(folder=folder, port=port, bind=bind.format(folder=folder))
    (folder / "haproxy.cfg").write_text(config)
    serve(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], port)
    return port


@pytest.mark.parametrize(
    ("bind", "http2", "version", "connections"),
    [
        ("", None, "HTTP/1.1", 32),
        ("proto h2", {"streams": 16}, "HTTP/2.0", 2),
        ("ssl crt {folder}/both.pem alpn http/1.1", None, "HTTP/1.1", 32),
        ("ssl crt {folder}/both.pem alpn h2,http/1.1", {"streams": 16}, "HTTP/2.0", 2),
    ],
)
def test_haproxy_logged_what_was_counted(
    tmp_path: Path, serve: Serve, certificate: str, bind: str, http2: Any, version: str, connections: int
) -> None:
    port = haproxy(tmp_path, serve, bind)
    found = load(port, 32, 1, 1_000, certificate if "ssl" in bind else None, http2=http2)
    assert (found["ok"], found["status"], found["body_bytes"]) == (1_000, {"200": 1_000}, 1_000 * 10_000)
    assert found["connections_opened"] == connections
    # The check whether it listens is also logged, but is no request.
    lines = logged(tmp_path, 1_000, "server.log", [version, "200"])
    assert len(lines) == 1_000
    assert len({line[3] for line in lines}) == connections
