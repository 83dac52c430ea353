"""A service's link: a separate network, created before its processes and joined to the lab's, reported in the
facts, and removed after them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svload.host.machine import fabric
from svload.host.machine.delay_line import change_delay, read_line_state, write_line_state
from svload.host.process.interpreter import python
from svload.lab.kit import Host, KitOptions
from svload.lab.server import tail
from svload.model.errors import Problem, fail
from svload.model.facts import LINK_LATENCY, LINK_SPEED, LinkFact, Setting
from svload.model.messages import DELAY_LINE, DropLink, Limits, LinkLimits, MakeLink, OpenLinks, Spawn
from svload.model.parameters import is_network
from svload.model.private import private_folder
from svload.model.study import CaseConfig, ServiceSpec

_READY_BOUND_S = 15.0
_POLL_S = 0.01


def link_of(options: KitOptions) -> LinkLimits | None:
    """Return the limits of the service's link; None if it has no link."""
    link = options.link
    if link is None:
        return None
    return LinkLimits(rate_bytes_per_s=link.rate, latency_ns=link.latency, congestion=link.congestion)


def is_linked(spec: ServiceSpec) -> bool:
    """Return whether the service has a link."""
    return spec.options.get("link") is not None


def needs_own_network(config: CaseConfig) -> bool:
    """Return whether the case's servers need a network of their own: for a link, or for a kernel setting that
    each network has for itself."""
    return any(map(is_network, config.sysctl)) or any(map(is_linked, config.services))


def cannot_be_linked(specs: Iterable[ServiceSpec]) -> str | None:
    """Return why this machine cannot provide the links of these services; None if it can, or without any."""
    linked = [spec for spec in specs if is_linked(spec)]
    if not linked:
        return None
    return fabric.lacking(latency=any("latency" in spec.options["link"] for spec in linked))


@dataclass
class _Made:
    address: str
    limits: LinkLimits
    result: Mapping[str, Any]
    state: Path
    process: Mapping[str, Any] | None


