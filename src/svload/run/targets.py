"""Targets that a study names: servers that already run, and addresses in URLs. They are looked up only if the
user has authorised them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from svload.drive.targets import Target, parse_connect_to, parse_url, resolve_target, system_authorities
from svload.model.errors import Problem, SvloadError
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.study.steps import hosts_of
from svload.study.trust import requests_of


def named_targets(config: CaseConfig) -> dict[str, Target]:
    """Return `scheme://host` as in a case's URLs → the target that the study names for it (`at:`, or the URL
    itself). Pure."""
    known: dict[str, Target] = {}
    for service in config.services:
        if at := service.options.get("at"):
            target = parse_url(str(at), raw=True)
            if elsewhere := service.options.get("connect_to"):
                target = replace(target, connect_to=parse_connect_to(str(elsewhere)))
            known[f"{target.scheme}://{service.name}"] = target
    services = hosts_of({service.name: service.options for service in config.services})
    for request in requests_of(config):
        if request.url is None and request.host not in services:
            known[request.endpoint] = parse_url(request.endpoint, raw=True)
    return known


def permitted_targets(
    configs: Iterable[CaseConfig], authorised: Sequence[str], looked_up: dict[str, list[str]] | None = None
) -> dict[Target, Endpoint]:
    """Return each named target's endpoint, one for all that differ only in their path. Each host is looked up
    once, and `looked_up` gains its addresses. Raise SvloadError with every target that is not authorised or
    not known."""
    found: dict[Target, Endpoint] = {}
    servers: dict[Target, Endpoint] = {}
    problems: dict[Target, tuple[Problem, ...]] = {}
    known = {} if looked_up is None else looked_up
    for target in dict.fromkeys(target for config in configs for target in named_targets(config).values()):
        server = replace(target, path="")
        try:
            found[target] = servers.get(server) or resolve_target(server, authorised, known)
            servers[server] = found[target]
        except SvloadError as error:
            problems[target] = error.problems
    if problems:
        raise SvloadError(*(problem for several in problems.values() for problem in several))
    return found


def several_addresses(
    permitted: Mapping[Target, Endpoint], looked_up: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield a sentence for each name with several addresses, with the one that all requests go to."""
    loaded = [((target.connect_to or (target.host, 0))[0], at.address) for target, at in permitted.items()]
    for host, address in dict.fromkeys(loaded):
        addresses = looked_up.get(host, ())
        if len(addresses) > 1:
            refused = addresses[: addresses.index(address)]
            accept = "accepts" if len(refused) == 1 else "accept"
            why = f", because {' and '.join(refused)} {accept} no connection" if refused else ""
            yield f"{host} has {len(addresses)} addresses; all requests go to {address}{why}"


def named_endpoints(permitted: Mapping[Target, Endpoint]) -> dict[str, Endpoint]:
    """Return the endpoints of named targets, by the name that messages use."""
    return {
        f"{endpoint.scheme}://{endpoint.authority or endpoint.address}": endpoint
        for endpoint in permitted.values()
    }


def case_endpoints(
    config: CaseConfig, lab: Mapping[str, Endpoint], permitted: Mapping[Target, Endpoint]
) -> dict[str, Endpoint]:
    """Return the endpoints of a case's URLs: the lab's servers, and the named targets at the addresses that
    were looked up.

    A named target without a certificate authority in the study is verified by the system's authorities,
    unless the study says `verify: false`.
    """
    endpoints = dict(lab)
    for request in (request for group in config.all_groups for request in group.requests):
        # A raw dialogue goes where the service speaks HTTP, unless it says otherwise.
        spoken = f"{'https' if request.secure else 'http'}://{request.host}"
        if request.is_raw and spoken in lab:
            endpoints.setdefault(request.endpoint, lab[spoken])
    for name, target in named_targets(config).items():
        endpoint = permitted[target]
        ca_pem, verify = (lab[name].ca_pem, lab[name].verify) if name in lab else (None, True)
        if endpoint.scheme in ("https", "tls") and verify:
            ca_pem = ca_pem or system_authorities()
        endpoints[name] = endpoint.model_copy(update={"ca_pem": ca_pem, "verify": verify})
    return endpoints
