"""`tls: hitch`: a TLS front before any service. It speaks PROXY v2 to a service that offers such a port, plain TCP to others."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from svload.lab.kit import KitOptions
from svload.lab.server import SEARCH_PATH, Server
from svload.model.errors import Problem
from svload.model.facts import Endpoint, ServiceFacts, Setting

BACKLOG = 4096
"""Asked of the kernel for the front, so that it is not what fills first; cut by net.core.somaxconn."""


class HitchFront(Server):
    """hitch before one running service, as processes of that service. Not a kit of its own: an option of every service."""

    name = "hitch"
    summary = "TLS front (tls: hitch)"
    _port: int
    _backend: Endpoint
    _proxy_protocol: bool

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """The programme."""
        return [] if program("hitch") else [missing("hitch", "hitch", ["hitch"])]

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Start it before the one service in `neighbours`."""
        [behind] = neighbours.values()
        [http] = [endpoint for endpoint in behind.endpoints if endpoint.scheme == "http"]
        proxy = behind.admin.get("proxy_protocol")
        self._proxy_protocol = proxy is not None
        self._backend = http.model_copy(update={"port": proxy["port"]}) if proxy else http
        self._port = self.context.take_port("https", None)
        self.spawn(
            "hitch", [program("hitch") or "hitch", f"--config={self.write('hitch.conf', self._config())}"]
        )

    def _config(self) -> str:
        assert self.context.credentials
        cores = self.context.limits.cores
        lines = [
            f'frontend = "[{self.context.address}]:{self._port}"',
            f'backend = "[{self._backend.address}]:{self._backend.port}"',
            f'pem-file = "{self.context.credentials.both_file}"',
            "tls-protos = TLSv1.2 TLSv1.3",
            'alpn-protos = "http/1.1"',
            f"workers = {len(cores) if cores else 2}",
            f"backlog = {BACKLOG}",
            "daemon = off",
            "syslog = off",
            f"write-proxy-v2 = {'on' if self._proxy_protocol else 'off'}",
        ]
        if os.geteuid() == 0:  # hitch refuses to run its workers as root
            lines += ['user = "nobody"', 'group = "nogroup"']
        return "\n".join(lines) + "\n"

    def condition(self) -> bool:
        """It accepts connections."""
        return self.accepts(self._port)

    def describe(self) -> ServiceFacts:
        """The HTTPS endpoint alone."""
        return ServiceFacts(
            service=self.context.service,
            kit=self.name,
            version=self._version(),
            endpoints=(self.https_endpoint(self._port, "hitch"),),
        )

    def _version(self) -> str:
        found = re.search(r"hitch[- ]([\d.]+)", self.tool([program("hitch") or "hitch", "--version"]))
        return found[1] if found else ""

    def effective(self) -> list[Setting]:
        """Its accept queue."""
        return [self.backlog_setting("hitch.backlog", BACKLOG, self._port)]


def program(name: str) -> str | None:
    """The full path of a server's programme (also in the sbin folders), or None."""
    return shutil.which(name, path=SEARCH_PATH)


def missing(kit: str, what: str, packages: list[str]) -> Problem:
    """tool-missing that names the apt packages."""
    hint = f"As root: apt-get install {' '.join(packages)}; or let “svload lab install” do it."
    return Problem("tool-missing", {"kit": kit, "what": what, "hint": hint, "apt": packages})
