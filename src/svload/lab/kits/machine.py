"""A small machine: limits shared by several services, which refer to it by `within`."""

from __future__ import annotations

from collections.abc import Mapping

from svload.lab.groups import MACHINE
from svload.lab.kit import Kit, KitOptions, Permits, words
from svload.model.facts import ServiceFacts


class MachineOptions(KitOptions):
    """Options of `machine`: limits of all services within it together."""

    bears = words("limit")


class Machine(Kit):
    """Not a server, but a control group with limits, which contains the groups of the services within it."""

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

    def up(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Do nothing, since its group exists already."""

    def ready(self, timeout_s: float) -> None:
        """Return immediately."""

    def facts(self) -> ServiceFacts:
        """Return facts without endpoints and processes; its limits are added to them."""
        return self.service_facts("")

    def down(self) -> None:
        """Do nothing: its group is removed after the services within it."""
