"""A service's control group: made before its processes, read back as facts, removed after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from svload.host.process import cgroups
from svload.lab.kit import Host, KitOptions
from svload.lab.replicas import service_of
from svload.model.errors import carry_out
from svload.model.facts import BUFFERED, CPUS, DISK_READ, DISK_WRITE, GROUP_SETTINGS, GroupFact, Setting
from svload.model.faults import Fault
from svload.model.messages import DropGroup, GroupLimits, MakeGroup, SetLimits
from svload.model.study import ServiceSpec
from svload.study.mistakes import Mistake, bad_value, unknown_name

REST = "rest"
"""The group of a service's processes outside its limited parts: in version 2 of the kernel's control groups,
a group with processes cannot have child groups."""
MACHINE = "machine"
"""The kit whose services are only groups that other services share."""


def limits_of(options: KitOptions) -> GroupLimits:
    """Return the limits of the service as a whole."""
    disk = options.disk_rate
    return GroupLimits(
        cpus=options.cpus,
        memory_bytes=options.memory,
        pids=options.pids,
        disk_read_bytes_per_s=disk.read if disk else None,
        disk_write_bytes_per_s=disk.write if disk else None,
    )


def is_held(options: KitOptions) -> bool:
    """Return whether the service as a whole is limited, by itself or by the machine that it is within."""
    return bool(limits_of(options).kinds) or options.within is not None


def group_mistakes(specs: Sequence[ServiceSpec], options: Mapping[str, KitOptions]) -> Iterator[Mistake]:
    """Yield a mistake for each limit that could not work. `options` are as accepted by the kits."""
    machines = {spec.name for spec in specs if spec.kit == MACHINE}
    for spec in specs:
        own = options.get(spec.name)
        if own is None:
            continue
        if spec.name in machines and not limits_of(own).kinds:
            reason = "a machine without limits of its own changes nothing"
            yield bad_value(
                ("lab", spec.name), reason, spec.name, "Write its cpus, memory, pids or disk_rate."
            )
        if own.on_death == "finding" and not is_held(own):
            reason = "only the death of a limited service can be a finding"
            hint = (
                "Write its cpus, memory, pids or disk_rate, or within; the end of any other server is a "
                "failure of the lab."
            )
            yield bad_value(("lab", spec.name, "on_death"), reason, "finding", hint)
        if own.within is not None:
            yield from _within_mistakes(spec, own, machines, options)


def cautions(specs: Iterable[ServiceSpec], faults: Iterable[Fault] = ()) -> tuple[str, ...]:
    """Return a sentence for each thing that this machine cannot do for the limits of these services and of
    planned faults: numbers under them are WEAK at best."""
    wanted = dict.fromkeys(spec.name for spec in specs if "write" in (spec.options.get("disk_rate") or ()))
    wanted |= dict.fromkeys(fault.target for fault in faults if DISK_WRITE in fault.limits)
    if not wanted or not cgroups.writes_escape():
        return ()
    return tuple(
        f"{name}: disk_rate write makes every number WEAK at best here: {BUFFERED}." for name in wanted
    )


def _within_mistakes(
    spec: ServiceSpec, own: KitOptions, machines: set[str], options: Mapping[str, KitOptions]
) -> Iterator[Mistake]:
    assert own.within is not None
    if own.within not in machines:
        yield unknown_name(("lab", spec.name, "within"), own.within, "service of the kit machine", machines)
        return
    above = limits_of(options[own.within]).plain() if own.within in options else {}
    mine = limits_of(own).plain()
    for kind in GROUP_SETTINGS:
        if mine[kind] is not None and above.get(kind) is not None and mine[kind] > above[kind]:
            option = _WRITTEN.get(kind, kind)
            yield bad_value(
                ("lab", spec.name, option),
                f"it is within {own.within}, which has less",
                spec.options[option],
                f"Leave it out, or give {own.within} more.",
            )


_WRITTEN = {"memory_bytes": "memory", DISK_READ: "disk_rate", DISK_WRITE: "disk_rate"}
"""Limit → its option, where the names differ."""


class ServiceGroups:
    """The groups of a lab's services, made by the agent. A service with separately limited parts has one
    group for each of them and one for the rest, within its own."""

    def __init__(self, host: Host, open_to: Mapping[str, Sequence[str]] | None = None) -> None:
        """Take `open_to`: service, or part (`backend.object`) → the limits that may be set while it runs."""
        self._host, self._open_to = host, dict(open_to or {})
        self._made: dict[str, dict[str, str]] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, GroupLimits] = {}

    def make(self, name: str, options: KitOptions, folders: Sequence[Path] = ()) -> str | None:
        """Create and return the group of this service; None if nothing limits it. Its files are in `folders`.
        Raises SvloadError agent-refused."""
        service = service_of(name)
        open_to = tuple(self._open_to.get(service, ()))
        parts = tuple(key.partition(".")[2] for key in self._open_to if key.startswith(f"{service}."))
        if not is_held(options) and not open_to and not parts:
            return None
        limits = limits_of(options)
        places = tuple(map(str, folders))
        # Always open to a quota: the CPU group counts everything that the service used, even by children
        # never waited for.
        counted = (*open_to, CPUS) if CPUS not in open_to else open_to
        self._make(
            name, MakeGroup(name=name, limits=limits, within=options.within, open_to=counted, folders=places)
        )
        self._parts[name] = parts  # before they are made, so that `drop` removes those that were
        for part in (*parts, REST) if parts else ():
            kinds = tuple(self._open_to.get(f"{service}.{part}", ()))
            own = _group_of(name, part)
            self._make(
                own, MakeGroup(name=own, limits=GroupLimits(), within=name, open_to=kinds, folders=places)
            )
        return name

    def _make(self, name: str, order: MakeGroup) -> None:
        result: Mapping[str, Any] = self._host.prepare([order])[0]
        self._made[name], self._asked[name] = dict(result["paths"]), order.limits

    def of_parts(self, name: str) -> dict[str, str]:
        """Return each part → the group of its processes; the empty part stands for all others. Empty if all
        are in the service's group."""
        parts = self._parts.get(name, ())
        found = {part: _group_of(name, part) for part in parts}
        return {**found, "": _group_of(name, REST)} if parts else {}

    def drop(self, name: str) -> None:
        """End the remaining processes and remove the group. Raises SvloadError agent-refused."""
        own = [one for one in (*self.of_parts(name).values(), name) if self._made.pop(one, None) is not None]
        self._parts.pop(name, None)
        carry_out(*(partial(self._host.prepare, [DropGroup(name=one)]) for one in own))

    def change(self, name: str, limits: Mapping[str, float], part: str = "") -> dict[str, float]:
        """Set limits of a running service or part; return them as read back. Raises SvloadError."""
        return self._set(_group_of(name, part), limits, ())

    def restore(self, name: str, kinds: Sequence[str], part: str = "") -> dict[str, float]:
        """Reset these limits to those of the bring-up, and lift the others. Raises SvloadError."""
        name = _group_of(name, part)
        asked = self._asked[name].plain()
        held = {kind: asked[kind] for kind in kinds if asked[kind] is not None}
        return self._set(name, held, tuple(kind for kind in kinds if kind not in held))

    def _set(self, name: str, limits: Mapping[str, float], lifted: tuple[str, ...]) -> dict[str, float]:
        whole = {kind: value if kind == CPUS else int(value) for kind, value in limits.items()}
        order = SetLimits(name=name, limits=GroupLimits.read(whole), lifted=lifted)
        found: dict[str, float] = self._host.prepare([order])[0]["found"]
        return found

    def facts(self, name: str, options: KitOptions) -> tuple[GroupFact, ...]:
        """Return the service's own group, then the one that it is within."""
        return tuple(self._fact(one) for one in (name, options.within) if one in self._made)

    def oom_kills(self, name: str) -> int:
        """Return how many of the service's processes were killed for lack of memory since its start."""
        own = [self._made[one] for one in (name, *self.of_parts(name).values()) if one in self._made]
        counted = own[:1] if own and cgroups.UNIFIED in own[0] else own  # version 2 includes the groups below
        return sum(cgroups.oom_kills(paths) or 0 for paths in counted)

    def _fact(self, name: str) -> GroupFact:
        found = cgroups.read_back(self._made[name])
        asked = self._asked[name].plain()
        settings = (
            Setting(name=kind, asked=_shown(asked[kind]), found=_shown(found.get(kind)), layer="group")
            for kind in GROUP_SETTINGS
            if asked[kind] is not None
        )
        return GroupFact(name=name, paths=self._made[name], settings=tuple(settings))


def _group_of(server: str, part: str) -> str:
    return f"{server}.{part}" if part else server


def _shown(value: float | None) -> str | None:
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)
