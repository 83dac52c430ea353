"""The lab's links by the service's name: a network namespace for each, and its limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from svload.host.agent.journal import sysctl_path
from svload.host.machine import fabric, linux
from svload.host.process.spawn import refused
from svload.model.messages import MakeLink

_HINT = "Leave link out, or use svload run or svload lab up, as root on a machine with iproute2."


@dataclass(frozen=True)
class _Made:
    number: int
    network: int
    delayed: bool


class Links:
    """The links of one lab. `own_network`: it has a separate network namespace, which links require."""

    def __init__(self, *, own_network: bool) -> None:
        self._own_network, self._opened = own_network, False
        self._by_name: dict[str, _Made] = {}
        self._numbers: dict[str, int] = {}
        self._settings: dict[str, None] = {}

    def open(self) -> dict[str, Any]:
        """Prepare the lab's network for links. Raises SvloadError agent-refused."""
        if not self._own_network:
            raise refused("services cannot be linked: this lab has no network of its own", _HINT)
        if not self._opened:
            try:
                fabric.open_hub()
            except OSError as why:
                raise refused(f"the lab's network cannot carry links: {why}", _HINT) from why
            self._opened = True
        return {"address": fabric.HUB}

    def make(self, order: MakeLink) -> dict[str, Any]:
        """Create a link, or set its limits if it exists. Raises SvloadError agent-refused."""
        self.open()
        made, fresh = self._by_name.get(order.name), order.name not in self._by_name
        if made is not None and made.delayed != (order.limits.latency_ns is not None):
            raise refused(f"the link of {order.name} can't get or lose a delay line while it is up")
        try:
            made = made or self._made(order)
            rates = fabric.hold_rate(made.network, made.number, order.limits.rate_bytes_per_s)
        except OSError as why:
            if fresh:
                self.drop(order.name)
            raise refused(f"{order.name} cannot be linked: {why}", _HINT) from why
        own = linux.machine_pid()
        return {
            "address": fabric.address_of(made.number),
            "outside": fabric.outside_of(made.number),
            "inside": fabric.INSIDE,
            "network": f"/proc/{own}/fd/{made.network}",
            "fabric": f"/proc/{own}/ns/net",
            "rate_bytes_per_s": min(rates, default=None),
        }

    def follow(self, settings: Iterable[str]) -> None:
        """Copy these settings to every link, existing or future. Raises SvloadError agent-refused."""
        self._settings |= dict.fromkeys(settings)
        try:
            for made in self._by_name.values():
                self._take_over(made.network)
        except OSError as why:
            raise refused(f"a link's network does not take a setting of the lab's: {why}") from why

    def _take_over(self, network: int) -> None:
        values = {name: sysctl_path(name).read_text(encoding="utf-8") for name in self._settings}
        with linux.in_network(f"/proc/self/fd/{network}") if values else contextlib.nullcontext():
            for name, value in values.items():
                sysctl_path(name).write_text(value, encoding="utf-8")

    def network(self, name: str) -> str:
        """Return the file of a link's namespace. Raises SvloadError agent-refused."""
        if name not in self._by_name:
            raise refused(f"there is no link “{name}”")
        return f"/proc/self/fd/{self._by_name[name].network}"

    def drop(self, name: str) -> dict[str, Any]:
        """Remove a link; processes that still live in its namespace are disconnected."""
        made = self._by_name.pop(name, None)
        if made is None:
            return {"removed": False}
        fabric.part(made.number)
        os.close(made.network)
        return {"removed": True}

    def _made(self, order: MakeLink) -> _Made:
        """Create a link; the same name always gets the same address."""
        free = (number for number in range(1, fabric.MOST + 1) if number not in self._numbers.values())
        number = self._numbers.setdefault(order.name, self._numbers.get(order.name) or next(free, 0))
        if number == 0:
            raise OSError(f"a lab has {fabric.MOST} links at most")
        delayed = order.limits.latency_ns is not None
        network = fabric.new_network()
        self._by_name[order.name] = made = _Made(number, network, delayed)
        with contextlib.suppress(OSError):
            fabric.part(number)
        fabric.join(network, number, delayed=delayed, congestion=order.limits.congestion)
        self._take_over(network)
        return made