class ServiceLinks:
    """The links of a lab's services. Delay lines run on `cores` and write to `folder`."""

    def __init__(self, host: Host, folder: Path, cores: tuple[int, ...] | None) -> None:
        self._host, self._folder, self._cores = host, folder, cores
        self._made: dict[str, _Made] = {}

    def make(self, name: str, options: KitOptions) -> str | None:
        """Create the service's network; return its address there, None without a link. Raises SvloadError."""
        limits = link_of(options)
        if limits is None:
            return None
        self.drop(name)
        result: Mapping[str, Any] = self._host.prepare([MakeLink(name=name, limits=limits)])[0]
        made = _Made(result["address"], limits, result, self._folder / f"{name}.state", None)
        self._made[name] = made
        if limits.latency_ns is not None:
            self._start_delay(name, made, limits.latency_ns)
        return made.address

    def hub(self) -> str:
        """Return the address by which linked services reach the others. Raises SvloadError agent-refused."""
        return str(self._host.prepare([OpenLinks()])[0]["address"])

    def _start_delay(self, name: str, made: _Made, latency_ns: int) -> None:
        """Delay each direction by half of the latency."""
        private_folder(self._folder)
        write_line_state(made.state, latency_ns // 2)
        child = f"{name}.{DELAY_LINE}"
        result = made.result
        words = ("--inside", result["inside"], "--outside", result["outside"], "--fabric", result["fabric"])
        order = Spawn(
            child=child,
            role="server",
            argv=python("-m", "svload.host.machine.delay_line", *words, "--state", str(made.state)),
            log=str(self._folder / f"{name}.log"),
            limits=Limits(cores=self._cores),
            link=name,
        )
        made.process = self._host.prepare([order])[0]
        deadline = time.monotonic() + _READY_BOUND_S
        while not read_line_state(made.state).started:
            if self._host.exited(child) is not None or time.monotonic() > deadline:
                log = self._folder / f"{name}.log"
                raise fail(
                    "lab-failed",
                    place=name,
                    reason=f"the delay line of {name} did not start",
                    hint=f"See {log}.",
                )
            time.sleep(_POLL_S)

    def change(self, name: str, limits: Mapping[str, float]) -> dict[str, float]:
        """Set limits of a link (LINK_SPEED, LINK_LATENCY); return them as read back. Raises SvloadError."""
        made = self._made.get(name)
        if made is None:
            raise fail("fault-failed", target=name, reason="it has no link of its own")
        if LINK_SPEED in limits:
            self._hold(name, made, int(limits[LINK_SPEED]))
        if LINK_LATENCY in limits:
            self._delay(name, made, round(limits[LINK_LATENCY] * 1e9))
        return _held(made)

    def restore(self, name: str, kinds: Sequence[str]) -> dict[str, float]:
        """Reset limits of these kinds to those of the bring-up, and lift the others. Raises SvloadError."""
        made = self._made.get(name)
        if made is None:
            return {}
        if LINK_SPEED in kinds:
            self._hold(name, made, made.limits.rate_bytes_per_s)
        if LINK_LATENCY in kinds and made.limits.latency_ns is not None:
            self._delay(name, made, made.limits.latency_ns)
        return _held(made)

    def _hold(self, name: str, made: _Made, rate_bytes_per_s: int | None) -> None:
        limits = replace(made.limits, rate_bytes_per_s=rate_bytes_per_s)
        made.result = self._host.prepare([MakeLink(name=name, limits=limits)])[0]

    def _delay(self, name: str, made: _Made, latency_ns: int) -> None:
        if made.process is None:
            raise fail("fault-failed", target=name, reason="its link is made without a latency")
        change_delay(made.state, latency_ns // 2)

    def drop(self, name: str) -> None:
        """Remove the link and its delay line. Raises SvloadError agent-refused."""
        made = self._made.pop(name, None)
        if made is None:
            return
        if made.process is not None:
            self._host.stop([f"{name}.{DELAY_LINE}"], now=True)
        self._host.prepare([DropLink(name=name)])

    def ends(self, name: str) -> list[Problem]:
        """Return link-died if its delay line has ended by itself."""
        made, child = self._made.get(name), f"{name}.{DELAY_LINE}"
        if made is None or made.process is None or (code := self._host.exited(child)) is None:
            return []
        log = self._folder / f"{name}.log"
        return [Problem("link-died", {"service": name, "exit": code, "tail": tail(log), "log": log}, name)]

    def facts(self, name: str) -> tuple[LinkFact, ...]:
        """Return the service's link with its limits; empty if it has none."""
        made = self._made.get(name)
        if made is None:
            return ()
        return (
            LinkFact(
                name=name,
                outside=made.result["outside"],
                network=made.result["network"],
                settings=tuple(_settings(made)),
                delay_line=str(made.state) if made.process is not None else None,
            ),
        )


def _held(made: _Made) -> dict[str, float]:
    """Return the current limits of the link; a missing one is absent."""
    found: dict[str, float] = {}
    if (rate := made.result["rate_bytes_per_s"]) is not None:
        found[LINK_SPEED] = rate
    if made.process is not None:
        found[LINK_LATENCY] = 2 * read_line_state(made.state).delay_ns / 1e9
    return found


def _settings(made: _Made) -> Iterator[Setting]:
    rate, latency_ns = made.limits.rate_bytes_per_s, made.limits.latency_ns
    if rate is not None:
        found = made.result["rate_bytes_per_s"]
        yield Setting(
            name=LINK_SPEED, asked=str(rate), found=None if found is None else str(found), layer="network"
        )
    if latency_ns is not None:
        asked, held = f"{latency_ns / 1e9:g}", f"{2 * read_line_state(made.state).delay_ns / 1e9:g}"
        yield Setting(name=LINK_LATENCY, asked=asked, found=held, layer="network")


def reached_from_links(
    specs: Mapping[str, ServiceSpec], needs: Mapping[str, Sequence[str]]
) -> frozenset[str]:
    """Return the services without a link that a linked one needs: they listen where it can reach them."""
    needed = {other for name, spec in specs.items() if is_linked(spec) for other in needs.get(name, ())}
    return frozenset(name for name in needed if name in specs and not is_linked(specs[name]))
