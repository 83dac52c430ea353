"""One trial: reset, warm, count, load, count again, seal. Only acts: what to run is decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import svload
from svload.drive.generators import Generators, Load, Progress, ShareResult
from svload.drive.progress import merge_progress
from svload.drive.share.cut import Share, asks_for, build_shares, group_seed
from svload.drive.share.requests import Taken
from svload.drive.share.set_up import taken_of, trial_set_up, vu_set_ups
from svload.drive.share.timeline import Timeline, shortened, timeline
from svload.drive.share.warm import warm_share
from svload.drive.targets import Target, allowed_blocks
from svload.drive.totals import generator_costs, merge_summaries
from svload.drive.witness import with_witnesses
from svload.host import Agent
from svload.host.machine.awake import awake
from svload.host.machine.conditions import moment
from svload.host.machine.preflight import above
from svload.lab import Lab
from svload.model.conditions import Conditions, Machine, Moment
from svload.model.errors import SvloadError, fail
from svload.model.events import Event, EventKind
from svload.model.facts import Counters, Death, Endpoint, TrialLab
from svload.model.plan import Room, TrialPlan
from svload.model.seals import Seal
from svload.model.study import CaseConfig, Preparation
from svload.model.summaries import GroupSummary, TrialSummary, TurnRecord
from svload.model.traffic import Group
from svload.model.units import show_duration
from svload.run.aborting import Watch
from svload.run.drain import BOUND_S, RESTLESS_S, roots_of, timed_out, wait_for_rest
from svload.run.faults import GENERATOR_LIMITED, NO_HITS, Pulses
from svload.run.inputs import row_count
from svload.run.planned import PlannedFaults, heal
from svload.run.sampled import sampling
from svload.run.secrets import secret_values, without_secrets
from svload.run.targets import case_endpoints
from svload.store import Journal, TrialDir, seal_trial, write_artefact
from svload.watch import Sampler, declarations

if TYPE_CHECKING:
    from svload.store.parquet import AnyTable, TrialData
    from svload.store.raw import RawTable
    from svload.watch.stacks import StackSampler

Emit = Callable[[Event], None]
Readings = dict[str, tuple[str, Any]]
"""A table of `model.columns.MONITORS`."""
FALLEN_WITHIN_S, POLL_S = 1.0, 0.02
RESTING = "connections at rest"
"""The entry in lab.json, among the resets, for the connections in TIME_WAIT that were ended before the
trial."""


@dataclass
class Bench:
    """What the trials of a run share: agent, generators and sampler, the lab, and paths."""

    agent: Agent
    lab: Lab
    generators: Generators
    sampler: Sampler
    tables: dict[str, Path]
    permitted: Mapping[Target, Endpoint]
    room: Room
    machine: Machine
    load_cores: int
    emit: Emit
    should_stop: Callable[[], bool]
    server_cores: tuple[int, ...] | None = None
    restless: bool = False
    """whether the servers were still working at the end of the last wait for them"""
    side: str = ""
    """the side of a block that its servers belong to; empty if there are no sides"""
    ends_by_s: float = inf
    """time.monotonic() at which a load that waits for answers is cut, to keep a search within its time"""

    @property
    def overdue(self) -> bool:
        """Return whether the run's time is over."""
        return time.monotonic() >= self.ends_by_s

    def attach(self) -> None:
        """Watch the lab's current servers."""
        self.sampler.attach(self.lab.facts())

    def own(self, service: str) -> str:
        """Return the lab's name of a service that the agent knows by this name."""
        return service

    def latest(self, from_ns: int, to_ns: int) -> Readings:
        """Return the monitors' readings so far between two moments of CLOCK_MONOTONIC."""
        return self.sampler.latest(from_ns, to_ns)

    def busy_cores(self) -> dict[str, float]:
        """Return each service's busy cores, for a live view."""
        return self.sampler.busy_cores()


class Stopped(Exception):
    """The user stopped the trial; its files and measurements are kept in attempts/ without a seal."""


