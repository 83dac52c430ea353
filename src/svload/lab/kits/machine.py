"""A small machine: limits that several services share. They say `within`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svload.lab.groups import MACHINE
from svload.lab.kit import Kit, KitOptions, Permits, words
from svload.model.errors import Problem
from svload.model.facts import ServiceFacts


class MachineOptions(KitOptions):
    """Options of `machine`: `cpus`, `memory`, `pids`, `disk_rate`, which hold all services within it together."""

    bears = words("limit")


class Machine(Kit):
    """No server: a control group with limits of its own, and in it those of the services that are within it."""

    name = MACHINE
    summary = "limits that several services share (they say within: its name)"
    Options = MachineOptions
    ignores = (
        "tls", "port", "nofile", "nofile_hard", "tuning", "on_death", "needs", "replicas", "link",
    )  # fmt: skip
    front = False
    harmless = frozenset()
    permits = Permits("nothing: it answers nobody")
    starts = False

    @classmethod
    def counts(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Nothing: it answers nobody."""
        return ()

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """Whether the kernel holds its limits is known when they are set."""
        return []

    def up(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Its group was made before."""

    def ready(self, timeout_s: float) -> None:
        """At once."""

    def facts(self) -> ServiceFacts:
        """No endpoint and no process: its limits are added to them."""
        return ServiceFacts(service=self.context.service, kit=self.name, version="")

    def down(self) -> None:
        """Its group goes after the services within it."""
