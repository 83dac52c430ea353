"""How a machine is reached: what an inventory says of it, without Ansible. Pure."""

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
"""No question is asked, no connection shared; a host that says nothing for 4 s is lost."""
PYTHON = "~/.svload-fleet/venv/bin/python"
"""Where `svload fleet install` puts it."""


@dataclass(frozen=True)
class Joined:
    """A worker of a Dask cluster that somebody else runs: the scheduler's address, and its own; `here`: on this machine."""

    scheduler: str
    worker: str
    here: bool


@dataclass(frozen=True)
class Reach:
    """One machine of a run. `ssh` are the words before the remote command, without forwarded ports;
    none of them: it is this machine, or a worker that is `joined`. `port` is where its clock answers, at `address` (0: any free one).
    `generates`: it makes load; `known_as`: what a study's `on` may call it where it serves."""

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
        """Whether it is the controller's own machine."""
        return not self.ssh if self.joined is None else self.joined.here

    def words(self, module: str, forwards: Mapping[str, int]) -> list[str]:
        """The command that runs a module there; `forwards`: -R (its port leads here) and -L (ours leads there)."""
        if not self.ssh:
            return list(python("-m", module, executable=self.python))
        program, *options = self.ssh
        made = [word for name, value in SSH_OPTIONS.items() for word in ("-o", f"{name}={value}")]
        made += [word for way, port in forwards.items() for word in (way, f"{port}:127.0.0.1:{port}")]
        return [program, "-T", *made, *options, f"exec {_quoted(self.python)} -P -m {module}"]


def _quoted(path: str) -> str:
    """For the shell there, which knows what ~ is."""
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


def connects_by_itself(variables: Mapping[str, Any]) -> bool:
    """Whether the inventory says that it is this machine."""
    return str(variables.get("ansible_connection", "ssh")) == "local"
