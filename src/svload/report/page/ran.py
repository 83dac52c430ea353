"""What was run: where, when, with which versions and settings, how placed, how monitored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from svload.analysis.phases import outside_load
from svload.model.plan import Placement
from svload.model.units import show_duration, show_percent, show_size
from svload.report.data.gather import Gathered, seal_hashes
from svload.report.wording.spelling import count_words, instrument_line, list_words, show_time, unique
from svload.report.wording.traffic import describe_load, describe_requests


@dataclass(frozen=True)
class SettingRow:
    """A setting as requested and as read back; `cases` gives the cases, if not all."""

    service: str
    name: str
    asked: str
    found: str
    differs: bool
    cases: str


@dataclass(frozen=True)
class Ran:
    """The facts, as pairs and tables of text."""

    facts: tuple[tuple[str, str], ...]
    services: tuple[tuple[str, str, str, str], ...]
    settings: tuple[SettingRow, ...]
    traffic: tuple[tuple[str, str, str, str, str], ...]
    phases: tuple[tuple[str, str, str], ...]
    inputs: tuple[tuple[str, str, str], ...]
    seals: tuple[tuple[str, str, str, str, str, str], ...]
    attempts: tuple[tuple[str, str, str], ...]
    plants: tuple[tuple[str, str], ...]


def what_was_run(gathered: Gathered) -> Ran:
    """Return everything that a reader needs to repeat the run."""
    return Ran(
        facts=tuple(_facts(gathered)),
        services=tuple(_services(gathered)),
        settings=tuple(_settings(gathered)),
        traffic=tuple(_traffic(gathered)),
        phases=tuple(_phases(gathered.findings.phases_s)),
        inputs=tuple((name, show_size(size), digest) for name, size, digest in gathered.inputs),
        seals=tuple(_seals(gathered)),
        attempts=tuple(
            (str(one.get("attempt", "")), str(one.get("why", "")), str(one.get("text", "")))
            for one in gathered.findings.attempts
        ),
        plants=tuple(gathered.lock.plants.items()),
    )


def card(gathered: Gathered) -> str:
    """Return the run in one sentence: when, how much, which servers, svload, seed and study."""
    lock, findings = gathered.lock, gathered.findings
    when = dict(_facts(gathered)).get("when", "")
    servers = unique(
        f"{name} ({kit} {version})".replace(" )", ")") for name, kit, version, _ in _services(gathered)
    )
    same_host = gathered.placement is not None and is_same_host(gathered.placement)
    parts = [
        f"{count_words(findings.sealed_trials, 'trial')} of {_how_long(gathered)}",
        when,
        "load and servers on one machine" if same_host else "",
        f"servers: {list_words(servers)}" if servers else "",
        f"svload {lock.svload_version}",
        f"seed {lock.seed}",
        f"study {lock.study_sha256[:12]}",
    ]
    return "; ".join(filter(None, parts)) + "."


def _how_long(gathered: Gathered) -> str:
    """Return `60 s`, or the range from the shortest trial to the longest. Turns may be longer in all than the
    study's duration."""
    turns = [one.summary.turns.turns_ns for one in gathered.digests.values() if one.summary.turns]
    lasts = sorted(
        {sum(end - begin for begin, end in one) for one in turns}
        or {config.measure.duration_ns for config in gathered.configs.values()}
    )
    ends = lasts[:1] + lasts[1:][-1:] or [gathered.lock.measure.duration_ns]
    return " to ".join(show_duration(one / 1e9) for one in ends)


def _facts(gathered: Gathered) -> Iterator[tuple[str, str]]:
    lock, findings = gathered.lock, gathered.findings
    yield "study", f"{lock.name}" + (f", profile {lock.profile}" if lock.profile else "")
    yield "run", gathered.run.name
    walls = [event.wall for event in gathered.events] or [
        one.started_wall for one in gathered.digests.values()
    ]
    if walls:
        yield "when", f"{show_time(min(walls))} to {show_time(max(walls))}"
    yield from ((f"machine: {name}", value) for name, value in findings.environment.items())
    yield "instrument certificate", instrument_line(findings.instrument)
    yield from _placement(gathered)
    yield (
        "trials",
        (
            f"{findings.sealed_trials} of {findings.planned_trials} sealed, "
            f"{count_words(len(findings.attempts), 'attempt')} that did not count; "
            f"{count_words(lock.measure.replicates, 'replicate')} of {_how_long(gathered)}, "
            f"{lock.measure.order.replace('-', ' ')}"
        ),
    )
    plots = len({trial.whole_plot for trial in gathered.plan.values()})
    changes = [
        f"{factor.name} ({factor.change})"
        for factor in lock.factors
        if factor.change in ("restart", "rebuild")
    ]
    if changes:
        yield (
            "split plot",
            f"{count_words(plots, 'bring-up')}: {list_words(changes)} cannot be changed while servers run",
        )
    yield "seed", str(lock.seed)
    yield "svload", lock.svload_version
    yield "study's SHA-256", lock.study_sha256
    yield "analysis", f"version {findings.analysis_version}; {findings.floor}"
    conditions = [one.lab.conditions for one in gathered.digests.values()]
    kept = {one.awake for one in conditions if one is not None and one.awake is not None}
    if kept:
        yield "CPUs", _sleep(kept)
    costs = [one.monitors_cpu for one in gathered.digests.values() if one.monitors_cpu is not None]
    if costs:
        yield (
            "cost of the monitors",
            f"{show_percent(sum(costs) / len(costs), 2)} of one core on average, {show_percent(max(costs), 2)} in the "
            f"worst trial",
        )
    if lock.authorised:
        yield "authorised targets", ", ".join(lock.authorised)


