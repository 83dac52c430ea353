"""What a service's name means in a study's URLs: where its servers listen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from svload.model.facts import Endpoint, ServiceFacts


def endpoints(facts: Mapping[str, ServiceFacts]) -> dict[str, Endpoint]:
    """`scheme://service` → where it listens. Of several replicas none is meant."""
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
