"""The kernel's settings that a lab changes: journaled before they are set, and restored when no longer
requested.

A lab may have a separate network namespace; settings that exist per namespace (net.core.somaxconn) are set
there. All others are the whole machine's and change only with the user's permission.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from svload.host.agent.journal import Entry, Journal, normal, restore, sysctl_path
from svload.host.machine import linux
from svload.host.process.spawn import refused
from svload.model.messages import HoldSysctls
from svload.model.parameters import is_network, may_be_set

KernelLayer = Literal["network", "machine"]
_OF_THE_MACHINE = (
    "it is a setting of the whole machine, which only “svload run”, “resume” and “aa” change, "
    "with --host-settings"
)
_UNKNOWN = "this kernel has no such setting"
_REPLACES = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
    "vm.overcommit_kbytes": "vm.overcommit_ratio",
}
_REPLACES |= {ratio: amount for amount, ratio in _REPLACES.items()}
"""Setting → the one that the kernel sets to 0 when it is written."""


@dataclass(frozen=True)
class _Held:
    layer: KernelLayer
    what: Entry
    entry: int


class Settings:
    """The settings of one lab. `outside`: the file of the machine's network if the lab has another."""

    def __init__(self, journal: Journal, outside: str | None) -> None:
        self._journal, self._outside = journal, outside
        self._held: dict[str, _Held] = {}

    def hold(self, order: HoldSysctls) -> dict[str, Any]:
        """Set all of them or none. Raises SvloadError agent-refused."""
        if strange := [name for name in order.values if not may_be_set(name)]:
            raise refused(f"{strange[0]} is not a setting that a study may change")
        before = {name: held.what["value"] for name, held in self._held.items()}
        try:
            for name in [name for name in self._held if name not in order.values]:
                self._put_back(name)
            settings = [self._set(name, value, order.host) for name, value in order.values.items()]
        except (OSError, ValueError) as why:
            with contextlib.suppress(OSError, ValueError):
                self._restore(before)
            raise refused(f"settings of the kernel could not be changed: {why}") from why
        return {"settings": settings}

    def release(self) -> None:
        """Restore everything, newest first. Raises OSError."""
        for name in reversed(list(self._held)):
            self._put_back(name)

    def _restore(self, before: Mapping[str, str]) -> None:
        for name in [name for name in self._held if name not in before]:
            self._put_back(name)
        for name, value in before.items():
            self._set(name, value, host=True)

    def _set(self, name: str, value: str, host: bool) -> dict[str, Any]:
        layer = self._layer_of(name)
        result: dict[str, Any] = {"name": name, "asked": value, "layer": layer, "why": ""}
        with self._in(layer):
            path = sysctl_path(name)
            if not path.exists():
                return {**result, "old": None, "found": None, "why": _UNKNOWN}
            now = path.read_text(encoding="utf-8").rstrip("\n")
            result |= {"old": now, "found": now}
            if normal(now) == normal(value):
                return result
            if layer == "machine" and not host:
                return {**result, "why": _OF_THE_MACHINE}
            return result | self._write(name, layer, path, now, value)

    def _write(self, name: str, layer: KernelLayer, path: Path, now: str, value: str) -> dict[str, Any]:
        held = self._held.get(name)
        was = {"old": now, "back": self._back(name, now)}
        if held:
            was = {key: held.what[key] for key in was}
        where = {"network": linux.namespace("net"), "boot_id": linux.boot_id()}
        what: Entry = {"name": name, **was, "value": value, **where, "layer": layer}
        entry = self._journal.announce("sysctl", **what)
        try:
            path.write_text(value, encoding="utf-8")
        except OSError as why:
            self._journal.done(entry)
            return {"why": f"the kernel refused it ({why.strerror})"}
        found = path.read_text(encoding="utf-8").rstrip("\n")
        self._journal.found(entry, set_to=found)
        if held:
            self._journal.done(held.entry)
        self._held[name] = _Held(layer, {**what, "set_to": found}, entry)
        return {
            "old": was["old"],
            "found": found,
            "why": "" if normal(found) == normal(value) else "the kernel took another value",
        }

    def _back(self, name: str, now: str) -> tuple[str, str] | None:
        """Return the setting that is in use instead of one that is 0, with its value; None for any other."""
        other = _REPLACES.get(name)
        if other is None or normal(now) != "0":
            return None
        value = sysctl_path(other).read_text(encoding="utf-8").rstrip("\n")
        return None if normal(value) == "0" else (other, value)

    def _put_back(self, name: str) -> None:
        held = self._held[name]
        with self._in(held.layer):
            restore(held.what)
        self._journal.done(held.entry)
        del self._held[name]

    def _layer_of(self, name: str) -> KernelLayer:
        """Return the layer of a setting: the lab's network has those that can be written in it; the machine's
        are hidden or read-only there."""
        path = sysctl_path(name)
        own = self._outside is not None and is_network(name) and path.exists()
        return "network" if own and path.stat().st_mode & 0o222 else "machine"

    @contextlib.contextmanager
    def _in(self, layer: KernelLayer) -> Iterator[None]:
        if layer == "network" or self._outside is None:
            yield
            return
        with linux.in_network(self._outside):
            yield
