"""hitch, a TLS front before another service: a service, or a part of the one behind it (`tls: hitch`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pydantic import field_validator

from svload.lab.kit import KitOptions, Permits, Spelling, option, words
from svload.lab.server import Server, path_of, upstream_of
from svload.model.costs import Costs
from svload.model.facts import Endpoint, ServiceFacts, Setting
from svload.study.mistakes import shortened

_SPELLING = Spelling("setting", "[a-z0-9-]+", without='"\\')


class HitchOptions(KitOptions):
    """Options of `hitch`; `tuning` has settings of its configuration (keepalive, ciphers, ring-slots …)."""

    of: str = option(doc="the service that it terminates TLS for")
    workers: int | None = option(
        None, ge=1, doc="worker processes; default: one for each core that services are pinned to, or 2"
    )
    backlog: int = option(4096, ge=1, doc="length of the accept queue")

    spelling = _SPELLING

    @field_validator("tuning")
    @classmethod
    def _plain_words(cls, tuning: dict[str, Any]) -> dict[str, Any]:
        for name, value in tuning.items():
            _spelled(name, value)
        return tuning


_HARMLESS = words(
    """
    backend-connect-timeout ciphers keepalive prefer-server-ciphers recv-bufsize ring-data-len ring-slots send-bufsize
    sni-nomatch-abort ssl-handshake-timeout tls-protos
    """
)


class Hitch(Server):
    """A TLS front with the lab's certificate; PROXY v2 to services with such a port, else plain TCP."""

    name = "hitch"
    summary = "hitch, a TLS front end for another service"
    Options = HitchOptions
    costs = Costs(up_s=0.2)
    certified = True
    front = False
    harmless = frozenset({"of", "workers", "backlog"})
    permits = Permits("whatever the service behind it permits: it has no other port than the one for TLS")
    harmless_tuning = _HARMLESS
    programs = {"hitch": "hitch"}
    options: HitchOptions
    _port: int
    _backend: Endpoint
    _proxy_protocol: bool

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        http = upstream_of(neighbours, self.options.of)
        proxy = neighbours[self.options.of].admin.get("proxy_protocol")
        self._proxy_protocol = proxy is not None
        self._backend = http.model_copy(update={"port": proxy["port"]}) if proxy else http
        self._port = self.context.take_port("https", self.options.port)
        self.spawn("hitch", [path_of("hitch"), f"--config={self.write('hitch.conf', self._config())}"])

    def _config(self) -> str:
        assert self.context.credentials
        cores, options = self.context.limits.cores, self.options
        settings: dict[str, Any] = {
            "frontend": f"[{self.context.address}]:{self._port}",
            "backend": f"[{self._backend.address}]:{self._backend.port}",
            "pem-file": str(self.context.credentials.both_file),
            "tls-protos": "TLSv1.2 TLSv1.3",
            "alpn-protos": "http/1.1",
            "workers": options.workers or (len(cores) if cores else 2),
            "backlog": options.backlog,
            "daemon": False,
            "syslog": False,
            "write-proxy-v2": self._proxy_protocol,
        }
        if os.geteuid() == 0:  # hitch refuses to run its workers as root
            settings |= {"user": "nobody", "group": "nogroup"}
        settings |= options.tuning
        return "".join(f"{name} = {_spelled(name, value)}\n" for name, value in settings.items())

    def condition(self) -> bool:
        return self.accepts(self._port)

    def describe(self) -> ServiceFacts:
        return self.service_facts(self._version(), self.https_endpoint(self._port, "hitch"))

    def _version(self) -> str:
        found = re.search(r"hitch[- ]([\d.]+)", self.tool([path_of("hitch"), "--version"]))
        return found[1] if found else ""

    def effective(self) -> list[Setting]:
        return [self.backlog_setting("hitch.backlog", self.options.backlog, self._port)]


_WORDS = ("tls-protos",)
"""Settings whose value is a list of words without quotation marks."""


def _spelled(name: str, value: Any) -> str:
    """Return a value in the syntax of its configuration: on and off, numbers, and quoted texts."""
    text = _SPELLING.value(value)
    if isinstance(value, int) or text.isdecimal() or text in ("on", "off"):
        return text
    if name in _WORDS:
        if not re.fullmatch(r"[A-Za-z0-9. ]+", text):
            raise ValueError(f"“{shortened(text, 60)}” are not plain words, such as TLSv1.2 TLSv1.3")
        return text
    return f'"{text}"'
