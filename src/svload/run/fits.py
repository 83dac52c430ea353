"""Checks whether a plan fits this machine: descriptors, local ports, new ports per second, disk. Pure except
for the sizes of body files: it decides before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from types import MappingProxyType

from svload.analysis.estimate import requests_of
from svload.drive.packing import packed
from svload.drive.places import RESERVE
from svload.drive.share.timeline import timeline
from svload.model.conditions import Machine
from svload.model.errors import Problem
from svload.model.executors import ClosedLoop, FixedWork, OpenLoop
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Request
from svload.model.units import show_duration, show_number, show_size

MOST_RPS_OF_A_CORE = 500_000
"""The most that any client reaches: the kernel's write and read alone take 2 µs of a core. HTTP/2 streams
share those of their connection."""

DISK_SHARE = 0.8
"""The share of the free disk that uploads may use."""

MOST_INTERVALS = 1_000_000
"""The engine's limit for a series."""


def misfits(configs: Iterable[CaseConfig], machine: Machine) -> tuple[Problem, ...]:
    """Return what this machine cannot make (plan-too-large), each problem once, with the first such case."""
    found: dict[str, Problem] = {}
    for config in configs:
        for reason, hint in _of_case(config, machine):
            details: dict[str, object] = {"case": config.case.name, "reason": reason, "hint": hint}
            found.setdefault(reason, Problem("plan-too-large", details))
    return tuple(found.values())


def too_long(configs: Iterable[CaseConfig]) -> tuple[Problem, ...]:
    """Return cases whose trials have more intervals than a series holds (plan-too-large): short measurements
    after long ramps."""
    found = []
    for config in configs:
        times = timeline(config, config.measure.duration_ns)
        waits_ns = max(_waits_ns(group) for group in config.groups)
        if (times.end_ns + waits_ns) // times.interval_ns < MOST_INTERVALS:
            continue
        lasts, each = show_duration((times.end_ns + waits_ns) / 1e9), show_duration(times.interval_ns / 1e9)
        reason = (
            f"ramp, measured time and the wait for last answers may take {lasts}, which is more than "
            f"{MOST_INTERVALS:,} intervals of {each}"
        )
        # Intervals grow with the measured time up to 1 s; from there on only less time helps.
        hint = "Make ramp, measured time and the wait for last answers shorter together."
        if times.interval_ns < 1_000_000_000:
            hint = "Make the ramp shorter, or measure longer: an interval is a 600th of it, at most 1 s."
        details: dict[str, object] = {"case": config.case.name, "reason": reason, "hint": hint}
        found.append(Problem("plan-too-large", details))
    return tuple(found[:1])


def _waits_ns(group: Group) -> int:
    return group.longest_timeout_ns if group.graceful_stop_ns is None else group.graceful_stop_ns


def _of_case(config: CaseConfig, machine: Machine) -> Iterator[tuple[str, str]]:
    held: dict[str, int] = {}
    ports: dict[str, int] = {}
    for group in config.groups:
        sources = max(len(group.source_addresses), 1)
        yield from _too_fast(group, machine)
        yield from _new_ones(group, sources, machine)
        connections = _connections(group) or 0
        for target in group.endpoints:
            held[target] = held.get(target, 0) + connections
            ports[target] = max(ports.get(target, 0), sources * machine.local_ports)
    for parts in packed(config, machine.load_cores):
        yield from _open_files([config.groups[part.group] for part in parts], machine)
    for target, connections in held.items():
        if connections > ports[target]:
            yield (
                f"{target} would get {connections:,} connections at once, but this machine has only "
                f"{ports[target]:,} local ports for them",
                "Widen net.ipv4.ip_local_port_range, use more source addresses, or fewer users.",
            )


def _open_files(groups: Sequence[Group], machine: Machine) -> Iterator[tuple[str, str]]:
    """Report more connections than one process that makes these groups' load can have open."""
    each = sum(
        ceil((_connections(group) or 0) / group.generators) * max(len(group.endpoints), 1) for group in groups
    )
    if each + RESERVE > machine.open_files:
        names = " and ".join(group.name for group in groups)
        yield (
            f"{names} ask{'s' if len(groups) == 1 else ''} a generator for {each:,} connections at once, but "
            f"a process may open only {machine.open_files:,} files",
            f"Raise the limit (ulimit -n {each + RESERVE}), use more generators on more cores, or fewer users.",
        )


