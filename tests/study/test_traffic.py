"""Requests and groups as the study file defines them, and what can be combined with HTTP/2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model import traffic
from svload.model.study import CaseConfig
from svload.model.traffic import FeederPart, Group, StatusCheck, TakenPart, Text, TextTest
from svload.study.checks import read_check
from svload.study.references import COLUMNS
from svload.study.templates import Names

from .conftest import page_of, refusal

NAMES = Names(("web",), {"thing": COLUMNS, "object": ("digest",)}, ("token",))
Made = Callable[..., Group]


@pytest.fixture
def study(case: Callable[..., CaseConfig]) -> Made:
    return lambda *request, **parts: case(page_of(*request, **parts)).groups[0]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("status == 204", StatusCheck(name="status == 204", status=(204, 204))),
        ("status < 400", StatusCheck(name="status < 400", status=(100, 399))),
        ("status<=299", StatusCheck(name="status<=299", status=(100, 299))),
        ("status >= 200", StatusCheck(name="status >= 200", status=(200, 599))),
        ("status > 199", StatusCheck(name="status > 199", status=(200, 599))),
        ("size_bytes == 10240", traffic.SizeCheck(name="size_bytes == 10240", size_bytes=10240)),
        ("size_bytes == ${thing.size_bytes}", traffic.SizeCheck(name="size_bytes == ${thing.size_bytes}", size_bytes=FeederPart(feeder="thing", column="size_bytes"))),
        ("header.X-Cache present", traffic.HeaderCheck(name="header.X-Cache present", header="X-Cache", test=TextTest(present=True))),
        ("header.ETag == ${object.digest}", traffic.HeaderCheck(name="header.ETag == ${object.digest}", header="ETag", test=TextTest(equals=(FeederPart(feeder="object", column="digest"),)))),
        (r"body matches ^\d+$", traffic.BodyCheck(name=r"body matches ^\d+$", body=TextTest(matches=r"^\d+$"))),
        ("body contains hi ${token}", traffic.BodyCheck(name="body contains hi ${token}", body=TextTest(contains=(Text(text="hi "), TakenPart(taken="token"))))),
        ("md5 == ${object.digest}", traffic.DigestCheck(name="md5 == ${object.digest}", digest="md5", equals=(FeederPart(feeder="object", column="digest"),))),
    ],
)  # fmt: skip
def test_checks(text: str, check: object) -> None:
    assert read_check(text, NAMES) == check


OF_NO_STATUS = ["", "status", "status == ok", "status == 20"]
OF_NO_SIZE = ["size_bytes < 5", "size_bytes == big", "size == 5", "size_bytes == ${vu}"]
OF_NO_TEXT = ["header.X present now", "header.X ==", "body present", "sha256 == abc", "md5 > 1", "sha1 == 00"]


@pytest.mark.parametrize("text", [*OF_NO_STATUS, *OF_NO_SIZE, *OF_NO_TEXT])
def test_no_checks(text: str) -> None:
    assert isinstance(read_check(text, NAMES), str)


@pytest.mark.parametrize(
    ("url", "endpoint", "path"),
    [
        ("http://web", "http://web", "/"),
        ("https://web/a?b=c#d", "https://web", "/a?b=c"),
        ("http://web?b=c", "http://web", "/?b=c"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080", "/x"),
        ("http://[::1]:8080/x", "http://[::1]:8080", "/x"),
        ("http://localhost/x", "http://localhost", "/x"),
        ("http://example.test/x", "http://example.test", "/x"),
        ("http://web/straße?q=ü b", "http://web", "/stra%C3%9Fe?q=%C3%BC%20b"),
        ("http://web/a/../b/./%7e%zz", "http://web", "/b/%7e%zz"),
    ],
)
def test_urls(study: Made, url: str, endpoint: str, path: str) -> None:
    in_line = f'{{executor: constant-vus, vus: 1, request: "GET {url}"}}'
    for group in (study(request=f'{{get: "{url}"}}'), study(group=in_line)):
        assert group.request.endpoint == endpoint
        assert group.request.path == (Text(text=path),)


NO_SERVER = ["web/a", "http://", "http:///a", "http://wbe/a", "http://web:80/"]
SPACES = ["http://a b/", "http://us er@web/", "http://1.2.3 /x"]


@pytest.mark.parametrize("url", [*NO_SERVER, *SPACES])
def test_no_urls(folder: Path, url: str) -> None:
    assert refusal(folder, page_of(f'{{get: "{url}"}}'))


def test_methods_status_and_redirects(study: Made) -> None:
    group = study(request="{head: http://web/, expect_status: [200, 300-304], follow_redirects: 3}")
    assert (group.request.method, group.request.follow_redirects) == ("HEAD", 3)
    assert group.request.expect_status == ((200, 200), (300, 304))
    assert study().request.expect_status == ((200, 399),)


@pytest.mark.parametrize("written", ["0", "-1 KiB", "1.5", "{normal: 3}", "[1 KiB]", "big"])
def test_no_sizes(folder: Path, written: str) -> None:
    assert refusal(folder, page_of(size=written))


def test_source_addresses_are_addresses(folder: Path, study: Made) -> None:
    text = "{{executor: constant-vus, vus: 4, request: page, source_addresses: {}}}"
    written = {"[127.0.0.2, '::1']": ("127.0.0.2", "::1"), "127.0.0.2": ("127.0.0.2",)}
    assert {one: study(group=text.format(one)).source_addresses for one in written} == written
    assert "expected an IP address" in refusal(folder, page_of(group=text.format("[localhost]")))


def test_a_dialogue_is_read_turn_by_turn(study: Made) -> None:
    turns = '[{send: "get ${thing.path}"}, {expect_hex: 0d0a}, {match: "^[a-z]+"}, {read: 12}, {until_close: true}]'
    request = study(f"{{tcp: tcp://web, dialogue: {turns}}}").request
    assert (request.is_raw, request.counts_as) == (True, 1)
    assert (request.method, request.endpoint, request.secure) == ("TCP", "tcp://web", False)
    assert request.dialogue[0].send == (Text(text="get "), FeederPart(feeder="thing", column="path"))
    assert [turn.model_dump(exclude_none=True) for turn in request.dialogue[1:]] == [
        {"expect_hex": "0d0a", "until_close": False},
        {"match": "^[a-z]+", "until_close": False},
        {"read": 12, "until_close": False},
        {"until_close": True},
    ]


def test_a_dialogue_takes_values_and_checks_what_came(study: Made) -> None:
    size = "{send: a}, {match: 'SIZE ([0-9]+)', take: size}, {read: '${size}'}"
    turns = f"[{size}, {{send: 'b ${{size}}'}}, {{read: '${{thing.path}}'}}]"
    checks = "check: ['size_bytes == 5', 'body contains x'], take: {id: {regex: 'id=(.)'}}"
    request = study(f"{{tcp: tcp://web, dialogue: {turns}, {checks}}}").request
    assert [check.name for check in request.checks] == ["size_bytes == 5", "body contains x"]
    assert request.takes == ("size", "id")
    assert (request.dialogue[1].take, request.dialogue[2].read) == ("size", (TakenPart(taken="size"),))
    assert request.dialogue[4].read == (FeederPart(feeder="thing", column="path"),)
    assert request.counts_as == 2
    assert study(f"{{tcp: tcp://web, dialogue: {turns}, counts_as: 1}}").request.counts_as == 1


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        ("{tcp: tcp://web}", "tcp and one of dialogue, redis, memcached belong together"),
        ("{tcp: tcp://web, redis: [PING], dialogue: [{read: 1}]}", "tcp and one of dialogue, redis"),
        ('{tcp: tcp://web, memcached: [""]}', "expected a command, such as get a"),
        ("{get: http://web/, redis: [PING]}", "tcp and one of dialogue, redis"),
        ('{tcp: tcp://web, redis: ["GET \'k"]}', "expected a command"),
        ("{tcp: tcp://web, redis: [PING], counts_as: 2}", "counts_as belongs to a dialogue"),
        ("{tcp: tcp://web, dialogue: [{read: 1, take: n}]}", "take belongs to match"),
        ("{tcp: tcp://web, dialogue: [{read: 1}], check: status == 200}", "only HTTP has a status"),
        ("{tcp: tcp://web, dialogue: [{read: 1}], take: {a: {header: b}}}", "only HTTP has headers"),
        ("{tcp: tcp://web, dialogue: [{send: '${size}'}]}", "size"),
        ("{tcp: tcp://web, dialogue: [{send: a}, {expect: 'x${vu}'}]}", "[1].expect: expected a text"),
        ("{tcp: tcp://web, redis: [{a: b}]}", "redis[0]: expected a command: a text, or a list"),
        ("{tcp: web, dialogue: [{read: 1}]}", "expected an address"),
        ("{tcp: tcp://web, dialogue: [{read: 1, expect: x}]}", "one of send"),
        ("{tcp: tcp://web, dialogue: [{send_hex: f}]}", "pairs of hexadecimal digits"),
        ("{tcp: tcp://web, dialogue: [{until_close: true}, {read: 1}]}", "until_close must be the last"),
        ("{tcp: tcp://web, dialogue: [{read: 1}], headers: {A: b}}", "headers belongs to HTTP"),
    ],
)
def test_what_is_wrong_with_a_dialogue_is_reported(folder: Path, request_text: str, problem: str) -> None:
    assert problem in refusal(folder, page_of(request_text))


@pytest.mark.parametrize(
    ("group", "request_", "found"),
    [
        ("streams: 4", "get: https://web/", "HTTP/2 only"),
        ("http2: yes please", "get: https://web/", "http2: expected true, false or preferred"),
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
def test_what_does_not_go_with_it(folder: Path, group: str, request_: str, found: str) -> None:
    group = f"{{executor: constant-vus, vus: 64, {group}, request: page}}"
    assert found in refusal(folder, page_of(f"{{{request_}}}", group))
