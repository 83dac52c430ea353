"""References in a service's options to a running lab: `${port}`, `${build}` to itself, `${db.port}`,
`${db.socket}` to another service. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from svload.model.errors import fail
from svload.model.facts import Endpoint, ServiceFacts
from svload.study.references import REFERENCE, references_in, strings_in

PORT = "port"
Find = Callable[[str], str | None]
"""A reference's inner text → its value; None leaves it unchanged."""


def put_in(value: Any, find: Find) -> Any:
    """Return `value` with the references in all its texts replaced."""
    if isinstance(value, Mapping):
        return {key: put_in(child, find) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [put_in(child, find) for child in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def put(match: re.Match[str]) -> str:
        found = None if match[1] else find(match[2].strip())
        return match[0] if found is None else found

    return REFERENCE.sub(put, value)


def named_in(value: Any, services: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (service, name) of each reference to another service."""
    for _, text in strings_in(value, ()):
        for reference in references_in(text):
            service, _, what = reference.partition(".")
            if what and service in services:
                yield service, what


def offered(facts: ServiceFacts) -> dict[str, str]:
    """Return what other services may refer to; for replicas, only what they share and all addresses."""
    main = [one for one in facts.endpoints if one.port]
    found = dict(facts.outputs)
    addresses = dict.fromkeys(one.connects_to for one in main)
    found["addresses"] = ",".join(addresses)
    if len({(one.address, one.scheme) for one in main}) == len(main) and main:
        found |= {"host": main[0].address, "port": str(main[0].port), "url": f"{main[0].scheme}://{main[0].connects_to}"}  # fmt: skip
    return found | {f"{PORT}.{name}": str(one.port) for name, one in facts.named.items()}


def of_others(facts: Mapping[str, ServiceFacts], service: str) -> Find:
    """Return the look-up of references from `service` to its neighbours, which raises SvloadError lab-failed
    for what they do not offer."""

    def find(reference: str) -> str | None:
        name, _, what = reference.partition(".")
        if not what or name not in facts:
            return None
        known = offered(facts[name])
        if what not in known:
            raise fail(
                "lab-failed",
                place=f"lab.{service}",
                reason=f"{service} names ${{{reference}}}, and {name} offers {', '.join(sorted(known))}",
                hint="Name one of these.",
            )
        return known[what]

    return find


def endpoints(facts: Mapping[str, ServiceFacts]) -> dict[str, Endpoint]:
    """Return `scheme://service` → where it listens; services with several replicas are left out."""
    found: dict[str, Endpoint] = {}
    for service, one in facts.items():
        for scheme, several in groupby(sorted(one.endpoints, key=_scheme), key=_scheme):
            first, *others = several
            if not others:
                found[f"{scheme}://{service}"] = first
        found |= {f"{end.scheme}://{service}.{name}": end for name, end in one.named.items()}
    return found


def _scheme(endpoint: Endpoint) -> str:
    return endpoint.scheme
