"""How to reach a machine, as in an inventory, but without Ansible. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svload.host.process.interpreter import python

SSH_OPTIONS: Mapping[str, str] = {
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ControlMaster": "no",
    "ControlPath": "none",
    "ExitOnForwardFailure": "yes",
    "ServerAliveCountMax": "2",
    "ServerAliveInterval": "2",
}
"""SSH never prompts and shares no connections; a host that is silent for 4 s is lost."""
PYTHON = "~/.svload-fleet/venv/bin/python"
"""The path where `svload fleet install` installs it."""


@dataclass(frozen=True)
class Joined:
    """A worker of somebody else's Dask cluster: scheduler's and own address; `here`: on this machine."""

    scheduler: str
    worker: str
    here: bool


@dataclass(frozen=True)
class Reach:
    """One machine of a run. `ssh` are the arguments before the remote command, without forwarded ports; empty
    for this machine and for a `joined` worker. Its clock answers at `port` of `address` (0: any free port).
    `generates`: it generates load; `known_as`: its names in a study's `on` if it runs servers."""

    name: str
    address: str
    site: str
    port: int
    python: str
    ssh: tuple[str, ...] = ()
    joined: Joined | None = None
    generates: bool = True
    known_as: tuple[str, ...] = ()

    @property
    def here(self) -> bool:
        """Return whether it is the controller's machine."""
        return not self.ssh if self.joined is None else self.joined.here

    def words(self, module: str, forwards: Mapping[str, int]) -> list[str]:
        """Return the command that runs a module there; `forwards`: -R (its port leads here) and -L (ours
        leads there)."""
        if not self.ssh:
            return list(python("-m", module, executable=self.python))
        program, *options = self.ssh
        made = [word for name, value in SSH_OPTIONS.items() for word in ("-o", f"{name}={value}")]
        made += [word for way, port in forwards.items() for word in (way, f"{port}:127.0.0.1:{port}")]
        return [program, "-T", *made, *options, f"exec {_quoted(self.python)} -P -m {module}"]


def _quoted(path: str) -> str:
    """Quote a path for the shell there, which expands ~."""
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


def connects_by_itself(variables: Mapping[str, Any]) -> bool:
    """Return whether it is this machine according to the inventory."""
    return str(variables.get("ansible_connection", "ssh")) == "local"
