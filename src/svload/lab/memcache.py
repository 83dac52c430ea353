"""The few words of memcached's text protocol that a lab needs."""

from __future__ import annotations

import socket

TIMEOUT_S = 5.0


def stats(address: str, port: int, what: str = "") -> dict[str, str]:
    """`stats` (or `stats settings`, …) by name. Raises OSError."""
    lines = _ask(address, port, f"stats {what}".strip(), b"END\r\n").splitlines()
    return {
        name: value
        for kind, name, value in (line.split(" ", 2) for line in lines if line.startswith("STAT "))
        if kind
    }


def flush(address: str, port: int) -> dict[str, float]:
    """Invalidate everything; proved by a key that was there before and is not after. Raises OSError."""
    _ask(address, port, "set svload-proof 0 60 1\r\n1", b"STORED\r\n")
    _ask(address, port, "flush_all", b"OK\r\n")
    if _ask(address, port, "get svload-proof", b"END\r\n") != "END\r\n":
        raise OSError("memcached still holds a key after flush_all")
    found = stats(address, port)
    return {name: float(found[name]) for name in ("cmd_flush", "curr_connections", "uptime")}


def _ask(address: str, port: int, command: str, end: bytes) -> str:
    with socket.create_connection((address, port), timeout=TIMEOUT_S) as line:
        line.sendall(command.encode() + b"\r\n")
        answer = b""
        while not answer.endswith(end):
            piece = line.recv(65536)
            if not piece or answer.startswith((b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")):
                raise OSError(
                    f"memcached answered “{answer[:100].decode(errors='replace')}” to “{command.split()[0]}”"
                )
            answer += piece
        return answer.decode()
