"""All trials of a run: start of the lab, fill, order, attempts, resume, clean end. `execute` is the only
entry point, for run, resume and demo."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.analysis.estimate import load_seconds
from svload.analysis.turn_plan import seconds_apart
from svload.drive.packing import name_of, packed
from svload.host import Agent, CoreSplit, describe_machine, labs_dir, machine_lock, split_cores
from svload.host.machine.conditions import machine
from svload.host.machine.preflight import preflight
from svload.lab import Lab, machines_of, needs_own_network
from svload.lab.kit import LOOPBACK
from svload.model.bounds import VUS
from svload.model.certificates import Certificates
from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.events import Event, EventKind
from svload.model.plan import Batch, Placement, Room, TrialPlan
from svload.model.study import CaseConfig, Lock
from svload.model.summaries import TrialSummary
from svload.model.units import show_size
from svload.run.aborting import abort_of
from svload.run.attempts import keep_attempt, keep_logs, keep_unfinished, name_kept_logs
from svload.run.block import BlockRun, Planned
from svload.run.configs import case_config
from svload.run.filling import fill
from svload.run.fleet import FleetHands, gather, must_be_reached, must_bear
from svload.run.hands import EarlyHands, Hands, start_hands
from svload.run.interrupts import interrupts
from svload.run.labs import Labs
from svload.run.leftovers import put_back, report_leftovers
from svload.run.order import FAILURES_IN_A_ROW, next_trial
from svload.run.planned import live_limits
from svload.run.policies.base import Policy, Sealed, Verdicts
from svload.run.policies.of_study import first_batch, is_bounded, policy_of, so_far_of
from svload.run.sampled import what_is_lacking
from svload.run.sides import SideBench, must_fit_beside, side_names
from svload.run.targets import named_endpoints, permitted_targets, several_addresses
from svload.run.trial import Bench, Stopped, TrialRun
from svload.run.trust import allow
from svload.store import Journal, RunDir, write_artefact
from svload.store.seal import journal_mark, sha256_file
from svload.study.order import draw, sets_of_turns, turned_factor

if TYPE_CHECKING:
    from svload.host.machines.reach import Reach

Emit = Callable[[Event], None]
Judge = Callable[[RunDir, str], dict[str, Any]]
"""Returns the data of the `trial-sealed` event for (run, trial): the provisional verdict. It is passed in, so
that this package only acts."""
DISK_RESERVE = 1.2
PATIENCE_S = 10.0
"""Servers that already run must accept a connection within this, or within the timeout of their requests."""
SAMPLE_INTERVAL_S = 0.2
_SEARCH_TRIALS, _BESIDE_S = 30, 1.5
"""Trials of a search, and the time of a trial beside its load; only for an estimate."""


@dataclass
class Outcome:
    """How an execution ended. `complete` means that every planned trial is sealed."""

    exit_code: ExitCode
    sealed: int
    planned: int
    complete: bool
    unauthorised: tuple[str, ...] = ()
    error: SvloadError | None = None


@dataclass
class Options:
    """The user's choices for this execution; nothing here changes what is measured.

    `judge` gives the provisional verdict on a trial; `verdicts` gives the final ones where a `policy` (None:
    the study's own) decides what follows once all is sealed. `authorised` are the hosts outside this machine
    that the user allows, whatever a lock says; `trusted`: the study is the user's own. `early` are hands that
    are already being started. `abort_if` is called at every event: an error stops the load immediately, ends
    the execution and becomes its outcome's. `look_round` warns of other users of the machine before anything
    is started; with `wait_quiet_s` it waits at most that long for them. `host_settings`: settings of the
    whole machine may be changed, and are put back. `reaches` are other machines that make the load (none:
    this one).
    """

    emit: Emit
    judge: Judge
    verdicts: Callable[[RunDir], Verdicts] = lambda run: Verdicts()
    policy: Policy | None = None
    abort_if: Callable[[Event], SvloadError | None] = lambda event: None
    early: EarlyHands | None = None
    wait_for_machine_s: float | None = None
    look_round: bool = False
    wait_quiet_s: float = 0.0
    need_bytes: int = 0
    authorised: tuple[str, ...] = ()
    host_settings: bool = False
    trusted: bool = False
    reaches: tuple[Reach, ...] = ()


def begin(
    lock: Lock, out: Path, certificates: Certificates | None = None, batch: Batch | None = None
) -> RunDir:
    """Create a new run's folder with its lock, its first batch and the certificates that are now valid,
    before anything is started.

    `batch` replaces the study's own. Raise SvloadError.
    """
    folder = str(Path(lock.study_dir).absolute())
    lock = lock.model_copy(update={"study_dir": folder, "nonce": secrets.token_hex(16)})
    allow(lock)
    first = batch or first_batch(lock)
    run = RunDir.create(out, lock.name, lock.profile)
    try:
        write_artefact(run.certificates_path, certificates or Certificates())
        if batch is not None:
            write_artefact(run.batch_path(0), batch)
        write_artefact(run.lock_path, lock)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    if batch is None:  # a run killed here makes its plan from its lock
        write_artefact(run.batch_path(0), first)
    return run


def execute(run: RunDir, options: Options) -> Outcome:
    """Run every trial that is not sealed yet; can be called after any crash. A failing lab never raises."""
    lock = run.lock()
    with Journal(run.events) as journal, interrupts() as stop:

        def emit(event: Event) -> None:
            if event.kind not in ("progress", "trial-phase"):
                journal.write(event)
            options.emit(event)
            if not stop.is_set() and (error := options.abort_if(event) or abort_of(event)) is not None:
                execution.aborted = error
                stop.set()

        execution = _Execution(run, lock, options, emit, stop)
        try:
            execution.go()
        except SvloadError as error:
            execution.error = error
        except OSError as why:
            execution.error = fail("file-refused", path=why.filename or run.path, reason=why.strerror or why)
        if execution.gone():
            execution.error = fail("run-gone", path=run.path)
        for problem in execution.error.problems if execution.error else ():
            problem.details.setdefault("run", run.path)
        outcome = execution.outcome()
        data = {"exit_code": int(outcome.exit_code), "sealed": outcome.sealed, "complete": outcome.complete}
        seconds = time.monotonic() - execution.begun
        emit(Event("run-ended", data | {"seconds": seconds, "journal": journal_mark(run)}))
        journal.sync()
        if outcome.complete:
            run.make_latest()
        return outcome


@dataclass
class _Execution:
    run: RunDir
    lock: Lock
    options: Options
    emit: Emit
    stop: threading.Event
    begun: float = field(default_factory=time.monotonic)
    error: SvloadError | None = None
    aborted: SvloadError | None = None
    last_failure: SvloadError | None = None
    failures: dict[str, int] = field(default_factory=dict)
    in_a_row: int = 0
    unauthorised: set[str] = field(default_factory=set)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    advised: bool = False
    previous_case: str | None = None
    lab_broken: bool = False
    sides: dict[str, SideBench] = field(default_factory=dict)
    turns: dict[tuple[str, ...], Planned] = field(default_factory=dict)
    waits_since: float | None = None
    measures_since: float = inf
    load_cores: int = field(init=False)
    labs: Labs = field(init=False)
    configs: dict[str, CaseConfig] = field(init=False)
    """By case and point, for every trial planned so far."""
    folder: os.stat_result = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.run.path.stat()
        self.load_cores = len(split_cores(os.sched_getaffinity(0)).load)
        self.configs = {}

    def _most_trials(self) -> int:
        """Return the number with all blocks that a gate may add; 0 for a search, whose end is unknown."""
        from svload.analysis.contrasts import most_trials

        return 0 if self.lock.search else most_trials(self.lock)

    def go(self) -> None:
        self._have_plan()
        self._enough_disk()
        keep_unfinished(self.run, self._made_together())  # a block that is partly sealed is made again
        self._say("run-started", run=self.run.name, study=self.lock.name, profile=self.lock.profile, seed=self.lock.seed,
                  trials=len(self.run.planned_trials()), sealed=len(self.run.sealed_trials()), plants=self.lock.plants,
                  machine=describe_machine(), most_trials=self._most_trials(),
                  within_s=self.lock.measure.within_s)  # fmt: skip
        if self._next() is None:
            return
        for trial in self.run.planned_trials():
            self._config(trial)
        with ExitStack() as stack:
            self._standing_servers_answer()
            stack.enter_context(
                machine_lock(
                    f"svload run {self.run.name}",
                    self.options.wait_for_machine_s,
                    self._waiting,
                    should_stop=self.stop.is_set,
                    lasts_s=self._lasts_s(),
                )
            )
            if self.waits_since is not None:
                seconds = time.monotonic() - self.waits_since
                self._say("phase", name="waiting", state="end", seconds=seconds)
            put_back(self.emit)  # also of a run that was killed while this one waited for the machine
            self._look_round()
            if self.stop.is_set():
                return
            self.measures_since = time.monotonic()
            ends_by_s = self.measures_since + self._measuring_s()
            bench = self._bring_up(stack)
            bench.ends_by_s = ends_by_s
            while (found := self._next()) is not None and not self.stop.is_set():
                self._rest(found[1])
                if not self.stop.is_set():
                    self._attempt(bench, found[1])

    def gone(self) -> bool:
        """Return whether the run's folder is no longer that of the start: later results would be lost."""
        try:
            now = self.run.path.stat()
        except FileNotFoundError:
            return True
        same = (now.st_ino, now.st_dev) == (self.folder.st_ino, self.folder.st_dev)
        return not (same and self.run.lock_path.exists())

    def outcome(self) -> Outcome:
        gone = self.gone()
        planned = self.run.planned_trials()
        sealed = set() if gone else set(self.run.sealed_trials())
        complete = not gone and self.run.is_complete()
        codes = [ExitCode.DONE if complete or self.aborted is not None else ExitCode.LAB_FAILED]
        if self.error is not None:
            codes.append(self.error.exit_code)
        if self.unauthorised:
            codes.append(ExitCode.USAGE)
        stopped = self.stop.is_set() and not complete
        if self.aborted is not None:
            codes.append(self.aborted.exit_code)
        elif stopped:
            codes.append(ExitCode.INTERRUPTED)
        error = self.error or self.aborted
        if not (complete or stopped):
            error = error or self.last_failure
        return Outcome(
            ExitCode.worst(codes),
            len(sealed),
            len(planned),
            complete,
            tuple(sorted(self.unauthorised)),
            error,
        )

    # set-up

    def _standing_servers_answer(self) -> None:
        """Check that servers that already run accept a connection, before this run queues for the machine.
        Raise SvloadError."""
        from svload.lab.kits.external import ExternalOptions, must_answer

        patience_s = min(PATIENCE_S, self._longest_timeout_s())
        specs = [spec for config in self.configs.values() for spec in config.services]
        for spec in {str(one.options): one for one in specs}.values():
            at = str(spec.options.get("at", ""))
            if spec.kit == "external" and "on" not in spec.options and "${" not in at:
                must_answer(spec.name, ExternalOptions.model_validate(spec.options), patience_s)

    def _measuring_s(self) -> float:
        """Return a bounded search's time for measuring, without that for its answer; infinite otherwise."""
        measuring_s = self.lock.search.measuring_s if self.lock.search is not None else None
        return inf if measuring_s is None else measuring_s

    def _lasts_s(self) -> float:
        """Return about how long this run holds the machine, for those who wait for it."""
        if self.lock.search is not None:
            return self.lock.search.within_s or _SEARCH_TRIALS * (
                self.lock.measure.duration_ns / 1e9 + _BESIDE_S
            )
        sealed = set(self.run.sealed_trials())
        left = [self._config(one) for one in self.run.planned_trials() if one.trial not in sealed]
        lasts_s = sum(load_seconds(one) + _BESIDE_S for one in left)
        return max(lasts_s, self.lock.measure.within_s or 0.0) if is_bounded(self.lock) else lasts_s

    def _enough_disk(self) -> None:
        """Check that the trials that are not sealed yet have room. Raise SvloadError disk-full."""
        free = shutil.disk_usage(self.run.path).free
        planned, sealed = self.run.planned_trials(), set(self.run.sealed_trials())
        left = sum(one.trial not in sealed for one in planned) / max(len(planned), 1)
        need = self.options.need_bytes * DISK_RESERVE * left
        if need > free:
            raise fail("disk-full", need=show_size(need), path=self.run.path, free=show_size(free))

    def _look_round(self) -> None:
        """Warn of a shared machine, or wait until it is quiet: before the servers and the load start, whose
        CPU is this run's."""
        if not self.options.look_round and not self.options.wait_quiet_s:
            return
        from svload.run.quiet import LOOK_S, wait_for_quiet, warning
        from svload.watch.look import look_round

        look = partial(look_round, LOOK_S, self._wait_and_load)

        with self._phase("look"):
            if self.options.wait_quiet_s:
                wait_for_quiet(self.options.wait_quiet_s, look, self._notice, self.stop.is_set)
            elif text := warning(look()):
                self._notice(text)

    def _wait_and_load(self, seconds: float) -> None:
        """Wait, and meanwhile load what the first trial's verdict needs: half a second that would follow it."""
        ends = time.monotonic() + seconds
        import svload.analysis.judge
        import svload.store.parquet  # noqa: F401

        self.stop.wait(max(ends - time.monotonic(), 0.0))

    def _have_plan(self) -> None:
        """Plan a run that was killed before its plan, from the lock's seed. Raise SvloadError run-damaged."""
        path = self.run.batch_path(0)
        if not path.exists():
            if self.run.batches() or self.run.sealed_trials():
                raise fail("run-damaged", path=path, reason="the plan's first batch is missing")
            write_artefact(path, first_batch(self.lock))
            self._say("notice", text=f"{path} was missing; the plan is made again from the run's lock")
        for folder in (self.run.trials, self.run.attempts):
            folder.mkdir(exist_ok=True)

    def _bring_up(self, stack: ExitStack) -> Bench:
        first = self._next()
        assert first is not None
        looked_up: dict[str, list[str]] = {}
        permitted = permitted_targets(self.configs.values(), self.options.authorised, looked_up)
        for text in several_addresses(permitted, looked_up):
            self._notice(text)
        config = self._config(first[1])
        hands = self._hands(stack)
        agent, cores = hands.agent, hands.cores
        stack.push(partial(self._keep_words, agent.dir))
        fleet = self._fleet(stack, agent)
        stack.enter_context(agent.joined())
        room = hands.machine.room(VUS.most) if fleet is None else fleet.room
        pinned = cores.servers if cores.pinned and fleet is None else None
        self._place(agent, cores, room, fleet)
        patience_s = min(PATIENCE_S, self._longest_timeout_s())
        limited = live_limits(list(self.configs.values()))
        study_dir = Path(self.lock.study_dir)
        self.labs = Labs(
            stack,
            agent,
            pinned,
            self.emit,
            study_dir,
            self.stop.is_set,
            patience_s,
            self.options.host_settings,
            limited,
            self.options.trusted,
            address=LOOPBACK if fleet is None else fleet.address,
            elsewhere=fleet.places(
                study_dir, self.emit, self.stop.is_set, patience_s, limited, self.options.trusted
            )
            if fleet is not None
            else {},
        )
        side = self._side_of(first[1])
        lab = self.labs.make(config, side)
        if not self.in_turns:  # whose sides are started before each block
            with self._phase("up"):
                lab.up()
        if fleet is not None:
            must_be_reached({**lab.endpoints(), **named_endpoints(permitted)}, self.options.reaches)
        tables = {} if self.in_turns else dict(self._filled(config, lab, {}))
        if fleet is not None:
            hands.sampler.elsewhere = fleet.watched()
        hands.sampler.start(lab.facts(), SAMPLE_INTERVAL_S)
        for text in what_is_lacking(self.configs.values()):
            self._notice(text)
        can = machine(*preflight()) if fleet is None else fleet.machine
        bench = Bench(
            agent,
            lab,
            hands.generators if fleet is None else fleet.generators,
            hands.sampler,
            tables,
            permitted,
            room,
            can,
            self.load_cores,
            self.emit,
            self.stop.is_set,
            pinned,
        )
        if self.in_turns:
            self.sides[side] = SideBench.of(bench, lab, side, self.sides)
        return bench

    def _keep_words(self, lab: Path, kind: object, error: BaseException | None, trace: object) -> None:
        """Before the lab's folder is removed, keep the logs that the error names with the run."""
        if isinstance(error, SvloadError):
            name_kept_logs(lab, self.run.path / "logs", error)

    def _longest_timeout_s(self) -> float:
        groups = [group for config in self.configs.values() for group in config.groups]
        return max((group.longest_timeout_ns for group in groups), default=0) / 1e9 or PATIENCE_S

    def _hands(self, stack: ExitStack) -> Hands:
        """Return agent, generators and sampler, closed with the stack: those started before, or new ones."""
        count = 0 if self.options.reaches else max(len(shares) for shares in self._shares())
        if self.options.early is not None:
            hands = self.options.early.take()
        else:
            folder = labs_dir() / f"{self.run.name}-{os.getpid()}"
            own_network = any(map(needs_own_network, self.configs.values()))
            hands = start_hands(folder, f"run {self.run.name}", count, own_network)
        stack.callback(hands.close)
        hands.generators.ensure(count)
        return hands

    def _fleet(self, stack: ExitStack, agent: Agent) -> FleetHands | None:
        """Return the machines that make the load instead of this one; None without an inventory."""
        if not self.options.reaches:
            return None
        with self._phase("fleet"):
            on = machines_of(self.configs.values())
            fleet = gather(
                stack, self.options.reaches, self.run.name, agent.dir / "fleet", agent, VUS.most, on
            )
        for text in fleet.notices:
            self._notice(text)
        for name, left in fleet.left:
            report_leftovers(left, self.emit, name)
        must_bear(self.configs.values(), fleet.machine, self.lock.study_dir)
        self.load_cores = len(fleet.generators.seats)
        return fleet

    def _shares(self) -> list[list[str]]:
        """Return by case the names of its shares, one generator process each."""
        return [
            [name_of(config, parts) for parts in packed(config, self.load_cores)]
            for config in self.configs.values()
        ]

    def _place(self, agent: Agent, cores: CoreSplit, room: Room, fleet: FleetHands | None) -> None:
        shares = sorted({share for shares in self._shares() for share in shares})
        here = fleet is None
        placement = Placement(
            machines={agent.machine: tuple(shares)} if fleet is None else fleet.placed(self._shares()),
            load_cores=cores.load if here else (),
            server_cores=cores.servers if here else tuple(agent.cores),
            pinned=cores.pinned and here,
            room=room,
            apart=any(not reach.here for reach in self.options.reaches),
            sites={}
            if fleet is None
            else {reach.name: reach.site for reach in self.options.reaches if reach.site},
        )
        digest = hashlib.sha256(placement.to_json().encode("utf-8", "backslashreplace")).hexdigest()
        self._say("placement", sha256=digest)
        write_artefact(self.run.placement_path, placement)

    def _filled(self, config: CaseConfig, lab: Lab, have: Mapping[str, Path]) -> Mapping[str, Path]:
        return fill(self.run, lab, config, self.lock.seed, have, self._phase)

    # the loop

    def _next(self) -> tuple[Batch, TrialPlan] | None:
        self._still_there()
        sealed = set(self.run.sealed_trials())
        batches = self.run.batches()
        for batch in batches:
            trial = next_trial(batch, sealed, self.failures)
            if trial is not None:
                return batch, trial
        return self._next_batch(batches, sealed)

    def _next_batch(self, batches: tuple[Batch, ...], sealed: set[str]) -> tuple[Batch, TrialPlan] | None:
        policy = self.options.policy or policy_of(self.lock)
        if policy is None or not sealed:
            return None
        seals = {name: sha256_file(self.run.trial(name).seal) for name in sealed}
        known = Sealed(batches, seals, self.options.verdicts(self.run))
        batch = policy(self.lock, known)
        if batch is None:
            return None
        write_artefact(self.run.batch_path(batch.number), batch)
        self.lock = self.run.lock()
        result = so_far_of(self.lock, known)
        self._say("batch", number=batch.number, trials=len(batch.trials), because=batch.because, **result)
        return batch, batch.trials[0]

    def _attempt(self, bench: Bench, plan: TrialPlan) -> None:
        made = self._made_with(plan)
        attempts = {one.trial: self.run.next_attempt(one.trial) for one in made}
        begun = time.monotonic()
        try:
            if self.lab_broken:
                self._mend(bench)
            if self.in_turns:
                self._take_turns(bench, made, attempts)
            else:
                self._alone(bench, plan, attempts[plan.trial])
        except Stopped:
            self._stopped(attempts)
        except SvloadError as error:
            if error.exit_code is ExitCode.INTERRUPTED:  # while something waited for a server
                self._stopped(attempts)
            else:
                self._failed(bench, attempts, error)
        except OSError as why:
            hint = "Fix the cause; the trial is retried once."
            self._failed(bench, attempts, fail("lab-failed", reason=str(why), hint=hint))
        else:
            self.in_a_row = 0
            seconds = (time.monotonic() - begun) / len(made)
            for one in made:
                self._judged(one, seconds)
            if self.unauthorised:
                self.stop.set()

    def _alone(self, bench: Bench, plan: TrialPlan, attempt: int) -> None:
        config = self._config(plan)
        bench.generators.ensure(len(packed(config, self.load_cores)))
        if bench.lab.apply(
            config.services, restart=plan.restart, objects=config.objects, sysctl=config.sysctl
        ):
            bench.attach()
        bench.tables.update(self._filled(config, bench.lab, bench.tables))
        self._trial(bench, plan, attempt).run()
        self.previous_case = plan.case

    def _trial(self, bench: Bench, plan: TrialPlan, attempt: int) -> TrialRun:
        folder, fault = self.run.trial(plan.trial), self.lock.plants.get(plan.case)
        return TrialRun(bench, plan, self._config(plan), folder, attempt, self.previous_case, fault)

    def _judged(self, plan: TrialPlan, seconds: float) -> None:
        """Report the verdict on a sealed trial."""
        beside_s = seconds - load_seconds(self._config(plan))
        verdict = self.options.judge(self.run, plan.trial)
        self.unauthorised.update(verdict.pop("unauthorised", ()))
        self._say("trial-sealed", trial=plan.trial, case=plan.case, seconds=seconds, beside_s=beside_s,
                  **verdict)  # fmt: skip
        self._advise(verdict)

    def _advise(self, verdict: dict[str, Any]) -> None:
        """Once per run, give advice if several trials in a row are refused, except for planted faults."""
        from svload.run.refusals import IN_A_ROW, advice

        self.verdicts = [*self.verdicts[1 - IN_A_ROW :], verdict]
        if not self.advised and not self.lock.plants and (text := advice(self.verdicts)):
            self.advised = True
            self._notice(text)

    def _still_there(self) -> None:
        if self.gone():
            raise fail("run-gone", path=self.run.path)

    def _stopped(self, attempts: Mapping[str, int]) -> None:
        for trial, attempt in attempts.items():
            keep_attempt(self.run, trial, attempt, "stopped")
            self._say("trial-stopped", trial=trial)
        self.stop.set()

    def _failed(self, bench: Bench, attempts: Mapping[str, int], error: SvloadError) -> None:
        self._still_there()
        problem = error.problems[0]
        for trial, attempt in attempts.items():
            keep_attempt(self.run, trial, attempt, "failed", problem.sentence)
            self.failures[trial] = self.failures.get(trial, 0) + 1
        first, number = next(iter(attempts.items()))
        logs = keep_logs(bench.agent.dir, self.run.attempt(first, number).path / "logs")
        for one in error.problems:
            one.details.update(run=self.run.path, log=logs)
        self.last_failure = error
        self.in_a_row += 1
        self.lab_broken = True
        if error.exit_code is not ExitCode.LAB_FAILED or problem.code == "agent-lost":
            raise error  # it ends the run, and is printed there
        for trial in attempts:
            self._say("trial-failed", trial=trial, code=problem.code, sentence=problem.sentence)
        if self.in_a_row >= FAILURES_IN_A_ROW:
            raise SvloadError(*fail("lab-failed-thrice", run=self.run.path).problems, *error.problems)

    def _mend(self, bench: Bench) -> None:
        """Restart the whole lab after a failure, which may have left anything behind."""
        bench.generators.restart()
        if not self.in_turns:  # sides are restarted in any case
            bench.lab.apply(bench.lab.specs, restart=True)
            bench.attach()
        self.lab_broken = False

    # sides that take turns

    @property
    def in_turns(self) -> bool:
        """Whether the trials of a block are made together."""
        return self.lock.measure.order == "turns"

    def _side_of(self, plan: TrialPlan) -> str:
        """Return the name of a trial's side; empty if it is made alone."""
        if not self.in_turns:
            return ""
        turned = turned_factor(self.lock)
        if not turned:  # of an A/A run: replicates 2k − 1 and 2k
            return "12"[(plan.replicate - 1) % 2]
        factor = next(one for one in self.lock.factors if one.name == turned)
        return side_names([level.name for level in factor.levels])[self.lock.case(plan.case).levels[turned]]

    def _made_with(self, plan: TrialPlan) -> list[TrialPlan]:
        """The trials that are made with this one, in listed order."""
        return next((found for found in self._made_together() if plan in found), [plan])

    def _made_together(self) -> list[list[TrialPlan]]:
        """All sets of trials that take turns."""
        if not self.in_turns:
            return []
        blocks: dict[int, list[TrialPlan]] = {}
        for one in self.run.planned_trials():
            blocks.setdefault(one.block, []).append(one)
        return [found for block in blocks.values() for found in sets_of_turns(self.lock, block)]

    def _take_turns(self, bench: Bench, made: Sequence[TrialPlan], attempts: Mapping[str, int]) -> None:
        """Restart all sides in an order drawn for this block, and make their trials together."""
        sides = {one.trial: self._bench_of(bench, one) for one in made}
        configs = {one.trial: self._config(one) for one in made}
        order = sorted(made, key=lambda one: draw(self.lock.seed, "up", one.block, made.index(one)))
        with self._phase("up"):
            for one in order:
                config = configs[one.trial]
                up = sides[one.trial]
                up.lab.apply(config.services, restart=True, objects=config.objects, sysctl=config.sysctl)
                if not self.turns and one is order[0]:
                    must_fit_beside(up.lab, one.case, len(made) - 1)
        for trial, side in sides.items():
            side.tables.update(self._filled(configs[trial], side.lab, side.tables))
        bench.generators.ensure(sum(len(packed(config, self.load_cores)) for config in configs.values()))
        next(iter(sides.values())).attach()
        trials = [self._trial(sides[one.trial], one, attempts[one.trial]) for one in made]
        cases = tuple(one.case for one in made)
        ends_by_s = self.measures_since + (self.lock.measure.within_s or inf)
        planned = self.turns.get(cases) or self._turns_before(cases)
        block = BlockRun(trials, self.lock.seed, planned, ends_by_s if is_bounded(self.lock) else inf)
        block.run()
        if block.planned is not None:
            self.turns[cases] = block.planned

    def _rest(self, plan: TrialPlan) -> None:
        """Wait before a block of servers that svload does not start, except the first of this execution."""
        if self.turns and not self._config(plan).starts_servers:
            self.stop.wait(seconds_apart(self.lock.seed, plan.block))

    def _bench_of(self, bench: Bench, plan: TrialPlan) -> SideBench:
        """The bench of a trial's side, made when it is first needed."""
        side = self._side_of(plan)
        if side not in self.sides:
            lab = self.labs.make(self._config(plan), side)
            self.sides[side] = SideBench.of(bench, lab, side, self.sides)
        return self.sides[side]

    def _turns_before(self, cases: tuple[str, ...]) -> Planned | None:
        """Return the turns that an earlier execution planned for these sides; None if none was sealed."""
        for name in self.run.sealed_trials():
            record = TrialSummary.read(self.run.trial(name).summary).turns
            if record is not None and record.sides == cases:
                return Planned.of_record(record)
        return None

    # small things

    def _config(self, plan: TrialPlan) -> CaseConfig:
        """Return what its batch has decided; the same for all trials of a case at one point."""
        key = f"{plan.case} {plan.at.model_dump_json()}"
        if key not in self.configs:
            self.configs[key] = case_config(self.lock, self.lock.case(plan.case), plan.at)
        return self.configs[key]

    def _waiting(self, owner: str) -> None:
        if self.waits_since is None:
            self.waits_since = time.monotonic()
            self._say("phase", name="waiting", state="begin")
        self._say("notice", text=f"waiting: another load runs on this machine ({owner})", waiting=owner)

    def _notice(self, text: str) -> None:
        self._say("notice", text=text)

    def _say(self, kind: EventKind, **data: object) -> None:
        self.emit(Event(kind, data))

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        self._say("phase", name=name, state="begin")
        yield
        self._say("phase", name=name, state="end", seconds=time.monotonic() - begun)
