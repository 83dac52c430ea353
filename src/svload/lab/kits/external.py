"""A server that is already running and that svload only loads."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from svload.host.machine.loopback import address_of
from svload.lab.kit import Kit, KitOptions, Permits, option, words
from svload.model.costs import Costs
from svload.model.errors import SvloadError, fail
from svload.model.facts import Endpoint, ServiceFacts
from svload.model.pem import holds_certificate
from svload.model.unix_url import PREFIX, is_host, split_unix_url

_LOCAL = ("127.0.0.1", "::1")
SCHEMES: Mapping[str, int | None] = {"http": 80, "https": 443, "tcp": None, "tls": None}
"""Scheme → default port."""


def _whole_server(url: str) -> str:
    if local := split_unix_url(url):
        if local.path != "/":
            raise ValueError("only the socket belongs here; the path goes into the request")
        return local.server
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("write the server's address, such as http://127.0.0.1:8080")
    if not is_host(parts.hostname):
        raise ValueError("its host is not a valid host name: use letters, digits, - and .")
    if parts.path not in ("", "/") or parts.query or parts.username:
        raise ValueError("only scheme, host and port belong here; the path goes into the request")
    if parts.port == 0 or (parts.port is None and SCHEMES[parts.scheme] is None):
        raise ValueError("expected the port it listens on")
    return url


def _host_and_port(text: str | None) -> str | None:
    if text is not None:
        parts = urlsplit(f"//{text}")
        if parts.netloc != text or not parts.hostname or not parts.port or "@" in text:
            raise ValueError("write a host and a port, such as 127.0.0.1:8443")
    return text


class ExternalOptions(KitOptions):
    """Options of `external`."""

    supported_faults = words("")

    at: Annotated[str, AfterValidator(_whole_server)] = option(
        change="request",
        doc="the running server's address, http://host:port or https://host:port, "
        "http://unix:/path/of/its.sock, or tcp:// and tls:// for raw dialogues",
    )
    ca_file: str | None = option(
        None,
        change="request",
        doc="PEM file, next to the study, of the authority that signed its certificate",
    )
    verify: bool = option(True, change="request", doc="false: accept any certificate")
    connect_to: Annotated[str | None, AfterValidator(_host_and_port)] = option(
        None,
        change="request",
        doc="host:port that connections go to instead; the URL still names the server (Host, SNI)",
    )


def _where(options: ExternalOptions) -> tuple[str, int]:
    """Return the address and port of connections; empty and 0 for a UNIX socket."""
    if split_unix_url(options.at):
        return "", 0
    parts = urlsplit(options.at)
    where = urlsplit(f"//{options.connect_to}") if options.connect_to else parts
    host, port = where.hostname or "", where.port or SCHEMES[parts.scheme] or 0
    return (address_of(host, port)), port


def must_answer(service: str, options: ExternalOptions, timeout_s: float) -> None:
    """Raise SvloadError if a server on loopback accepts no connection; nothing is sent to other hosts."""
    host, port = _where(options)
    if host not in _LOCAL:
        return
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError as why:
        raise fail(
            "lab-failed",
            place=f"lab.{service}.at",
            reason=f"nothing answers at {options.connect_to or options.at} ({why.strerror or why})",
            hint="Start the server first, or fix the address.",
        ) from why


class External(Kit):
    """A kit that starts, changes and stops nothing. Whether its target may be loaded is checked before."""

    name = "external"
    summary = "a server that runs already (at: URL)"
    Options = ExternalOptions
    costs = Costs(up_s=0.0)
    front = False
    starts = False
    ignores = (
        "port",
        "cpus",
        "memory",
        "pids",
        "disk_rate",
        "link",
        "within",
        "on_death",
        "nofile",
        "nofile_hard",
        "tuning",
        "needs",
        "replicas",
    )
    harmless = frozenset({"ca_file", "verify"})
    permits = Permits(
        "only reads: svload asks about a request that may write, since svload did not start the server"
    )
    addresses = frozenset({"at", "connect_to"})
    options: ExternalOptions

    @cached_property
    def _endpoint(self) -> Endpoint:
        if local := split_unix_url(self.options.at):
            return Endpoint(
                scheme="https" if local.scheme == "https" else "http",
                address=PREFIX + local.socket,
                port=0,
                ca_pem=self._ca_pem(),
                via="external",
            )
        host, port = _where(self.options)
        return Endpoint(
            scheme=urlsplit(self.options.at).scheme,  # type: ignore[arg-type]
            address=host,
            port=port,
            ca_pem=self._ca_pem(),
            verify=self.options.verify,
            via="external",
        )

    def _ca_pem(self) -> str | None:
        if self.options.ca_file is None:
            return None
        folder = self.context.study.resolve()
        path = (folder / self.options.ca_file).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            reason = f"there is no file “{self.options.ca_file}” in the study's folder"
            raise self._no_ca(reason, "Put the PEM file next to study.yaml.")
        pem = path.read_text(encoding="ascii", errors="replace")
        if not holds_certificate(pem):
            raise self._no_ca(f"“{self.options.ca_file}” holds no certificate", "It is a PEM file.")
        return pem

    def _no_ca(self, reason: str, hint: str) -> SvloadError:
        return fail("lab-failed", place=f"lab.{self.context.service}.ca_file", reason=reason, hint=hint)

    def ready(self, timeout_s: float) -> None:
        """Check that a target on loopback accepts a connection; others get no packet before their load."""
        must_answer(self.context.service, self.options, timeout_s)

    def facts(self) -> ServiceFacts:
        """Return its endpoint as written; a host name is not resolved here."""
        return self.service_facts("", self._endpoint)
