"""Answers another machine's requests about this one's clocks and the link between them. Imports only the
standard library.

`python -c STARTER PORT SECONDS` with the callers' secret word and this file on standard input (`fleet check`
sends both to machines without svload). It prints {"port": N} once it listens, detaches from its starter, and
ends after SECONDS or on request. Port 0 means a free one. A connection begins with the word and a line feed;
then, in network byte order:

P number(8)      → number(8) received(8) answered(8) of CLOCK_MONOTONIC, received(8) answered(8) of CLOCK_REALTIME, all ns
D milliseconds(4)  → zeros for that time (10 s at most), then the end
U …              → reads all bytes up to the end; then their number(8)
Q                → ends
"""

from __future__ import annotations

import hmac
import json
import os
import signal
import socket
import struct
import sys
import threading
import time

STARTER = (
    "import sys; sys.argv.append(sys.stdin.buffer.readline().decode().strip()); exec(sys.stdin.buffer.read())"
)
"""Reads the word, a line, and then the program: in its arguments or environment others could see the word."""
PING = struct.Struct("!Q")
PONG = struct.Struct("!Qqqqq")
TIME = struct.Struct("!I")
COUNT = struct.Struct("!Q")
CHUNK = 1 << 18
LONGEST_WORD = 128
_MOST_MS = 10_000
_IDLE_S = 15.0


def listen(port: int) -> socket.socket:
    """Listen at all of this machine's addresses, IPv6 included. Raises OSError."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=64, dualstack_ipv6=both)


def serve(listening: socket.socket, word: bytes) -> None:
    """Answer all clients that know the word, in parallel; return on request or when the socket is closed."""
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:  # a client that was gone again
            continue
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, word, listening), daemon=True).start()


def _answer(connection: socket.socket, word: bytes, listening: socket.socket) -> None:
    try:
        with connection:
            connection.settimeout(_IDLE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not hmac.compare_digest(_line(connection), word):
                return
            while asked := connection.recv(1):
                if asked == b"P":
                    _pong(connection)
                elif asked == b"D":
                    return _send(connection, min(TIME.unpack(exactly(connection, TIME.size))[0], _MOST_MS))
                elif asked == b"U":
                    return _count(connection)
                else:
                    if asked == b"Q":
                        listening.shutdown(socket.SHUT_RDWR)
                    return
    except OSError:
        return


def _pong(connection: socket.socket) -> None:
    number = exactly(connection, PING.size)
    received, wall_received = time.monotonic_ns(), time.time_ns()
    wall_answered, answered = time.time_ns(), time.monotonic_ns()
    connection.sendall(PONG.pack(PING.unpack(number)[0], received, answered, wall_received, wall_answered))


def _send(connection: socket.socket, milliseconds: int) -> None:
    zeros, until = bytes(CHUNK), time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        connection.sendall(zeros)


def _count(connection: socket.socket) -> None:
    buffer, total = bytearray(CHUNK), 0
    while got := connection.recv_into(buffer):
        total += got
    connection.sendall(COUNT.pack(total))


def _line(connection: socket.socket) -> bytes:
    found = b""
    while len(found) <= LONGEST_WORD and (one := connection.recv(1)) not in (b"", b"\n"):
        found += one
    return found


def exactly(connection: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes. Raises ConnectionError if the other side ends earlier."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the other side has ended")
        found += part
    return found


def main(words: list[str]) -> int:
    """Listen, print the port, detach from the starter, answer."""
    port, seconds, word = int(words[0]), int(words[1]), words[2].encode()
    try:
        listening = listen(port)
    except OSError as why:
        print(json.dumps({"problem": "fleet-port-taken", "port": port, "reason": why.strerror}))
        return 1
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.alarm(seconds)  # its default action ends the process
    serve(listening, word)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
