"""A receiver of a server's UDP datagrams: sums statistics (statsd) and stores log lines (syslog). One
process, loopback only.

`collector.py ADDRESS STATSD_PORT SYSLOG_PORT LOG_FILE` runs until SIGTERM. A datagram `?` to the statsd port
is answered with compressed JSON (zlib), since a datagram holds less than 64 KiB:
{"sums": {name: value}, "datagrams": n, "dropped": n}. Timings count 1 each, counters their value.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import socket
import sys
import zlib
from pathlib import Path
from types import FrameType

LOG_LIMIT_BYTES = 16 << 20
RECEIVE_BUFFER_BYTES = 8 << 20
_SO_RCVBUFFORCE = 33


class Sums:
    """statsd datagrams summed by name: `name:value|c[|@rate]` adds the value, `name:value|ms` adds 1."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.datagrams = 0

    def add(self, datagram: bytes) -> None:
        """Add a datagram (of one or more lines); what is not statsd is ignored."""
        self.datagrams += 1
        for line in datagram.decode("ascii", errors="replace").splitlines():
            name, _, rest = line.partition(":")
            value, _, kind = rest.partition("|")
            try:
                amount = float(value) if kind[:1] == "c" else 1.0
                if "@" in kind:
                    amount /= float(kind.rpartition("@")[2])
            except (ValueError, ZeroDivisionError):
                continue
            if kind[:1] == "c" or kind[:2] == "ms":
                self.sums[name] = self.sums.get(name, 0.0) + amount


def ask(address: str, port: int, timeout_s: float = 2.0) -> dict[str, object]:
    """Return the sums of the collector on that port. Raises OSError."""
    with _socket(address) as line:
        line.settimeout(timeout_s)
        line.connect((address, port))
        line.send(b"?")
        found = json.loads(zlib.decompress(line.recv(1 << 16)))
        assert isinstance(found, dict)
        return found


def dropped(port: int) -> int:
    """Return how many datagrams the kernel dropped for a full socket buffer (/proc/net/udp, udp6)."""
    tables = (table for name in ("udp", "udp6") if (table := Path("/proc/net", name)).exists())
    for line in (line for table in tables for line in table.read_text().splitlines()[1:]):
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            return int(fields[-1])
    return 0


def serve(address: str, statsd_port: int, syslog_port: int, log: Path) -> None:
    statsd, syslog = _bound(address, statsd_port), _bound(address, syslog_port)
    sums, written = Sums(), 0
    with selectors.DefaultSelector() as waiting, log.open("ab") as file:
        waiting.register(statsd, selectors.EVENT_READ)
        waiting.register(syslog, selectors.EVENT_READ)
        print(json.dumps({"ready": True}), flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is statsd:
                    _drain(statsd, statsd_port, sums)
                    continue
                data = syslog.recv(1 << 16)
                if written < LOG_LIMIT_BYTES:
                    written += file.write(data.rstrip(b"\0\n") + b"\n")
                    file.flush()


def _drain(statsd: socket.socket, port: int, sums: Sums) -> None:
    while True:
        try:
            data, sender = statsd.recvfrom(1 << 16)
        except BlockingIOError:
            return
        if data == b"?":
            answer = {"sums": sums.sums, "datagrams": sums.datagrams, "dropped": dropped(port)}
            with contextlib.suppress(OSError):  # the client is gone
                statsd.sendto(zlib.compress(json.dumps(answer).encode()), sender)
        else:
            sums.add(data)


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def _bound(address: str, port: int) -> socket.socket:
    receiver = _socket(address)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    with contextlib.suppress(OSError):  # without root the buffer is limited by net.core.rmem_max
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    receiver.bind((address, port))
    receiver.setblocking(False)
    return receiver


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
