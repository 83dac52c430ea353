"""HTTP/2 as a group asks for it, and what does not go with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.traffic import Group
from svload.study import load_study, resolve

Made = Callable[..., Group]


@pytest.fixture
def study(folder: Path) -> Made:
    def make(group: str, request: str = "get: https://web/") -> Group:
        (folder / "study.yaml").write_text(
            "name: s\nlab:\n  web: {at: 'https://127.0.0.1:8443'}\n"
            f"requests:\n  page: {{{request}}}\ntraffic:\n  g: {{{group}, request: page}}\nmeasure: {{duration: 1s}}\n"
        )
        lock = load_study(folder)
        return resolve(lock, lock.cases[0]).groups[0]

    return make


CLOSED = "executor: constant-vus, vus: 64"


@pytest.mark.parametrize(
    ("written", "http2", "streams", "connections"),
    [
        ("http2: true", True, 1, 64),
        ("http2: true, streams: 16", True, 16, 4),
        ("http2: true, streams: 100", True, 100, 1),
        ("http2: preferred, streams: 3", "preferred", 3, 22),
        ("http2: false", False, 1, 64),
        ("connection: keep-alive", False, 1, 64),
    ],
)
def test_users_share_connections(
    study: Made, written: str, http2: object, streams: int, connections: int
) -> None:
    group = study(f"{CLOSED}, {written}")
    assert (group.http2, group.streams, group.connections(64)) == (http2, streams, connections)


@pytest.mark.parametrize(
    "request_",
    [
        "get: https://web/, follow_redirects: 3",
        "put: https://web/, body: {random: 1 KiB}, expect_continue: true",
        "put: https://web/, body: {random: 1 KiB}, chunked: true",
        "get: https://web/, check: ['body contains x', 'header.x-a == b']",
    ],
)
@pytest.mark.parametrize("http2", ["true", "preferred"])
def test_a_request_says_what_it_says_over_http1(study: Made, http2: str, request_: str) -> None:
    assert study(f"{CLOSED}, http2: {http2}, streams: 16", request_).streams == 16


@pytest.mark.parametrize(
    ("group", "request_", "told"),
    [
        ("streams: 4", "get: https://web/", "HTTP/2 only"),
        ("http2: yes please", "get: https://web/", "http2"),
        ("http2: 2", "get: https://web/", "http2"),
        ("http2: true, streams: 0", "get: https://web/", "at least 1"),
        ("http2: true, streams: 1001", "get: https://web/", "at most 1,000"),
        ("http2: true, streams: 2, connection: new", "get: https://web/", "carries one stream"),
        ("http2: preferred", "get: http://web/", "without TLS"),
        ("http2: true, streams: 32, generators: 3", "get: https://web/", "only 2 connections"),
        ("http2: true", "tcp: tls://web, dialogue: [until_close: true]", "a stream of bytes"),
        ("http2: true", "get: https://web/, headers: {Connection: close}", "no header Connection"),
    ],
)
def test_what_does_not_go_with_it(study: Made, group: str, request_: str, told: str) -> None:
    with pytest.raises(SvloadError) as wrong:
        study(f"{CLOSED}, {group}", request_)
    assert told in str(wrong.value)
