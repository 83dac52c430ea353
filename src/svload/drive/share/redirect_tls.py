"""How a server is verified that only a redirect over TLS leads to: no endpoint of the study says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from svload.drive.share.spec import TlsSpec
from svload.drive.targets import system_authorities
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint
from svload.model.traffic import Group


def redirect_tls(groups: Sequence[Group], endpoints: Mapping[str, Endpoint]) -> TlsSpec | None:
    """None where no request follows a redirect, or nothing is trusted.

    Any certificate will do where the study says so of a target; else the endpoints' authorities
    and this system's are trusted.
    """
    if not any(request.follow_redirects for group in groups for request in group.requests):
        return None
    targets = {name for group in groups for name in group.endpoints}
    verify = all(endpoint.verify for name, endpoint in endpoints.items() if name in targets)
    trusted = list(dict.fromkeys(endpoint.ca_pem for endpoint in endpoints.values() if endpoint.ca_pem))
    if verify:
        with suppress(SvloadError):
            trusted.append(system_authorities())
    if verify and not trusted:
        return None
    return TlsSpec(server_name="redirect", ca_pem="".join(trusted) or None, verify=verify)