def _sleep(kept: set[bool]) -> str:
    """Return whether CPUs could sleep between requests, in all trials or in some."""
    if len(kept) > 1:
        return "kept awake while load was made in some trials, and left to sleep between requests in others"
    return (
        "kept awake while load was made (no sleep states)"
        if kept.pop()
        else "left to sleep between requests as the machine is set"
    )


def _placement(gathered: Gathered) -> Iterator[tuple[str, str]]:
    placement = gathered.placement
    if placement is None:
        yield "placement", "unknown"
        return
    for machine, shares in placement.machines.items():
        site = f" ({placement.sites[machine]})" if machine in placement.sites else ""
        yield f"shares on {machine}{site}", list_words(list(shares), 12)
    yield from _clocks(gathered)
    load, servers = (
        ", ".join(map(str, cores)) or "any" for cores in (placement.load_cores, placement.server_cores)
    )
    pinned = f"load on core {load}, servers on core {servers}" if placement.pinned else "not pinned"
    same = is_same_host(placement)
    yield (
        "cores",
        pinned
        + (
            "; SAME HOST: load and servers share one machine, so no absolute capacity is claimed"
            if same
            else ""
        ),
    )


def is_same_host(placement: Placement) -> bool:
    """Return whether load and servers share one machine."""
    return len(placement.machines) <= 1 and not placement.apart


def _clocks(gathered: Gathered) -> Iterator[tuple[str, str]]:
    """Yield how well the clock of each machine that made load was known, in the worst trial."""
    worst: dict[str, float] = {}
    for digest in gathered.digests.values():
        for clock in digest.lab.conditions.clocks if digest.lab.conditions else ():
            worst[clock.machine] = max(worst.get(clock.machine, 0.0), clock.bound_ns / 1e9)
    for machine, bound_s in worst.items():
        yield f"clock of {machine}", f"known to ± {show_duration(bound_s)} in every trial"


def _services(gathered: Gathered) -> Iterator[tuple[str, str, str, str]]:
    seen: dict[tuple[str, str, str], set[str]] = {}
    for digest in gathered.digests.values():
        for facts in digest.lab.services:
            endpoints = seen.setdefault((facts.service, facts.kit, facts.version), set())
            where = f" on {facts.machine}" if facts.machine else ""
            endpoints |= {
                end.scheme + (f" via {end.via}" if end.via else "") + where for end in facts.endpoints
            }
    for (service, kit, version), endpoints in seen.items():
        yield service, kit, version, ", ".join(sorted(endpoints))


_OF_THE_KERNEL = {"network": "the lab's network", "machine": "the machine"}
"""The owner of a kernel setting."""


def _settings(gathered: Gathered) -> Iterator[SettingRow]:
    seen: dict[tuple[str, str], dict[tuple[str | None, str | None, str], list[str]]] = {}
    for digest in gathered.digests.values():
        owned = [(facts.service, setting) for facts in digest.lab.services for setting in facts.settings]
        owned += [(_OF_THE_KERNEL[setting.layer], setting) for setting in digest.lab.settings]
        for owner, setting in owned:
            found = seen.setdefault((owner, setting.name), {})
            found.setdefault((setting.asked, setting.found, setting.why), []).append(digest.case)
    for (owner, name), values in seen.items():
        for (asked, found_value, why), cases in values.items():
            names = list(dict.fromkeys(cases))
            shown = "cannot be read back" if found_value is None else found_value
            differs = asked is not None and found_value is not None and asked.strip() != found_value.strip()
            yield SettingRow(
                service=owner,
                name=name,
                asked="not asked" if asked is None else asked,
                found=f"{shown}: {why}" if why else shown,
                differs=differs or bool(why),
                cases="everywhere" if len(values) == 1 else list_words(names),
            )


def _traffic(gathered: Gathered) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (group, load model, load, request, cases) for each different load."""
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for name, config in gathered.configs.items():
        for group in config.groups:
            request = describe_requests(group)
            start = f", starts when {group.start_when} has ramped" if group.start_when else ""
            seen.setdefault(
                (group.name, group.executor.model, describe_load(group) + start, request), []
            ).append(name)
    for (group_name, model, load, request), cases in seen.items():
        yield (
            group_name,
            model,
            load,
            request,
            "all cases" if len(cases) == len(gathered.configs) else list_words(cases),
        )


def _phases(phases_s: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    total = phases_s.get("total", 0.0)
    for name, seconds in phases_s.items():
        share = f"{100 * seconds / total:.0f} %" if total > 0 else ""
        yield name, show_duration(seconds), share
    if (outside := outside_load(phases_s)) is not None:
        yield "outside load", show_duration(outside.seconds), f"{100 * outside.share:.0f} %"


def _seals(gathered: Gathered) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Yield (trial, block, place in the order, bring-up, previous case, SHA-256 of its seal)."""
    for name, digest in seal_hashes(gathered).items():
        planned = gathered.plan.get(name)
        held = gathered.digests.get(name)
        yield (
            name,
            "" if planned is None else str(planned.block),
            "" if planned is None else str(gathered.place[name] + 1),
            "" if planned is None else str(planned.whole_plot),
            (held.lab.previous_case if held else None) or "–",
            digest,
        )
