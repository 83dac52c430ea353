"""`replicas: n`: one service as servers `web[1]`, `web[2]` …, started separately, reported as one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from svload.lab.catalogue import all_kits
from svload.model.facts import CPUS, Counters, ServiceFacts, Setting
from svload.model.study import ServiceSpec
from svload.study.mistakes import Mistake, bad_value

Needs = Mapping[str, tuple[str, ...]]


def service_of(server: str) -> str:
    """Return `web` for `web[2]`."""
    return server.partition("[")[0]


def number_of(server: str) -> int:
    """Return 2 for `web[2]`; 1 for a service without replicas."""
    return int(server.partition("[")[2].rstrip("]") or 1)


def servers(specs: Sequence[ServiceSpec]) -> dict[str, ServiceSpec]:
    """Return the name of each server of these services → its spec, without the number of replicas."""
    found = {}
    for spec in specs:
        own = {key: value for key, value in spec.options.items() if key != "replicas"}
        for name in spec.servers:
            found[name] = spec.model_copy(update={"name": name, "options": own})
    return found


def needs_of_servers(specs: Sequence[ServiceSpec], needs: Needs) -> dict[str, tuple[str, ...]]:
    """Return each server → the servers it needs: all servers of the services that its service needs."""
    by_name = {spec.name: spec.servers for spec in specs}
    return {
        server: tuple(other for service in needs[name] for other in by_name.get(service, ()))
        for name, own in by_name.items()
        for server in own
    }


def replica_mistakes(specs: Sequence[ServiceSpec]) -> Iterator[Mistake]:
    """Yield a mistake for replicas on one port, or behind a server that forwards to one."""
    kits = all_kits()
    many = {spec.name: count for spec in specs if (count := spec.replicas or 1) > 1}
    for spec in specs:
        if spec.name in many and spec.options.get("port") is not None:
            reason = f"{many[spec.name]} replicas cannot listen on one port"
            yield bad_value(("lab", spec.name, "port"), reason, spec.options["port"], "Leave it out.")
        behind = str(spec.options.get("of", ""))
        if behind in many and spec.kit in kits and not kits[spec.kit].balances:
            reason = f"the kit {spec.kit} forwards to one server, and {behind} has {many[behind]} replicas"
            hint = "Put nginx in between to distribute the requests."
            yield bad_value(("lab", spec.name, "of"), reason, behind, hint)


def merged(service: str, parts: Sequence[ServiceFacts]) -> ServiceFacts:
    """Return the facts of a service from those of its servers. Several servers have no `admin`, since its
    addresses belong to one server each."""
    first = parts[0]
    if len(parts) == 1:
        return first.model_copy(update={"service": service})
    shared = {
        name: value
        for name, value in first.outputs.items()
        if all(one.outputs.get(name) == value for one in parts)
    }
    return first.model_copy(
        update={
            "service": service,
            "endpoints": tuple(endpoint for one in parts for endpoint in one.endpoints),
            "named": {},
            "processes": tuple(
                process.model_copy(update={"name": f"{process.name}[{number_of(one.service)}]"})
                for one in parts
                for process in one.processes
            ),
            "admin": {},
            "settle_s": max(one.settle_s for one in parts),
            "links": tuple(link for one in parts for link in one.links),
            "groups": tuple({group.name: group for one in parts for group in one.groups}.values()),
            "settings": tuple(_settings(parts)),
            "outputs": shared,
        }
    )


def _settings(parts: Sequence[ServiceFacts]) -> Iterator[Setting]:
    """Yield one setting where all servers agree; a quota is the sum of theirs."""
    for name in dict.fromkeys(setting.name for one in parts for setting in one.settings):
        own = {one.service: setting for one in parts for setting in one.settings if setting.name == name}
        if name == CPUS:
            yield Setting(name=CPUS, asked=_sum(one.asked for one in own.values()), found=_sum(one.found for one in own.values()))  # fmt: skip
        elif len({(one.asked, one.found) for one in own.values()}) == 1:
            yield next(iter(own.values()))
        else:
            for server, setting in own.items():
                yield setting.model_copy(update={"name": f"{name}[{number_of(server)}]"})


def _sum(values: Iterator[str | None]) -> str | None:
    known = list(values)
    return None if None in known else f"{sum(float(value or 0) for value in known):g}"


def added(parts: Sequence[Counters]) -> Counters:
    """Return the sums of the counters that all servers of a service have."""
    names = set.intersection(*(set(one.values) for one in parts))
    return Counters(
        at_ns=max(one.at_ns for one in parts),
        values={name: sum(one.values[name] for one in parts) for name in sorted(names)},
        exact=all(one.exact for one in parts),
        raw=parts[0].raw if len(parts) == 1 else {},
    )
