"""A service's CPU quota at work: how long the kernel held its processes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host import cgroups
from svload.watch.monitor import Monitor, Reading

SETTING = "cpus"
"""`model.facts.CPUS`: named here, since the sampler imports no models."""


class QuotaMonitor(Monitor):
    """One entity for each process that the facts name; its groups are looked up once, when it attaches."""

    name = "quota"
    summary = "how long a service's CPU quota held its processes back, from the kernel's control groups"
    metrics: ClassVar[Mapping[str, str]] = {
        "throttled_seconds_total": "time in which tasks that wanted to run were held back by the quota"
    }

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._groups = {
            str(process["name"]): cgroups.of_process(int(process["pid"])) for process in facts["processes"]
        }

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with processes and a quota of CPU."""
        if not facts or not facts.get("processes"):
            return False
        return any(setting.get("name") == SETTING for setting in facts.get("settings", ()))

    def sample(self) -> Iterable[Reading]:
        """Raises ProcessLookupError when none of its groups is there any more."""
        throttled = {name: cgroups.throttled_s(paths) for name, paths in self._groups.items()}
        known = {name: seconds for name, seconds in throttled.items() if seconds is not None}
        if not known:
            raise ProcessLookupError(f"no control group of {self.service} tells of its quota")
        return [Reading(name, "throttled_seconds_total", seconds) for name, seconds in known.items()]
