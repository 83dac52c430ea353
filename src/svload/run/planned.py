"""Planned faults of a trial, carried out beside its load: one thread per service, so that a slow stop of one
service delays no other."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from svload.lab import Lab
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.facts import GROUP_SETTINGS
from svload.model.faults import Act, Fault, FaultEvent, acts_of, units_of
from svload.model.study import CaseConfig, ServiceSpec
from svload.watch import Sampler

ENDED_WITHIN_S = 120.0
"""How long to wait for acts in progress; each has a shorter bound itself."""
_THREAD = "faults of "


def live_limits(configs: Sequence[CaseConfig]) -> dict[str, tuple[str, ...]]:
    """Return service, or part of one (`backend.object`) → the limits of its control group that a fault of
    some case changes at run time."""
    found: dict[str, dict[str, None]] = {}
    for config in configs:
        for fault in config.faults:
            if kinds := [kind for kind in GROUP_SETTINGS if kind in fault.limits]:
                _, dot, part = fault.target.partition(".")
                found.setdefault(f"{_lane(fault)}{dot}{part}", {}).update(dict.fromkeys(kinds))
    return {target: tuple(kinds) for target, kinds in found.items()}


def _lane(what: Fault | Act) -> str:
    """Return the service that it acts on: acts on the same service are done in order."""
    return what.target.partition(".")[0].partition("[")[0]


@dataclass
class PlannedFaults:
    """The faults of one trial. `ramp_ns` is when its measuring begins, from the load's start.

    Call `begin` once, when the load has started, and `finish` always. Events wait until `news` is called in
    the trial's thread.
    """

    lab: Lab
    sampler: Sampler
    services: Sequence[ServiceSpec]
    faults: Sequence[Fault]
    ramp_ns: int
    _done: dict[int, tuple[int, int, dict[str, float]]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _news: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    _watching: threading.Lock = field(default_factory=threading.Lock)
    error: SvloadError | None = None
    """What could not be done as planned: the trial is then invalid."""

    def begin(self, start_at_ns: int) -> None:
        """Carry out the acts, each at its moment after `start_at_ns` (CLOCK_MONOTONIC)."""
        self._acts = acts_of(self.faults)
        lanes: dict[str, list[int]] = {}
        for number, act in enumerate(self._acts):
            lanes.setdefault(_lane(act), []).append(number)
        for service, numbers in lanes.items():
            name = f"{_THREAD}{service}"
            thread = threading.Thread(target=self._run, args=(numbers, start_at_ns), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self) -> None:
        """Start no more acts, and wait for those in progress; one that does not end is an error."""
        self._over.set()
        until = time.monotonic() + ENDED_WITHIN_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                target = thread.name.removeprefix(_THREAD)
                reason = f"it was not done {ENDED_WITHIN_S:g} s after the load"
                self.error = self.error or fail("fault-failed", target=target, reason=reason)

    def news(self) -> list[Event]:
        """Return what has been done since the last call."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._news.get_nowait())
        return found

    def events(self, start_at_ns: int) -> tuple[FaultEvent, ...]:
        """Return all acts with the moments at which they were due and done, from `start_at_ns`."""
        return tuple(self._event(number, act, start_at_ns) for number, act in enumerate(acts_of(self.faults)))

    def _event(self, number: int, act: Act, start_at_ns: int) -> FaultEvent:
        begun_ns, done_ns, found = self._done.get(number, (None, None, {}))
        return FaultEvent(
            place=act.place,
            do=act.do,
            target=act.target,
            planned_s=(self.ramp_ns + act.at_ns) / 1e9,
            begun_s=None if begun_ns is None else (begun_ns - start_at_ns) / 1e9,
            done_s=None if done_ns is None else (done_ns - start_at_ns) / 1e9,
            limits=act.limits if act.do == "limit" else {},
            found=found,
        )

    def _run(self, numbers: Sequence[int], start_at_ns: int) -> None:
        for number in numbers:
            due_ns = start_at_ns + self.ramp_ns + self._acts[number].at_ns
            if self._over.wait(max(0.0, (due_ns - time.monotonic_ns()) / 1e9)):
                return
            begun_ns = time.monotonic_ns()
            try:
                found = self._act(self._acts[number])
            except SvloadError as why:
                self.error = self.error or why
                return
            except Exception as why:  # whatever went wrong, the trial is not what was planned
                reason = f"{type(why).__name__}: {why}"
                self.error = self.error or fail(
                    "fault-failed", target=self._acts[number].target, reason=reason
                )
                return
            done_ns = time.monotonic_ns()
            self._done[number] = begun_ns, done_ns, found
            event = self._event(number, self._acts[number], start_at_ns)
            self._news.put(Event("fault", {**event.model_dump(mode="json"), "text": event.sentence}))

    def _act(self, act: Act) -> dict[str, float]:
        found: Mapping[str, float] = {}
        for server, part in units_of(act.target, {spec.name: spec.servers for spec in self.services}):
            found = self.lab.faults.act(act.do, server, part, act.limits)
        if act.do == "start":
            with self._watching:
                self.sampler.renew(self.lab.facts()[_lane(act)])
        return {name: value for name, value in found.items() if name in act.limits}


def heal(lab: Lab, sampler: Sampler, say: Callable[[str], None]) -> None:
    """After a trial, undo what its faults have left, and watch the restarted servers. Raise SvloadError."""
    healed = lab.faults.heal()
    if healed:
        sampler.attach(lab.facts())
        say(f"restored after its faults: {', '.join(healed)}")
