"""`faults`: what is done to the lab's own servers while load is made, read for one case, and which of it is
impossible. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svload.model.facts import CPUS, DISK_READ, DISK_WRITE, LINK_LATENCY, LINK_SPEED
from svload.model.faults import DISTURBS, ENDS_PROCESSES, Act, Fault, FaultKind, Unit, acts_of, units_of
from svload.model.study import CaseConfig, ServiceSpec
from svload.model.units import show_duration
from svload.study.factors import Kits
from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.schema_faults import FaultPart, LimitsPart
from svload.study.tree import Path


def read_faults(place: int, part: FaultPart) -> Iterator[Fault]:
    """Return an entry of `faults` as one fault for each of its targets."""
    when: dict[str, Any] = {"place": place, "at_ns": part.at, "lasts_ns": part.lasts}
    kinds: tuple[FaultKind, ...] = ("stop", "kill", "start", "pause")
    for kind in kinds:
        for target in getattr(part, kind) or ():
            yield Fault(**when, kind=kind, target=target)
    for target, limits in (part.limit or {}).items():
        yield Fault(**when, kind="limit", target=target, limits=_limits(limits))


def _limits(part: LimitsPart) -> dict[str, float]:
    disk, link = part.disk_rate, part.link
    latency_ns = link.latency if link else None
    named = {
        CPUS: part.cpus,
        "memory_bytes": part.memory,
        "pids": part.pids,
        DISK_READ: disk.read if disk else None,
        DISK_WRITE: disk.write if disk else None,
        LINK_SPEED: link.rate if link else None,
        LINK_LATENCY: None if latency_ns is None else latency_ns / 1e9,
    }
    return {name: value for name, value in named.items() if value is not None}


def fault_mistakes(config: CaseConfig, kits: Kits | None) -> Iterator[Mistake]:
    """Return which of a case's faults are impossible: no such server, too late, nothing to start. `kits`
    None: they are not known here."""
    services = {spec.name: spec for spec in config.services}
    for fault in config.faults:
        yield from _too_late(fault, config.measure.duration_ns)
        yield from _target_mistakes(fault, services, kits)
    yield from _shared_parts(config.faults)
    yield from _out_of_order(config, services)


def _shared_parts(faults: Sequence[Fault]) -> Iterator[Mistake]:
    """Report limited parts whose processes belong to another limited part."""
    limited = [fault for fault in faults if fault.kind == "limit" and "." in fault.target]
    for fault in limited:
        wider = [other.target for other in limited if fault.target.startswith(f"{other.target}-")]
        if wider:
            reason = f"its processes are those of {wider[0]} too, which is limited as well"
            hint = "Limit only one of the two."
            yield bad_value(("faults", fault.place, "limit"), reason, fault.target, hint)


def _too_late(fault: Fault, duration_ns: int) -> Iterator[Mistake]:
    lasts_ns = fault.lasts_ns or 0
    if fault.at_ns >= duration_ns:
        reason = f"nothing is measured at that time: the trial lasts {show_duration(duration_ns / 1e9)}"
        yield bad_value(
            ("faults", fault.place, "at"),
            reason,
            show_duration(fault.at_ns / 1e9),
            "Let it come earlier, or measure longer.",
        )
    elif fault.at_ns + lasts_ns > duration_ns:
        reason = f"it would end after the trial, which lasts {show_duration(duration_ns / 1e9)}"
        hint = "Make it shorter, or leave it out: what lasts is taken back after the trial."
        yield bad_value(("faults", fault.place, "for"), reason, show_duration(lasts_ns / 1e9), hint)


def _target_mistakes(
    fault: Fault, services: Mapping[str, ServiceSpec], kits: Kits | None
) -> Iterator[Mistake]:
    path: Path = ("faults", fault.place, fault.kind)
    head, _, part = fault.target.partition(".")
    servers = {name: spec.servers for name, spec in services.items()}
    if not units_of(fault.target, servers):
        known = {*services, *(server for own in servers.values() for server in own)}
        yield unknown_name(path, head, "service or replica in this case", known)
        return
    spec = services[head.partition("[")[0]]
    options = kits[spec.kit] if kits is not None and spec.kit in kits else None
    if options is None:
        return
    if fault.kind not in options.supported_faults:
        borne = (
            f"it supports only {', '.join(sorted(options.supported_faults))}"
            if options.supported_faults
            else "it is already running, and svload did not start it"
        )
        yield bad_value(
            path, f"{head} can't be asked to {fault.kind}: {borne}", fault.target, "Leave it out."
        )
    elif part and part not in options.parts:
        kind = f"part of {head} (its kit {spec.kit} declares its parts)"
        yield unknown_name(path, part, kind, options.parts)
    else:
        yield from _link_mistakes(fault, spec, path)


def _link_mistakes(fault: Fault, spec: ServiceSpec, path: Path) -> Iterator[Mistake]:
    """Check links: a link is made with the service, and one without a delay line cannot get one later."""
    head, _, part = fault.target.partition(".")
    written = spec.options.get("link")
    if part and fault.limits.keys() & {LINK_SPEED, LINK_LATENCY}:
        yield bad_value(path, "a part has no link of its own", fault.target, f"Limit the link of {head}.")
    elif written is None and fault.limits.keys() & {LINK_SPEED, LINK_LATENCY}:
        hint = f"Give {head} a link under lab, such as link: {{rate: 1 Gbit/s}}."
        yield bad_value(path, f"{head} has no link of its own", fault.target, hint)
    elif written is not None and LINK_LATENCY in fault.limits and "latency" not in written:
        hint = f"Give {head} one under lab, such as link: {{latency: 1 ms}}."
        yield bad_value(path, f"the link of {head} is made without a latency", fault.target, hint)


@dataclass
class _Course:
    """The state of each server as a case's faults follow each other: what they did to it and has not been
    undone."""

    servers: Mapping[str, Sequence[str]]
    held: dict[Unit, Act] = field(default_factory=dict)
    limited: dict[tuple[Unit, str], Act] = field(default_factory=dict)

    def wrong(self, act: Act) -> str:
        """Return why the act is impossible then, or ""; if it is possible, apply it."""
        units = units_of(act.target, self.servers)
        if act.do in ("limit", "restore"):
            return self._limit(act, units)
        mine = [
            unit
            for unit in self.held
            if any(unit[0] == server and part in ("", unit[1]) for server, part in units)
        ]
        if act.do not in DISTURBS:
            wanted = ("pause",) if act.do == "resume" else tuple(ENDS_PROCESSES)
            found = [unit for unit in mine if self.held[unit].do in wanted]
            for unit in found:
                del self.held[unit]
            return "" if found or act.do == "resume" else "nothing has stopped it before"
        whole = [(server, "") for server, _ in units if (server, "") in self.held]
        for unit in (*mine, *whole):
            before = self.held[unit]
            return f"it was already asked to {before.do} at {show_duration(before.at_ns / 1e9)}"
        self.held |= dict.fromkeys(units, act)
        return ""

    def _limit(self, act: Act, units: tuple[Unit, ...]) -> str:
        keys = [(unit, name) for unit in units for name in act.limits]
        if act.do == "restore":
            for key in keys:
                self.limited.pop(key, None)
            return ""
        for key in keys:
            if key in self.limited:
                return f"it is limited already from {show_duration(self.limited[key].at_ns / 1e9)} on"
        self.limited |= dict.fromkeys(keys, act)
        return ""


def _out_of_order(config: CaseConfig, services: Mapping[str, ServiceSpec]) -> Iterator[Mistake]:
    course = _Course({name: spec.servers for name, spec in services.items()})
    for act in acts_of(config.faults):
        if fault := course.wrong(act):
            hint = "Stop or kill it first." if act.do == "start" else "Take back one before the next begins."
            yield bad_value(("faults", act.place), fault, f"{act.do}: {act.target}", hint)