def _too_fast(group: Group, machine: Machine) -> Iterator[tuple[str, str]]:
    """Report a rate that no client can reach on this many cores."""
    generators = min(group.generators, machine.load_cores)
    most_rps = generators * MOST_RPS_OF_A_CORE * group.streams
    executor = group.executor
    if isinstance(executor, OpenLoop) and executor.peak_rps > most_rps:
        yield (
            f"{group.name} asks for {show_number(executor.peak_rps)} requests a second, but {generators} "
            f"core{'s' * (generators > 1)} for load can't make more than {show_number(most_rps)}",
            "Reduce the rate, or use more generators on more cores.",
        )


def _new_ones(group: Group, sources: int, machine: Machine) -> Iterator[tuple[str, str]]:
    """Report a rate of new connections that the ports cannot sustain; a closed loop's is not known before."""
    most_rps = sources * machine.local_ports / machine.port_reuse_s
    executor = group.executor
    rests = group.connection == "new" and group.close == "fin"
    if rests and isinstance(executor, OpenLoop) and executor.peak_rps > most_rps:
        yield (
            f"{group.name} would make {show_number(executor.peak_rps)} new connections a second, but the local ports "
            f"allow only {show_number(most_rps)}",
            "Use keep-alive, close: reset or more source addresses, or reduce the rate.",
        )


def _connections(group: Group) -> int | None:
    """Return the most connections that the group holds together; None if only the server limits them."""
    executor = group.executor
    return executor.most_vus if isinstance(executor, ClosedLoop) else executor.max_vus


def written_bytes(config: CaseConfig, copies: Mapping[str, int] = MappingProxyType({})) -> dict[str, float]:
    """Return by service the bytes of a trial's uploads that it keeps. `copies`: how often a service stores
    what it receives; once if not named."""
    whole_s = (config.ramp_ns + config.measure.duration_ns) / 1e9
    total: dict[str, float] = {}
    for group in config.groups:
        mixed = [one for one in group.scenarios if one.weight]
        weights = sum(one.weight for one in mixed) or 1
        shares = [(one.weight / weights, [step.request for step in one.steps]) for one in mixed]
        times = requests_of(group, whole_s) / group.longest_iteration + _begun(group)
        for share, asked in shares or [(1.0, [group.request])]:
            for request in asked:
                each = _uploaded(request) * copies.get(request.host, 1)
                total[request.host] = total.get(request.host, 0.0) + share * times * each
    return total


def _begun(group: Group) -> int:
    """Return the iterations that users start immediately, before any think time."""
    executor = group.executor
    if isinstance(executor, FixedWork) or not isinstance(executor, ClosedLoop):
        return 0
    return executor.most_vus


def _uploaded(request: Request) -> float:
    """Return the bytes of a body that a store keeps: the mean for random bodies."""
    if request.method != "PUT" or request.body is None:
        return 0.0
    if request.body.file is not None:
        file = Path(request.body.file)
        return float(file.stat().st_size) if file.is_file() else 0.0
    return request.body.random.mean_bytes if request.body.random is not None else 0.0


def overfull(
    configs: Iterable[CaseConfig], free_bytes: float, copies: Mapping[str, int] = MappingProxyType({})
) -> tuple[Problem, ...]:
    """Report a plan whose uploads the disk cannot hold (plan-too-large): those of all trials together, since
    stores keep everything, except one that is restarted, and so emptied, before each trial."""
    kept: dict[str, float] = {}
    most: dict[str, float] = {}
    for config in configs:
        restarted = {name for step in config.before_trial for name in step.restart}
        for host, size in written_bytes(config, copies).items():
            of = most if host in restarted else kept
            of[config.case.name] = of.get(config.case.name, 0.0) + size
        kept[config.case.name] = kept.get(config.case.name, 0.0) * config.measure.replicates
    total = sum(kept.values()) + max(most.values(), default=0.0)
    if total <= free_bytes * DISK_SHARE:
        return ()
    reason = f"all trials may upload {show_size(total)}, but the disk has only {show_size(free_bytes)} free"
    hint = "Use fewer or smaller bodies, a think time, or fewer replicates."
    sizes = {name: kept.get(name, 0.0) + most.get(name, 0.0) for name in {**kept, **most}}
    largest = max(sizes, key=lambda name: sizes[name])
    return (Problem("plan-too-large", {"case": largest, "reason": reason, "hint": hint}),)
