"""What HTTP/2 forbids a group. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.bounds import STREAMS
from svload.model.executors import ClosedLoop
from svload.model.traffic import Group, Request
from svload.study.mistakes import Mistake, bad_value
from svload.study.tree import Path

CONNECTION_FIELDS = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
"""RFC 9113 §8.2.2."""


def http2_mistakes(group: Group, path: Path) -> list[Mistake]:
    """What does not go together with the group's `http2` and `streams`, or for lack of it."""
    return list(_of_the_group(group, path) if group.http2 else _without(group, path))


def _without(group: Group, path: Path) -> Iterator[Mistake]:
    if group.streams > 1:
        told = "requests share a connection over HTTP/2 only"
        yield bad_value((*path, "streams"), told, group.streams, "Write http2: true beside it.")


def _of_the_group(group: Group, path: Path) -> Iterator[Mistake]:
    if group.streams > STREAMS.most:
        yield bad_value((*path, "streams"), f"at most {STREAMS.most:,} streams were expected", group.streams)
    if group.connection == "new" and group.streams > 1:
        told = "a connection for each request carries one stream"
        yield bad_value(
            (*path, "streams"), told, group.streams, "Leave it out, or say connection: keep-alive."
        )
    executor = group.executor
    if isinstance(executor, ClosedLoop) and group.generators > group.connections(executor.most_vus):
        told = f"there are only {group.connections(executor.most_vus)} connections to share"
        yield bad_value((*path, "generators"), told, group.generators)
    if group.connection == "shared":
        told = "over HTTP/2 users share connections by streams"
        yield bad_value((*path, "connection"), told, "shared", "Leave it out, and say streams: 16.")
    for request in dict.fromkeys(group.requests):
        yield from _of_a_request(group, request, path)


def _of_a_request(group: Group, request: Request, path: Path) -> Iterator[Mistake]:
    if request.is_raw:
        told = "a dialogue is held on a stream of bytes, which HTTP/2 is not"
        yield bad_value((*path, "http2"), told, group.http2, f"Put {request.name} into a group of its own.")
    elif group.http2 == "preferred" and request.url is None and request.scheme != "https":
        told = "without TLS nothing can choose between HTTP/2 and HTTP/1.1"
        yield bad_value((*path, "http2"), told, "preferred", "Write http2: true, or ask by https.")
    for name, _ in request.headers:
        if name.lower() in CONNECTION_FIELDS:
            told = f"HTTP/2 has no header {name}"
            yield bad_value((*path, "http2"), told, group.http2, f"Leave it out of {request.name}.")
