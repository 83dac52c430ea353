"""How a server is verified that only a redirect over TLS leads to: no endpoint of the study says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from svload.drive.targets import system_authorities
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint
from svload.model.traffic import Group


def redirect_tls(groups: Sequence[Group], endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The share's `redirect_tls`: any certificate will do where the study says so of a target, else the authorities of its endpoints
    and this system's are trusted. Empty where no request follows a redirect, or nothing is trusted.
    """
    if not any(request.follow_redirects for group in groups for request in group.requests):
        return {}
    targets = {name for group in groups for name in group.endpoints}
    verify = all(endpoint.verify for name, endpoint in endpoints.items() if name in targets)
    trusted = list(dict.fromkeys(endpoint.ca_pem for endpoint in endpoints.values() if endpoint.ca_pem))
    if verify:
        with suppress(SvloadError):
            trusted.append(system_authorities())
    if verify and not trusted:
        return {}
    tls = {"server_name": "redirect", "ca_pem": "".join(trusted) or None, "verify": verify, "min": "1.2"}
    return {"redirect_tls": tls}