@dataclass
class TrialRun:
    """One attempt at one trial. `run` returns its seal or raises SvloadError (lab, generator) or Stopped.

    Where several trials share one load (`run.block`), its steps are called one by one, in the order of `run`.
    """

    bench: Bench
    plan: TrialPlan
    config: CaseConfig
    folder: TrialDir
    attempt: int
    previous_case: str | None
    fault: str | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    populated: list[GroupSummary] = field(default_factory=list)
    proof: dict[str, dict[str, Any]] = field(default_factory=dict)
    taken: Taken = field(default_factory=Taken)
    before: tuple[dict[str, Counters], Moment] = field(init=False)
    marked_ns: int = 0
    awake: bool = False
    deaths: dict[str, Death] = field(default_factory=dict)
    planned: PlannedFaults | None = None
    turns: TurnRecord | None = None

    def run(self) -> Seal:
        """Run all phases in order; the seal is written last."""
        times = timeline(self.config, self.config.measure.duration_ns)
        with self.begun():
            self.prepare(times)
            shares = self.shares(self.config, times, self.plan.seed)
            with awake(self.config.measure.awake) as self.awake, self.sampling() as sampled:
                self.count()
                self.marked_ns = self.bench.sampler.mark()
                load = self._load(shares, times)
                self._keep(load, times)
            if sampled is not None:
                self.write_stacks(sampled, load, times)
            self._say("trial-phase", name="seal")
        return self.seal(load)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Open the trial's folder and its journal, until everything but the seal is written."""
        self.folder.path.mkdir()
        with Journal(self.folder.events) as self._journal:
            self._say("trial-started", case=self.plan.case, attempt=self.attempt)
            self._all_alive()
            yield

    def write_stacks(self, sampled: StackSampler, load: Load, times: Timeline) -> None:
        """Write the stacks sampled in the part of the load that counts."""
        with self.phase("profile"):
            begin_ns, end_ns = (load.start_at_ns + at for at in (times.ramp_ns, times.real_end_ns))
            write_artefact(self.folder.stacks, sampled.stacks(begin_ns, end_ns))

    def count(self) -> None:
        """Read the servers' counters when they are at rest: the last step before the load."""
        with self.phase("count"):
            self._settle()
            self._all_alive()
            if ended := self.bench.lab.free_ports():
                self.proof[RESTING] = {"ended": ended}
            self.before = self.bench.lab.counters(), self._moment(ports=True)

    def _keep(self, load: Load, times: Timeline) -> None:
        """Count again, write, and leave the servers as they were. Raise Stopped."""
        if load.stopped and not self._is_cut(load):
            if load.results:
                self.write_stopped(load, times, self._readings(load, times, ask=False))
            raise Stopped
        if not load.results:
            raise fail("generator-failed", reason="no generator handed over its results in time")
        after = self.count_again(times)
        with self.phase("write"):
            self.write(load, times, after, self._readings(load, times))
        if self.config.faults:
            with self.phase("heal"):
                heal(self.bench.lab, self.bench.sampler, self.notice)
        self.let_rest(load)

    def let_rest(self, load: Load) -> None:
        """Wait until the servers have finished work that nobody waits for any more."""
        if timed_out(load.results) and not self.bench.overdue:
            with self.phase("drain"):
                self._wait_for_rest()

    def count_again(self, times: Timeline) -> tuple[dict[str, Counters], Moment]:
        """Return the servers' counters after the load, once they have settled."""
        with self.phase("settle"):
            self._settle()
            self._all_alive(self._load_s(times))
            after = self.bench.lab.counters(), self._moment()
        self._all_alive(self._load_s(times))
        return after

    def write_stopped(self, load: Load, times: Timeline, readings: Readings) -> None:
        """Write the results of a load that the user stopped."""
        self.write(load, times, ({}, self._moment()), readings)

    def _readings(self, load: Load, times: Timeline, *, ask: bool = True) -> Readings:
        sampler, end_ns = self.bench.sampler, load.start_at_ns + times.end_ns
        found = sampler.readings(self.marked_ns, end_ns, load.start_at_ns, ask=ask)
        for text in sampler.news():
            self.notice(text)
        return found

    def _is_cut(self, load: Load) -> bool:
        """Return whether the load was stopped because the run's time is over: its results so far are kept."""
        return load.stopped and self.bench.overdue and not self.bench.should_stop()

    def sampling(self) -> AbstractContextManager[StackSampler | None]:
        """Sample the service's stacks beside the load, if this is the sampled trial."""
        bench = self.bench
        return sampling(
            bench.agent, bench.server_cores, bench.lab.facts(), self.config, self.plan, self.notice
        )

    def _all_alive(self, offset_s: float | None = None) -> None:
        """Raise SvloadError service-died: requests to a dead server do not measure it, nor would they in the
        next trial.

        A death that the study takes as a finding is noted: the trial goes on, and later requests to it fail
        as they would for users.
        """
        if died := self.bench.lab.alive():
            raise SvloadError(*died)
        self._note_deaths(offset_s)

    def may_end(self, service: str, offset_ns: int | None) -> bool:
        """Return whether the end of a server within a load is a finding of its trial; if so, note it."""
        self._note_deaths(None if offset_ns is None else max(0.0, offset_ns / 1e9))
        name = self.bench.own(service)
        return name in self.deaths or self.bench.lab.faults.was_ended(name)

    def _note_deaths(self, offset_s: float | None = None) -> None:
        for death in self.bench.lab.deaths():
            before = self.deaths.get(death.service)
            if before is None:
                self.deaths[death.service] = found = death.model_copy(update={"offset_s": offset_s})
                self._say(
                    "service", service=found.service, state="died", cause=found.cause, text=found.sentence
                )
            elif death.kills > before.kills:
                self.deaths[death.service] = before.model_copy(update={"kills": death.kills})

    @staticmethod
    def _load_s(times: Timeline) -> float:
        """Return how long after its start the load ended: whatever has died by then died before."""
        return times.real_end_ns / 1e9

    def shares(self, config: CaseConfig, times: Timeline, seed: int) -> list[Share]:
        """Return the share of each generator process for `config`, with the values taken by set-up."""
        known = self._endpoints()
        allowed = allowed_blocks(known.values())
        return build_shares(
            config, seed, times, known, allowed, self.bench.room, self.taken, self.bench.load_cores
        )

    def _set_up(self) -> Taken:
        """Send the requests of set-up; the values taken go into the load's requests, and into no file."""
        config = self.config
        taken = Taken(secret_values(config))
        if not config.set_up:
            return taken
        known = self._endpoints()
        allowed = allowed_blocks(known.values())
        once = {kind: [part for part in config.set_up if part.once == kind] for kind in ("trial", "vu")}
        with self.phase("set-up"):
            share = trial_set_up(config, self.plan.seed, known, allowed, taken)
            if share is not None:
                values = taken_of(self._apart(share)[0].summary, once["trial"], 1)
                taken = Taken({**taken.trial, **{name: one[0] for name, one in values.items()}})
            vus = {}
            for group, each in vu_set_ups(config, self.plan.seed, known, allowed, taken).items():
                vus[group] = taken_of(self._apart(each.share)[0].summary, once["vu"], each.vus)
        return Taken(taken.trial, vus)

    def _apart(self, *shares: Share) -> list[ShareResult]:
        """Return the results of a load that is not part of the trial, without its tables."""
        load = self.load_apart(shares)
        for result in load.results:
            result.tables.unlink(missing_ok=True)
        return load.results

    def load_apart(self, shares: Sequence[Share]) -> Load:
        """Make a load that is not part of the trial. Raise Stopped."""
        load = self.bench.generators.load(
            shares,
            self.bench.tables,
            self.folder.path,
            should_stop=self.bench.should_stop,
            may_end=lambda service, offset_ns: self.may_end(service, None),
        )
        if load.stopped:
            raise Stopped
        return load

    def _endpoints(self) -> dict[str, Endpoint]:
        return case_endpoints(self.config, self.bench.lab.endpoints(), self.bench.permitted)

    def prepare(self, times: Timeline) -> None:
        """Run the steps before the load, in the study's order. Set-up precedes the first with requests."""
        asked = False
        for step in self.config.before_trial:
            if not asked and (step.warm is not None or step.populate is not None):
                self._plant()
                self.taken, asked = self._set_up(), True
            if step.reset:
                with self.phase("reset"):
                    self.proof |= self.bench.lab.reset(step.reset)
            elif step.restart:
                with self.phase("restart"):
                    self.proof |= self._restart(step.restart)
            elif step.drop_cache:
                with self.phase("drop-cache"):
                    for service, found in self.bench.lab.drop_cache(step.drop_cache).items():
                        self.proof[service] = self.proof.get(service, {}) | found
            elif step.warm is not None:
                with self.phase("warm"):
                    self._warm(step, self.shares(self.config, times, self.plan.seed))
            elif step.populate is not None:
                with self.phase("populate"):
                    self._populate(step.populate, step.lasts_ns)
        if not asked:
            self._plant()
            self.taken = self._set_up()

    def _plant(self) -> None:
        if self.fault == NO_HITS:
            planted = [
                service for service in self.bench.lab.facts() if self.bench.lab.plant(service, NO_HITS)
            ]
            self.proof["planted"] = {"fault": NO_HITS, "services": planted}

    def _restart(self, services: Sequence[str]) -> dict[str, dict[str, Any]]:
        restarted = self.bench.lab.restart(services)
        self.bench.attach()
        facts = self.bench.lab.facts()
        return {
            service: {"restarted": restarted, "pids": [process.pid for process in facts[service].processes]}
            for service in services
        }

    def _populate(self, group: Group, lasts_ns: int) -> None:
        """Run the group to its end. Raise SvloadError reset-failed if one of its requests failed: the next
        measurement would not be what was meant."""
        alone = self.config.model_copy(update={"groups": (group,)})
        times = timeline(alone, lasts_ns)
        seed = group_seed(self.plan.seed, "populate", len(self.populated))
        (done,) = merge_summaries(self._apart(*self.shares(alone, times, seed)), [group.name])
        self.populated.append(without_secrets(done, self.config))
        unfinished = group.executor.shape == "finite" and not done.plan_done
        if done.failed or unfinished or not done.ok:
            text = f"{done.ok:,} of {done.due:,} requests of {group.name} were ok"
            why = done.errors or done.status
            late = f", and it did not finish within {show_duration(lasts_ns / 1e9)}" if unfinished else ""
            hosts = " and ".join(sorted(group.hosts))
            raise fail("reset-failed", service=hosts, reason=f"{text}{late} ({why})")

    def _warm(self, step: Preparation, shares: list[Share]) -> None:
        config = self.config
        feeder = next(feeder for feeder in config.feeders if feeder.name == step.warm)
        takers = ((share, at) for share in shares if (at := asks_for(share, feeder.name)) is not None)
        template, at = next(takers)  # a study that warms what nobody requests is refused
        rows = 1 if feeder.take == "first" else row_count(self.bench.tables[feeder.table])
        known = self._endpoints()
        service = step.through or config.groups[template.groups[at]].request.host
        endpoint = next((name for name in (f"http://{service}", f"https://{service}") if name in known), None)
        if endpoint is None:
            reason = "rows are warmed by HTTP, but it has no HTTP address of its own"
            raise fail("reset-failed", service=service, reason=reason)
        share = warm_share(template, at, feeder.name, rows, endpoint, known, allowed_blocks(known.values()))
        done = self._apart(share)[0].summary["groups"][0]
        if done["ok"] != rows and not self._somebody_fell():
            reason = f"{done['ok']} of {rows} rows were warmed ({done['errors'] or done['status']})"
            raise fail("reset-failed", service=service, reason=reason)

    def _somebody_fell(self) -> bool:
        """Return whether the failure is a death that the study takes as a finding: it may be seen a moment
        after the unanswered requests."""
        until = time.monotonic() + FALLEN_WITHIN_S
        while not self.deaths and time.monotonic() < until:
            self._all_alive()
            time.sleep(POLL_S)
        return bool(self.deaths)

    def _settle(self) -> None:
        self.bench.lab.settle(time.monotonic_ns())

    def _wait_for_rest(self) -> None:
        bench = self.bench
        bound_s = RESTLESS_S if bench.restless else BOUND_S
        rests = wait_for_rest(
            roots_of(bench.lab.facts()), self.notice, lambda: bench.should_stop() or bench.overdue, bound_s
        )
        bench.restless = not rests

    def _moment(self, *, ports: bool = False) -> Moment:
        return moment(self.bench.generators.calibrate(), ports=ports)

    def _load(self, shares: list[Share], times: Timeline) -> Load:
        pulses = Pulses(
            self.bench.generators.children(len(shares)) if self.fault == GENERATOR_LIMITED else ()
        )

        def pulse(offset_ns: int) -> None:
            signals = pulses.due(offset_ns, times.end_ns)
            if signals:
                self.bench.agent.prepare(signals)

        planned = self.planned = PlannedFaults(
            self.bench.lab, self.bench.sampler, self.config.services, self.config.faults, times.ramp_ns
        )
        try:
            with self.phase("load"):
                return self.bench.generators.load(
                    shares,
                    self.bench.tables,
                    self.folder.path,
                    self.listener(times),
                    lambda: self.bench.should_stop() or self.bench.overdue or planned.error is not None,
                    pulse if pulses.children else None,
                    self.may_end,
                    planned.begin if self.config.faults else None,
                )
        finally:
            planned.finish()
            self._report_faults()
            if planned.error is not None and not self.bench.should_stop():
                raise planned.error

    def listener(self, times: Timeline) -> Progress:
        """Return what reports the progress of the load, and evaluates the criteria that end it."""
        watch = Watch(self.config, self.bench.latest, times.ramp_ns)
        latest: dict[str, dict[str, Any]] = {}

        def progress(heard: dict[str, dict[str, Any]]) -> None:
            latest.update(heard)
            merged = merge_progress(latest.values())
            self._note_deaths(max(0.0, merged["offset_ns"] / 1e9))
            self._report_faults()
            self._say(
                "progress",
                offset_s=merged["offset_ns"] / 1e9,
                groups=merged["groups"],
                generator_cpu_s=merged["cpu_s"],
                service_cores=self.bench.busy_cores(),
                **watch.held(
                    self.marked_ns, time.monotonic_ns(), merged["groups"], times.load_ns(merged["offset_ns"])
                ),
            )

        return progress

    def _report_faults(self) -> None:
        for event in self.planned.news() if self.planned is not None else ():
            event_words = replace(event, data={"trial": self.plan.trial, **event.data})
            self._journal.write(event_words)
            self.bench.emit(event_words)

    def write(
        self, load: Load, times: Timeline, after: tuple[dict[str, Counters], Moment], readings: Readings
    ) -> None:
        """Write all files of the trial but its seal; remove the load's raw tables."""
        from svload.store import write_trial_tables

        parts, tables = _tables_of(load)
        tables["monitors"] = with_witnesses(readings, ((share.name, found) for share, found in parts))
        write_trial_tables(self.folder.path, tables)
        for result in load.results:
            result.tables.unlink(missing_ok=True)
        write_artefact(self.folder.summary, self._summary(times, load, parts), synced=False)
        facts = self.bench.lab.facts()
        self._doubt_the_machine(tables["intervals"], times)
        lab = TrialLab(
            services=tuple(facts.values()),
            previous_case=self.previous_case,
            whole_plot=self.plan.whole_plot,
            reset=self.proof,
            before=self.before[0],
            after=after[0],
            phases_s=self.phases_s,
            settings=self.bench.lab.settings(),
            deaths=tuple(self.deaths.values()),
            faults=self.planned.events(load.start_at_ns) if self.planned else (),
            conditions=Conditions(
                machine=self.bench.machine,
                before=self.before[1],
                after=after[1],
                awake=self.awake,
                clocks=self.bench.generators.clocks,
            ),
            declared=declarations(facts.values()),
        )
        write_artefact(self.folder.lab, lab, synced=False)

    def data_of(self, load: Load, times: Timeline) -> TrialData:
        """Return a load that is not part of the trial, as analysis reads a trial; without counters."""
        from svload.store.parquet import TrialData, as_arrays

        parts, tables = _tables_of(load)
        nothing = TrialLab(
            services=(), previous_case=None, whole_plot=0, reset={}, before={}, after={}, phases_s={}
        )
        found = {name: as_arrays(table) for name, table in tables.items()}
        return TrialData(
            summary=self._summary(times, load, parts),
            lab=nothing,
            seal=None,
            intervals=found["intervals"],
            histograms=found["histograms"],
            samples=found["samples"],
            rows=found.get("rows", {}),
            monitors={},
        )

    def _doubt_the_machine(self, intervals: AnyTable, times: Timeline) -> None:
        """Measure loopback again if more was received than the preflight found it can carry: the machine may
        have been busy then."""
        known = self.bench.machine.loopback_bytes_per_s
        if known is None:
            return
        import numpy as np  # after the load

        from svload.store.parquet import as_arrays

        read = as_arrays(intervals)
        by_interval = np.bincount(read["interval"].astype(np.int64), weights=read["bytes_received"])
        rate = by_interval.max(initial=0.0) / (times.interval_ns / 1e9)
        found = above(rate / max(self.bench.machine.load_cores, 1), known)
        if found != known:
            self.bench.machine = self.bench.machine.model_copy(update={"loopback_bytes_per_s": found})

    def _summary(
        self, times: Timeline, load: Load, parts: Sequence[tuple[Share, dict[str, RawTable]]]
    ) -> TrialSummary:
        config = self.config
        unauthorised = [name for result in load.results for name in result.summary.get("unauthorised", [])]
        from svload.run.parts import parts_of  # it needs numpy: after the load

        groups = merge_summaries(load.results, [group.name for group in config.groups])
        groups = tuple(without_secrets(group, config) for group in groups)
        window_ns, groups = shortened(times, groups)
        if load.stopped_ns is not None:
            window_ns = times.until(load.stopped_ns)
        own = [tables for _, tables in parts]
        of_generators, places = parts_of(load.results, own, config, window_ns, times.interval_ns)
        return TrialSummary(
            trial=self.plan.trial,
            case=self.plan.case,
            started_wall=time.time() - (time.monotonic_ns() - load.start_at_ns) / 1e9,
            start_at_ns=load.start_at_ns,
            window_ns=window_ns,
            interval_ns=times.interval_ns,
            groups=groups,
            generators=generator_costs(load.results),
            parts=of_generators,
            places=places,
            unauthorised=tuple(sorted(set(unauthorised))),
            populated=tuple(self.populated),
            stopped=self._how_ended(load, times),
            seed=self.plan.seed,
            turns=self.turns,
        )

    def _how_ended(self, load: Load, times: Timeline) -> Literal["end", "stop_fd", "interrupted"]:
        if load.stopped_ns is None or load.stopped_ns >= times.real_end_ns:
            return "end"
        return "stop_fd" if self._is_cut(load) else "interrupted"

    def seal(self, load: Load) -> Seal:
        """Seal what was written."""
        groups = merge_summaries(load.results, [group.name for group in self.config.groups])
        counts = ("due", "begun", "waiting", "dropped", "ok", "failed", "in_flight")
        facts = {
            "start_at_ns": load.start_at_ns,
            "shares": len(load.results),
            "groups": {group.name: {key: getattr(group, key) for key in counts} for group in groups},
        }
        return seal_trial(
            self.folder,
            case=self.plan.case,
            replicate=self.plan.replicate,
            block=self.plan.block,
            attempt=self.attempt,
            svload_version=svload.__version__,
            facts=facts,
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begun
            self.phases_s[name] = round(self.phases_s.get(name, 0.0) + seconds, 6)
            self._say("trial-phase", name=name, seconds=round(seconds, 6))
        if self.bench.should_stop() and name != "load":
            raise Stopped

    def notice(self, text: str) -> None:
        """Emit a sentence."""
        self._say("notice", text=text)

    def _say(self, kind: EventKind, **data: object) -> None:
        event = Event(kind, {"trial": self.plan.trial, **data})
        self._journal.write(event)
        self.bench.emit(event)


def _tables_of(load: Load) -> tuple[list[tuple[Share, dict[str, RawTable]]], dict[str, AnyTable]]:
    """Return each share with its tables, and the tables of all shares merged."""
    from svload.store import merge_shares, read_tables

    parts = [(result.share, read_tables(result.tables)) for result in load.results]
    return parts, merge_shares([(share.groups, found) for share, found in parts])
