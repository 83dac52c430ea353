"""A network of several namespaces: a hub, and one for each linked service, connected to it by a pair of
interfaces.

A service's namespace is an open descriptor without a name, so it disappears, with its interfaces, after the
process that holds it and the last one inside: nothing can be left behind. Uses `ip` and `tc`, in namespaces
other than the machine's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

from svload.host.machine import linux

HUB = "10.203.0.1"
"""The hub's address, by which linked services reach the others."""
INSIDE = "lab"
"""The name of a linked service's interface, inside its namespace."""
MOST = 250
_MTU_BYTES = 1500
_QUEUE_PACKETS = 10_000
_LEAST_BURST_BYTES = 16_384
_BURST_S = 0.001
_QUEUE_S = 0.05
"""Packets that wait longer because of the rate are dropped."""
_BOUND_S = 10.0
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def lacking(latency: bool) -> str | None:
    """Return why this machine cannot provide links; None if it can. Tries it in a temporary network."""
    if os.geteuid() != 0:
        return "links need root"
    if missing := [name for name in ("ip", "tc", "unshare") if shutil.which(name, path=_PATH) is None]:
        return f"{missing[0]} is not installed (apt install iproute2)"
    for need, words in _NEEDS.items():
        if (latency or need != "TUN devices") and not _works(words):
            return f"the kernel has no {need}, or a container hides it"
    return None


_NEEDS = {
    "veth": "ip link add one type veth peer name two",
    "tbf": "ip link add one type veth peer name two && tc qdisc add dev one root tbf rate 1mbit burst 16kb "
    "latency 50ms",
    "TUN devices": "ip tuntap add dev one mode tun",
}


@cache
def _works(words: str) -> bool:
    try:
        return _run_plain(("unshare", "--net", "sh", "-c", words)).returncode == 0
    except OSError:
        return False


def address_of(number: int) -> str:
    """Return the address of the service with this link."""
    return f"10.203.{number}.2"


def outside_of(number: int) -> str:
    """Return the hub's interface of this link."""
    return f"link{number}"


def open_hub() -> None:
    """Prepare this network for links: set the hub's address and routing between links. Raises OSError."""
    _run(("ip", "addr", "replace", f"{HUB}/32", "dev", "lo"))
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
        file.write("1")


def new_network() -> int:
    """Create a network with only loopback; return its descriptor. This thread stays. Raises OSError."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux.unshare(linux.CLONE_NEWNET)
        try:
            linux.raise_loopback()
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            with linux.in_network(f"/proc/self/fd/{before}", stay=True):
                pass
    finally:
        os.close(before)


def join(network: int, number: int, *, delayed: bool, congestion: str | None = None) -> None:
    """Give the namespace its interface, and the hub the other end; a process forwards a `delayed` link's
    packets. Connections from and to the namespace use this congestion control at its end. Raises OSError."""
    outside, gateway = outside_of(number), f"10.203.{number}.1"
    if delayed:
        _run(("ip", "tuntap", "add", "dev", outside, "mode", "tun"))
        _run(("ip", "tuntap", "add", "dev", INSIDE, "mode", "tun"), network)
    else:
        peer = f"{outside}p"
        _run(("ip", "link", "add", outside, "type", "veth", "peer", "name", peer))
        _run(("ip", "link", "set", peer, "netns", f"/proc/self/fd/{network}", "name", INSIDE), keep=network)
    for device, address, where in ((outside, gateway, None), (INSIDE, address_of(number), network)):
        size = ("mtu", str(_MTU_BYTES), "txqueuelen", str(_QUEUE_PACKETS))
        _run(("ip", "addr", "add", f"{address}/24", "dev", device), where)
        _run(("ip", "link", "set", device, *size, "up"), where)
    control = ("congctl", congestion) if congestion else ()
    _run(("ip", "route", "add", "default", "via", gateway, *control), network)
    if congestion:
        near = (
            f"10.203.{number}.0/24",
            "dev",
            INSIDE,
            "proto",
            "kernel",
            "scope",
            "link",
            "src",
            address_of(number),
        )
        _run(("ip", "route", "replace", *near, *control), network)


def part(number: int) -> None:
    """Remove both ends of a link; it is no error if it is gone already."""
    with contextlib.suppress(OSError):
        _run(("ip", "link", "del", outside_of(number)))


def hold_rate(network: int, number: int, rate_bytes_per_s: int | None) -> list[int]:
    """Limit both ends to this rate (None: lift); return the kernel's rates. Raises OSError."""
    for device, where in ((outside_of(number), None), (INSIDE, network)):
        if rate_bytes_per_s is not None:
            burst = max(_LEAST_BURST_BYTES, round(rate_bytes_per_s * _BURST_S))
            words = (
                "rate",
                f"{rate_bytes_per_s * 8}bit",
                "burst",
                str(burst),
                "latency",
                f"{_QUEUE_S * 1e3:g}ms",
            )
            _run(("tc", "qdisc", "replace", "dev", device, "root", "tbf", *words), where)
        elif _rates(device, where):
            _run(("tc", "qdisc", "del", "dev", device, "root"), where)
    return [*_rates(outside_of(number), None), *_rates(INSIDE, network)]


def _rates(device: str, network: int | None) -> list[int]:
    qdiscs = json.loads(_run(("tc", "-j", "qdisc", "show", "dev", device), network) or "[]")
    return [int(one["options"]["rate"]) for one in qdiscs if one.get("kind") == "tbf"]


def _run(command: Sequence[str], network: int | None = None, keep: int | None = None) -> str:
    """Run a command and return its output. Raises OSError with its error message."""
    with linux.in_network(f"/proc/self/fd/{network}") if network is not None else contextlib.nullcontext():
        ended = _run_plain(command, () if keep is None else (keep,))
    if ended.returncode != 0:
        raise OSError(f"“{' '.join(command[:6])} …” said: {ended.stderr.strip()[-200:]}")
    return ended.stdout


def _run_plain(command: Sequence[str], keep: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    """Raises OSError if it can't be started or does not end in time."""
    program = shutil.which(command[0], path=_PATH) or command[0]
    try:
        return subprocess.run(
            (program, *command[1:]),
            capture_output=True,
            text=True,
            check=False,
            timeout=_BOUND_S,
            pass_fds=tuple(keep),
            env={**os.environ, "LC_ALL": "C", "PATH": _PATH},
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"“{' '.join(command[:6])} …” did not end within {_BOUND_S:g} s") from None
