"""Settings of the kernel that a study's `sysctl` asks for: held by the agent, told as the kernel has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svload.lab.kit import Host
from svload.model.facts import Setting
from svload.model.messages import HoldSysctls
from svload.model.parameters import kernel_change


class KernelSettings:
    """What a lab's agent holds. `host`: the user allows what the whole machine has to be changed."""

    def __init__(self, host: Host, *, allowed: bool) -> None:
        self._host, self._allowed = host, allowed
        self.asked: dict[str, str] = {}
        self.found: tuple[Setting, ...] = ()

    def hold(self, wanted: Mapping[str, str]) -> None:
        """Set these, and put back what was held and is not among them. Raises SvloadError agent-refused."""
        if not wanted and not self.asked:
            return
        order = HoldSysctls(values=dict(wanted), host=self._allowed)
        result: dict[str, Any] = self._host.prepare([order])[0]
        self.asked = dict(wanted)
        self.found = tuple(_setting(one) for one in result["settings"])

    def needs_restart(self, wanted: Mapping[str, str]) -> bool:
        """Whether servers must begin anew for the difference to act."""
        differing = {name for name in {*wanted, *self.asked} if wanted.get(name) != self.asked.get(name)}
        return any(kernel_change(name) == "restart" for name in differing)


def _setting(told: Mapping[str, Any]) -> Setting:
    found = told["found"]
    shown = None if found is None else " ".join(str(found).split())
    return Setting(name=told["name"], asked=told["asked"], found=shown, layer=told["layer"], why=told["why"])
