"""The places where servers of a lab run: machines, with the operations on each server by its name.

`Lab` decides what is started, in which order, and what a change affects; a place carries it out. `Place` acts
on this machine; `elsewhere.There` forwards the same calls to a `Place` on another one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svload.host.machine.page_cache import drop_from_page_cache
from svload.host.machine.sock_diag import end_time_wait
from svload.lab import setup
from svload.lab.faults import FaultHands
from svload.lab.kit import KitOptions
from svload.lab.standing import Standing, Starter
from svload.model.errors import Problem, fail
from svload.model.facts import Counters, ServiceFacts
from svload.model.study import ServiceSpec

Dropped = dict[str, int]


class Place(FaultHands):
    """One machine's servers. Every method may raise SvloadError, and OSError if a server does not answer."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._standing: dict[str, Standing] = {}
        super().__init__(self._standing, starter.groups, starter.links)

    def lacks(self, specs: Sequence[ServiceSpec]) -> list[Problem]:
        """Return what the machine lacks for these services."""
        return setup.check(specs, self._starter.cache)

    def start(
        self, spec: ServiceSpec, options: KitOptions, neighbours: Mapping[str, ServiceFacts], reached: bool
    ) -> ServiceFacts:
        """Start a server and wait until it answers. After a failure, what was started of it remains until
        `stop`.

        `neighbours` are the facts of the services that it needs; `reached`: servers with links connect to it.
        """
        try:
            made = self._starter.make(spec, options, neighbours, reached=reached)
        except BaseException:
            self._starter.drop(spec.name)
            raise
        self._standing[spec.name] = made
        return self._starter.bring_up(made, options, neighbours)

    def stop(self, name: str) -> None:
        """Stop it; it is no error if it is gone already or never existed."""
        if name in self._standing:
            self._starter.stop(self._standing[name])
            del self._standing[name]
            self.forget(name)

    def described(self, name: str, options: KitOptions) -> ServiceFacts:
        """Return its current facts."""
        return self._starter.described(self._standing[name], options)

    def adjust(self, name: str, options: KitOptions) -> bool:
        """Apply changed options while it runs; return False if it must be restarted instead."""
        return self._standing[name].kit.adjust(options)

    def ends(self, name: str) -> tuple[list[Problem], int]:
        """Return the processes that ended, except by a fault, and how many died for lack of memory."""
        ended = [problem for part in self._standing[name].parts for problem in part.alive()]
        ended += self._starter.links.ends(name)
        left = [one for one in ended if not self.excuses(name, one)]
        return left, self._starter.groups.oom_kills(name)

    def reset(self, name: str) -> dict[str, Any]:
        """Restore its state before any trial; return the proof."""
        return self._standing[name].kit.reset()

    def drop_cache(self, service: str, names: Sequence[str]) -> Dropped:
        """Drop the files of these servers of a service from the page cache; return the proof."""
        folders: set[Path] = {folder for name in names for folder in self._standing[name].kit.folders()}
        dropped = [found for folder in sorted(folders) if (found := drop_from_page_cache(folder))]
        if not dropped:
            reason = "it names no files whose pages could be dropped"
            raise fail("reset-failed", service=service, reason=reason, log=self._starter.logs / service)
        return {
            "files_bytes": sum(one.size_bytes for one, _ in dropped),
            "resident_before_bytes": sum(one.resident_bytes for one, _ in dropped),
            "resident_after_bytes": sum(one.resident_bytes for _, one in dropped),
        }

    def counters(self, name: str) -> Counters | None:
        """Return its current canonical counters; `at_ns` is by this machine's clock."""
        return self._standing[name].kit.counters()

    def plant(self, name: str, fault: str | None) -> bool:
        """See `Kit.plant`."""
        return self._standing[name].kit.plant(fault)

    def hold(self, name: str, key: str) -> None:
        """See `Kit.hold`."""
        self._standing[name].kit.hold(key)

    def free_ports(self) -> int:
        """End resting connections (TIME_WAIT) to its servers; return how many."""
        return end_time_wait(self._starter.ports.given())

    def wipe(self) -> None:
        """Remove the servers' folders after all servers are stopped."""
        shutil.rmtree(self._starter.work, ignore_errors=True)
