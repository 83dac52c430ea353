"""A small machine: limits shared by several services, which refer to it by `within`."""

from __future__ import annotations

from svload.lab.groups import MACHINE
from svload.lab.kit import Kit, KitOptions, Permits, words
from svload.model.facts import ServiceFacts


class MachineOptions(KitOptions):
    """Options of `machine`: limits of all services within it together."""

    supported_faults = words("limit")


class Machine(Kit):
    """Not a server, but a control group with limits, which contains the groups of the services within it.

    Nothing starts or stops: the group is made before its services and removed after them.
    """

    name = MACHINE
    summary = "limits shared by several services (those with within: its name)"
    Options = MachineOptions
    ignores = (
        "tls", "port", "nofile", "nofile_hard", "tuning", "on_death", "needs", "replicas", "link",
    )  # fmt: skip
    front = False
    harmless = frozenset()
    permits = Permits("nothing: it answers nobody")
    starts = False

    def facts(self) -> ServiceFacts:
        """Return facts without endpoints and processes; its limits are added to them."""
        return self.service_facts("")
