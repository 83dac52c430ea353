"""memcached, for all kits that use it: its command line, its limits as reported, and a few commands."""

from __future__ import annotations

import os
from typing import Any

from svload.host.machine.bounded import BoundedSocket
from svload.lab.server import Server, path_of
from svload.model.facts import Setting

TIMEOUT_S = 5.0
MOST_BYTES = 1 << 20


def argv(address: str, port: int, connections: int, item_memory_bytes: int, threads: int) -> list[str]:
    """Return the command line, TCP only; root becomes nobody, since memcached reads no files."""
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    limits = {"-c": connections, "-m": _mebibytes(item_memory_bytes), "-t": threads}
    words = [str(word) for pair in limits.items() for word in pair]
    return [path_of("memcached"), *user, "-l", address, "-p", str(port), "-U", "0", *words]


def settings(address: str, port: int, connections: int, item_memory_bytes: int) -> list[Setting]:
    """Return `-c` and `-m` as the running memcached reports them."""
    found = stats(address, port, "settings")
    memory, held = str(item_memory_bytes), found.get("maxbytes")
    why = "memcached counts in MiB, with a minimum of 2" if held not in (None, memory) else ""
    return [
        Setting(name="memcached.connections", asked=str(connections), found=found.get("maxconns")),
        Setting(name="memcached.item_memory_bytes", asked=memory, found=held, why=why),
    ]


def reset(server: Server, port: int) -> dict[str, Any]:
    """Run `flush` as a service's reset. Raises SvloadError reset-failed."""
    try:
        return dict(flush(server.context.address, port))
    except OSError as why:
        raise server.reset_failed("memcached", why) from why


def _mebibytes(size_bytes: int) -> int:
    """Convert to MiB, at least 2: the largest item has 1 MiB, which may be at most half of the memory."""
    return max(2, size_bytes >> 20)


def stats(address: str, port: int, what: str = "") -> dict[str, str]:
    """Return `stats` (or `stats settings`, …) by name. Raises OSError."""
    lines = _ask(address, port, f"stats {what}".strip(), b"END\r\n").splitlines()
    return {
        name: value
        for kind, name, value in (line.split(" ", 2) for line in lines if line.startswith("STAT "))
        if kind
    }


def flush(address: str, port: int) -> dict[str, float]:
    """Invalidate everything; proved by a key that exists before but not after. Raises OSError."""
    _ask(address, port, "set svload-proof 0 60 1\r\n1", b"STORED\r\n")
    _ask(address, port, "flush_all", b"OK\r\n")
    if _ask(address, port, "get svload-proof", b"END\r\n") != "END\r\n":
        raise OSError("memcached still holds a key after flush_all")
    found = stats(address, port)
    return {name: float(found[name]) for name in ("cmd_flush", "curr_connections", "uptime")}


def _ask(address: str, port: int, command: str, end: bytes) -> str:
    with BoundedSocket((address, port), TIMEOUT_S, MOST_BYTES) as line:
        line.sendall(command.encode() + b"\r\n")
        answer = b""
        while not answer.endswith(end):
            piece = line.recv(65536)
            answer += piece
            if not piece or answer.startswith((b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")):
                text = answer[:100].decode(errors="replace").strip()
                raise OSError(f"memcached answered “{text}” to “{command.split()[0]}”")
        return answer.decode()
