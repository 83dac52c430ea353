"""One trial: reset, warm, count, load, count again, seal. Hands only: what to run is decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import svload
from svload.drive.generators import Generators, Load
from svload.drive.requests import Taken
from svload.drive.set_up import taken_of, trial_set_up, vu_set_ups
from svload.drive.shares import Share, Timeline, asks_for, build_shares, shortened, timeline, warm_share
from svload.drive.targets import Target, allowed_blocks
from svload.drive.totals import generator_costs, merge_summaries
from svload.drive.witness import with_witnesses
from svload.host import Agent
from svload.host.awake import awake
from svload.host.conditions import moment
from svload.lab import Lab
from svload.model.conditions import Conditions, Machine, Moment
from svload.model.errors import SvloadError, fail
from svload.model.events import Event, EventKind
from svload.model.facts import Counters, Endpoint, TrialLab
from svload.model.plan import Room, TrialPlan
from svload.model.results import TrialSummary
from svload.model.seals import Seal
from svload.model.study import CaseConfig, Step
from svload.run.faults import GENERATOR_LIMITED, NO_HITS, Pulses, planted_config
from svload.run.inputs import row_count
from svload.run.secrets import secret_values, without_secrets
from svload.run.targets import case_endpoints
from svload.store import Journal, TrialDir, seal_trial, write_artefact
from svload.watch import Sampler

Emit = Callable[[Event], None]
RESTING = "connections at rest"
"""Where lab.json says how many connections in TIME_WAIT were ended before the trial, among the resets."""


@dataclass
class Bench:
    """What trials of a run share: the hands, the lab, and where things are."""

    agent: Agent
    lab: Lab
    generators: Generators
    sampler: Sampler
    tables: Mapping[str, Path]
    permitted: Mapping[Target, Endpoint]
    room: Room
    machine: Machine
    load_cores: int
    emit: Emit
    should_stop: Callable[[], bool]


class Stopped(Exception):
    """The user stopped the trial; what it left, and measured so far, is kept under attempts/ without a seal."""


@dataclass
class TrialRun:
    """One attempt at one trial. `run` returns its seal or raises SvloadError (lab, generator) or Stopped."""

    bench: Bench
    plan: TrialPlan
    config: CaseConfig
    duration_ns: int
    folder: TrialDir
    attempt: int
    previous_case: str | None
    fault: str | None = None
    stay_awake: bool = False
    phases_s: dict[str, float] = field(default_factory=dict)
    marked_ns: int = 0
    awake: bool = False

    def run(self) -> Seal:
        """All phases in order; the seal is the last write."""
        self.folder.path.mkdir()
        with Journal(self.folder.events) as journal:
            self._journal = journal
            self._say("trial-started", case=self.plan.case, attempt=self.attempt)
            self._all_alive()
            config = planted_config(self.config, self.fault, self.duration_ns)
            times = timeline(config, self.duration_ns)
            with self._phase("reset"):
                proof = self._reset(config)
            taken = self._set_up(config)
            shares = self._shares(config, times, taken)
            with self._phase("warm"):
                self._warm(config, shares)
            with awake(self.stay_awake) as self.awake:
                load = self._measure(config, times, shares, proof)
            self._say("trial-phase", name="seal")
        return self._seal(load)

    def _measure(
        self, config: CaseConfig, times: Timeline, shares: list[Share], proof: dict[str, dict[str, Any]]
    ) -> Load:
        """Count, load, count again, write. Raises Stopped."""
        with self._phase("count"):
            self._settle()
            if ended := self.bench.lab.free_ports():
                proof[RESTING] = {"ended": ended}
            before = self.bench.lab.counters(), self._moment(ports=True)
            self.marked_ns = self.bench.sampler.mark()
        load = self._load(shares, times)
        if load.stopped:
            if load.results:
                self._write(config, times, load, proof, before, ({}, self._moment()))
            raise Stopped
        with self._phase("settle"):
            self._settle()
            after = self.bench.lab.counters(), self._moment()
        self._all_alive()
        with self._phase("write"):
            self._write(config, times, load, proof, before, after)
        return load

    def _all_alive(self) -> None:
        """Raises SvloadError service-died: what was asked of a dead server is no measurement of it, and not of the next trial either."""
        if died := self.bench.lab.alive():
            raise SvloadError(*died)

    def _shares(self, config: CaseConfig, times: Timeline, taken: Taken) -> list[Share]:
        known = self._endpoints()
        allowed = allowed_blocks(known.values())
        return build_shares(
            config, self.plan.seed, times, known, allowed, self.bench.room, taken, self.bench.load_cores
        )

    def _set_up(self, config: CaseConfig) -> Taken:
        """Ask what set-up asks; what it took goes into the load's requests and is written nowhere."""
        taken = Taken(secret_values(config))
        if not config.set_up:
            return taken
        known = self._endpoints()
        allowed = allowed_blocks(known.values())
        once = {kind: [part for part in config.set_up if part.once == kind] for kind in ("trial", "vu")}
        with self._phase("set-up"):
            share = trial_set_up(config, self.plan.seed, known, allowed, taken)
            if share is not None:
                values = taken_of(self._apart(share), once["trial"], 1)
                taken = Taken({**taken.trial, **{name: one[0] for name, one in values.items()}})
            vus = {}
            for group, each in vu_set_ups(config, self.plan.seed, known, allowed, taken).items():
                count = each.spec["groups"][0]["executor"]["vus"]
                vus[group] = taken_of(self._apart(each), once["vu"], count)
        return Taken(taken.trial, vus)

    def _apart(self, share: Share) -> dict[str, Any]:
        """The summary of a load that is no part of the trial's."""
        load = self.bench.generators.load(
            [share], self.bench.tables, self.folder.path, should_stop=self.bench.should_stop
        )
        if load.stopped:
            raise Stopped
        load.results[0].tables.unlink(missing_ok=True)
        return load.results[0].summary

    def _endpoints(self) -> dict[str, Endpoint]:
        return case_endpoints(self.config, self.bench.lab.endpoints(), self.bench.permitted)

    def _reset(self, config: CaseConfig) -> dict[str, dict[str, Any]]:
        services = [service for step in config.before_trial for service in step.reset]
        proof = self.bench.lab.reset(services) if services else {}
        if self.fault == NO_HITS:
            planted = [
                service for service in self.bench.lab.facts() if self.bench.lab.plant(service, NO_HITS)
            ]
            proof["planted"] = {"fault": NO_HITS, "services": planted}
        return proof

    def _warm(self, config: CaseConfig, shares: list[Share]) -> None:
        for step in config.before_trial:
            if step.warm is not None:
                self._warm_step(step, config, shares)

    def _warm_step(self, step: Step, config: CaseConfig, shares: list[Share]) -> None:
        feeder = next(feeder for feeder in config.feeders if feeder.name == step.warm)
        takers = ((share, at) for share in shares if (at := asks_for(share, feeder.name)) is not None)
        template, at = next(takers, (None, 0))
        if template is None:
            return
        rows = 1 if feeder.take == "first" else row_count(self.bench.tables[feeder.table])
        known = self._endpoints()
        service = step.through or config.groups[template.groups[at]].request.host
        endpoint = next(name for name in (f"http://{service}", f"https://{service}") if name in known)
        share = warm_share(template, at, feeder.name, rows, endpoint, known, allowed_blocks(known.values()))
        done = self._apart(share)["groups"][0]
        if done["ok"] != rows:
            reason = f"{done['ok']} of {rows} rows were warmed ({done['errors'] or done['status']})"
            raise fail("reset-failed", service=service, reason=reason)

    def _settle(self) -> None:
        self.bench.lab.settle(time.monotonic_ns())

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

        def progress(merged: dict[str, Any]) -> None:
            self._say(
                "progress",
                offset_s=merged["offset_ns"] / 1e9,
                groups=merged["groups"],
                generator_cpu_s=merged["cpu_s"],
                service_cores=self.bench.sampler.busy_cores(),
            )

        with self._phase("load"):
            return self.bench.generators.load(
                shares,
                self.bench.tables,
                self.folder.path,
                progress,
                self.bench.should_stop,
                pulse if pulses.children else None,
            )

    def _write(
        self,
        config: CaseConfig,
        times: Timeline,
        load: Load,
        proof: dict[str, dict[str, Any]],
        before: tuple[dict[str, Counters], Moment],
        after: tuple[dict[str, Counters], Moment],
    ) -> None:
        from svload.store import merge_shares, read_tables, write_trial_tables

        parts = [(result.share, read_tables(result.tables)) for result in load.results]
        tables = merge_shares([(share.groups, found) for share, found in parts])
        end_ns = load.start_at_ns + times.end_ns
        readings = self.bench.sampler.readings(self.marked_ns, end_ns, load.start_at_ns)
        tables["monitors"] = with_witnesses(readings, ((share.name, found) for share, found in parts))
        write_trial_tables(self.folder.path, tables)
        for result in load.results:
            result.tables.unlink(missing_ok=True)
        write_artefact(self.folder.summary, self._summary(config, times, load))
        facts = self.bench.lab.facts()
        lab = TrialLab(
            services=tuple(facts.values()),
            previous_case=self.previous_case,
            whole_plot=self.plan.whole_plot,
            reset=proof,
            before=before[0],
            after=after[0],
            phases_s=self.phases_s,
            conditions=Conditions(
                machine=self.bench.machine, before=before[1], after=after[1], awake=self.awake
            ),
        )
        write_artefact(self.folder.lab, lab)

    def _summary(self, config: CaseConfig, times: Timeline, load: Load) -> TrialSummary:
        unauthorised = [name for result in load.results for name in result.summary.get("unauthorised", [])]
        groups = merge_summaries(load.results, [group.name for group in config.groups])
        groups = tuple(without_secrets(group, config) for group in groups)
        window_ns, groups = shortened(times, groups)
        if load.stopped_ns is not None:
            window_ns = times.until(load.stopped_ns)
        return TrialSummary(
            trial=self.plan.trial,
            case=self.plan.case,
            started_wall=time.time() - (time.monotonic_ns() - load.start_at_ns) / 1e9,
            start_at_ns=load.start_at_ns,
            window_ns=window_ns,
            interval_ns=times.interval_ns,
            groups=groups,
            generators=generator_costs(load.results),
            unauthorised=tuple(sorted(set(unauthorised))),
            stopped="stop_fd" if load.stopped else "end",
            seed=self.plan.seed,
        )

    def _seal(self, load: Load) -> Seal:
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
    def _phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begun
            self.phases_s[name] = round(self.phases_s.get(name, 0.0) + seconds, 6)
            self._say("trial-phase", name=name, seconds=round(seconds, 6))
        if self.bench.should_stop() and name != "load":
            raise Stopped

    def _say(self, kind: EventKind, **data: object) -> None:
        event = Event(kind, {"trial": self.plan.trial, **data})
        self._journal.write(event)
        self.bench.emit(event)
