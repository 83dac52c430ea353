"""A network namespace for svload whose only neighbour is a second namespace with the outside host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.bounds import HANG_S
from tests.servers import completed

from .world import SVLOAD, World

OUTSIDE = "10.203.9.2"


@dataclass(frozen=True)
class Island:
    """Two namespaces: `here` runs svload, `there` is the outside host."""

    here: str
    there: str

    def run(self, world: World, *args: str) -> subprocess.CompletedProcess[str]:
        return completed(["ip", "netns", "exec", self.here, *SVLOAD, *args], env=world.env, cwd=world.root)

    def segments_received(self) -> int:
        """Return the TCP segments that reached the outside host."""
        return _counted(self.there, "InSegs")

    def segments_sent_again(self) -> int:
        """Return the TCP segments that svload's own network retransmitted."""
        return _counted(self.here, "RetransSegs")

    def lose(self) -> None:
        """Give what svload sends a queue of eight full segments, which drops the rest."""
        shape = ("tbf", "rate", "20mbit", "burst", "3kb", "limit", "12kb")
        _ip("netns", "exec", self.here, "tc", "qdisc", "add", "dev", "v0", "root", *shape)

    @contextlib.contextmanager
    def serving(self, namespace: str, program: str, port: int) -> Iterator[None]:
        """Run a server (`tests.servers.program`) in one of the two namespaces."""
        words = ["ip", "netns", "exec", namespace, sys.executable, "-c", program, str(port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None and server.stdout.readline() == "ready\n"
                yield
            finally:
                server.kill()


@contextlib.contextmanager
def made_island() -> Iterator[Island]:
    """Make the island within a second; it is removed when the block ends."""
    made = Island(f"sv{os.getpid()}a", f"sv{os.getpid()}b")
    with contextlib.ExitStack() as stack:
        for name in (made.here, made.there):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", made.here, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", made.there)
        for name, address in ((made.here, "10.203.9.1/30"), (made.there, f"{OUTSIDE}/30")):
            _ip("-n", name, "addr", "add", address, "dev", "v0")
            _ip("-n", name, "link", "set", "v0", "up")
        yield made


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, timeout=HANG_S, capture_output=True)


def _counted(namespace: str, name: str) -> int:
    """Return a counter of TCP in a namespace."""
    text = completed(["ip", "netns", "exec", namespace, "cat", "/proc/net/snmp"], check=True).stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index(name)])
