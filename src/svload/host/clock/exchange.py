"""Requests to an answerer: timestamps for the offset, bytes for the bandwidth. Bounded; raises OSError."""

from __future__ import annotations

import socket
import time
from typing import NamedTuple

from svload.host.clock.answerer import CHUNK, COUNT, PING, PONG, TIME, exactly
from svload.host.clock.offset import Exchange

EXCHANGES = 50
CONNECT_WITHIN_S = 5.0
_ANSWER_WITHIN_S = 20.0
_LINK_MS = 300


class Stamps(NamedTuple):
    """The same exchanges by both kinds of clock: `monotonic` for all loads, `wall` for the time of day."""

    monotonic: list[Exchange]
    wall: list[Exchange]


class Link(NamedTuple):
    """Bytes per second of one TCP stream: from here `to` the machine, and `back`."""

    to_bytes_per_s: float
    back_bytes_per_s: float


def connect(address: str, port: int, word: str) -> socket.socket:
    """Open a connection and send the word."""
    made = socket.create_connection((address, port), timeout=CONNECT_WITHIN_S)
    made.settimeout(_ANSWER_WITHIN_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(word.encode() + b"\n")
    return made


def ping_pong(connection: socket.socket) -> Stamps:
    """Do `EXCHANGES` exchanges, one after another; the first, which wakes both sides, is discarded."""
    found = Stamps([], [])
    for number in range(EXCHANGES + 1):
        question = b"P" + PING.pack(number)
        wall_sent, sent = time.time_ns(), time.monotonic_ns()
        connection.sendall(question)
        answer = exactly(connection, PONG.size)
        back, wall_back = time.monotonic_ns(), time.time_ns()
        echoed, received, answered, wall_received, wall_answered = PONG.unpack(answer)
        if echoed != number:
            raise ConnectionError("an answer to another question came")
        if number:
            found.monotonic.append(Exchange(sent, received, answered, back))
            found.wall.append(Exchange(wall_sent, wall_received, wall_answered, wall_back))
    return found


def measure_link(address: str, port: int, word: str, milliseconds: int = _LINK_MS) -> Link:
    """Measure one stream in each direction, one after the other, about `milliseconds` each."""
    return Link(_up(address, port, word, milliseconds), _down(address, port, word, milliseconds))


def _up(address: str, port: int, word: str, milliseconds: int) -> float:
    zeros = bytes(CHUNK)
    with connect(address, port, word) as stream:
        begun = time.monotonic()
        stream.sendall(b"U")
        while time.monotonic() - begun < milliseconds / 1000:
            stream.sendall(zeros)
        stream.shutdown(socket.SHUT_WR)
        (count,) = COUNT.unpack(exactly(stream, COUNT.size))
        return float(count) / (time.monotonic() - begun)


def _down(address: str, port: int, word: str, milliseconds: int) -> float:
    buffer, total = bytearray(CHUNK), 0
    with connect(address, port, word) as stream:
        begun = time.monotonic()
        stream.sendall(b"D" + TIME.pack(milliseconds))
        while got := stream.recv_into(buffer):
            total += got
        return total / (time.monotonic() - begun)


def tell_to_end(address: str, port: int, word: str) -> None:
    """End the answerer; it is no error if it is gone."""
    try:
        with connect(address, port, word) as stream:
            stream.sendall(b"Q")
            stream.recv(1)
    except OSError:
        return
