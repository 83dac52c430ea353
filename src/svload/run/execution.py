"""All trials of a run: bring-up, fill, order, attempts, resume, clean end. `execute` is the one door for run, resume and demo."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from svload import study
from svload.drive.generators import MOST
from svload.drive.packing import name_of, on_cores, packed
from svload.host import (
    Agent,
    CoreSplit,
    cache_dir,
    connection_room,
    describe_machine,
    finish_leftovers,
    labs_dir,
    machine_lock,
    split_cores,
)
from svload.host.conditions import machine
from svload.host.preflight import preflight
from svload.lab import Lab
from svload.model.certificates import Certificates
from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.events import Event, EventKind
from svload.model.plan import Batch, Placement, Room, TrialPlan
from svload.model.study import CaseConfig, Lock
from svload.run.hands import EarlyHands, Hands, start_hands
from svload.run.inputs import csv_bytes, own_table, tables_of, write_table
from svload.run.order import FAILURES_IN_A_ROW, next_trial, replacement_batch
from svload.run.targets import permitted_targets
from svload.run.trial import Bench, Stopped, TrialRun
from svload.run.trust import allow
from svload.store import Journal, RunDir, write_artefact
from svload.store.leftovers import sweep
from svload.store.seal import journal_mark, sha256_file

Emit = Callable[[Event], None]
Judge = Callable[[RunDir, str], dict[str, Any]]
"""(run, trial) → data of the `trial-sealed` event: the provisional verdict. It is passed in, so that this room only acts."""
DISK_RESERVE = 1.2
PATIENCE_S = 10.0
"""A server that runs already and takes no connection within this, or within its requests' time-out, takes none."""
SAMPLE_INTERVAL_S = 0.2
LOG_TAIL_BYTES = 64 * 1024


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
    """What the user chose for this execution; nothing here changes what is measured.

    `judge` gives the provisional verdict on a trial; `refused`, asked once all are sealed, the trials that the final one refuses, each with
    the planned claims whose pair it cost. `authorised` are the hosts outside this machine that the user allows, whatever a lock says.
    `early` are hands that are being started already. `abort_if` is asked at every event: an error stops the load at once, ends the execution and is its outcome's.
    `look_round` warns of what else uses the machine before anything is started; with `wait_quiet_s` that is waited for so long at most.
    """

    emit: Emit
    judge: Judge
    refused: Callable[[RunDir], Mapping[str, AbstractSet[str]]] = lambda run: {}
    abort_if: Callable[[Event], SvloadError | None] = lambda event: None
    early: EarlyHands | None = None
    wait_for_machine_s: float | None = None
    look_round: bool = False
    wait_quiet_s: float = 0.0
    need_bytes: int = 0
    authorised: tuple[str, ...] = ()


def begin(
    lock: Lock, out: Path, certificates: Certificates | None = None, batch: Batch | None = None
) -> RunDir:
    """A new run's folder with its lock, its first batch and the certificates that hold now, written before anything is started.

    `batch` stands for the study's own. Raises SvloadError.
    """
    allow(lock)
    run = RunDir.create(out, lock.name, lock.profile)
    try:
        write_artefact(run.certificates_path, certificates or Certificates())
        if batch is not None:
            write_artefact(run.batch_path(0), batch)
        write_artefact(run.lock_path, lock)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    if batch is None:  # a run killed here makes its plan of its lock
        write_artefact(run.batch_path(0), study.first_batch(lock))
    return run


def execute(run: RunDir, options: Options) -> Outcome:
    """Run every trial that is not sealed yet; safe to call again after any crash. Never raises for a lab that fails."""
    lock = run.lock()
    with Journal(run.events) as journal, _interrupts() as stop:

        def emit(event: Event) -> None:
            if event.kind not in ("progress", "trial-phase"):
                journal.write(event)
            options.emit(event)
            if not stop.is_set() and (error := options.abort_if(event)) is not None:
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
    load_cores: int = field(init=False)
    configs: dict[str, CaseConfig] = field(init=False)
    folder: os.stat_result = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.run.path.stat()
        self.load_cores = len(split_cores(os.sched_getaffinity(0)).load)
        self.configs = {
            case.name: on_cores(study.resolve(self.lock, case), self.load_cores)
            for case in self.lock.valid_cases
        }

    def go(self) -> None:
        self._enough_disk()
        self._have_plan()
        self._say("run-started", run=self.run.name, study=self.lock.name, profile=self.lock.profile, seed=self.lock.seed,
                  trials=len(self.run.planned_trials()), sealed=len(self.run.sealed_trials()), plants=self.lock.plants,
                  machine=describe_machine())  # fmt: skip
        self._keep_unfinished()
        if self._next() is None:
            return
        with ExitStack() as stack:
            finish_leftovers()
            stack.enter_context(
                machine_lock(
                    f"svload run {self.run.name}",
                    self.options.wait_for_machine_s,
                    self._waiting,
                    should_stop=self.stop.is_set,
                )
            )
            self._look_round()
            if self.stop.is_set():
                return
            bench = self._bring_up(stack)
            while (found := self._next()) is not None and not self.stop.is_set():
                self._attempt(bench, *found)

    def gone(self) -> bool:
        """Whether the run's folder is no longer the one that it began in: nothing that follows would be kept."""
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
        codes = [ExitCode.DONE if complete else ExitCode.LAB_FAILED]
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

    def _enough_disk(self) -> None:
        free = shutil.disk_usage(self.run.path).free
        need = self.options.need_bytes * DISK_RESERVE
        if need > free:
            raise fail(
                "disk-full",
                need=f"{need / 2**20:.0f} MiB",
                path=self.run.path,
                free=f"{free / 2**20:.0f} MiB",
            )

    def _look_round(self) -> None:
        """Warn of a shared machine, or wait until it is quiet: before the servers and the load are there, whose CPU is no stranger's."""
        if not self.options.look_round and not self.options.wait_quiet_s:
            return
        from svload.run.quiet import LOOK_S, wait_for_quiet, warning
        from svload.watch.look import look_round

        look = partial(look_round, LOOK_S, self.stop.wait)

        with self._phase("look"):
            if self.options.wait_quiet_s:
                wait_for_quiet(self.options.wait_quiet_s, look, self._notice, self.stop.is_set)
            elif text := warning(look()):
                self._notice(text)

    def _have_plan(self) -> None:
        """A run that was killed before its plan gets it now: nothing random is in it but the lock's seed. Raises SvloadError run-damaged."""
        path = self.run.batch_path(0)
        if not path.exists():
            if self.run.batches() or self.run.sealed_trials():
                raise fail("run-damaged", path=path, reason="the plan's first batch is missing")
            write_artefact(path, study.first_batch(self.lock))
            self._say("notice", text=f"{path} was missing; the plan is made again from the run's lock")
        for folder in (self.run.trials, self.run.attempts):
            folder.mkdir(exist_ok=True)

    def _bring_up(self, stack: ExitStack) -> Bench:
        first = self._next()
        assert first is not None
        permitted = permitted_targets(self.configs.values(), self.options.authorised)
        config = self._config(first[1].case)
        hands = self._hands(stack)
        agent, cores = hands.agent, hands.cores
        room = connection_room(MOST)
        self._place(agent, cores, room)
        lab = Lab(config.services, agent, agent.dir, cache_dir(), cores.servers if cores.pinned else None, self.emit,
                  study_dir=Path(self.lock.study_dir), should_stop=self.stop.is_set, secrets=config.secrets,
                  answers_within_s=min(PATIENCE_S, self._longest_timeout_s()))  # fmt: skip
        stack.callback(lab.down)
        with self._phase("up"):
            lab.up()
        tables = self._fill(config, lab)
        hands.sampler.start(lab.facts(), SAMPLE_INTERVAL_S)
        can = machine(*preflight())
        return Bench(
            agent,
            lab,
            hands.generators,
            hands.sampler,
            tables,
            permitted,
            room,
            can,
            self.load_cores,
            self.emit,
            self.stop.is_set,
        )

    def _longest_timeout_s(self) -> float:
        groups = [group for config in self.configs.values() for group in config.groups]
        return max((group.longest_timeout_ns for group in groups), default=0) / 1e9 or PATIENCE_S

    def _hands(self, stack: ExitStack) -> Hands:
        """Agent, generators and sampler, closed with the stack: those that were started beforehand, else new ones."""
        count = max(len(shares) for shares in self._shares())
        if self.options.early is not None:
            hands = self.options.early.take()
        else:
            folder = labs_dir() / f"{self.run.name}-{os.getpid()}"
            hands = start_hands(folder, f"run {self.run.name}", count)
        stack.callback(hands.close)
        hands.generators.ensure(count)
        return hands

    def _shares(self) -> list[list[str]]:
        """By case: the names of its shares, a generator process each."""
        return [
            [name_of(config, parts) for parts in packed(config, self.load_cores)]
            for config in self.configs.values()
        ]

    def _place(self, agent: Agent, cores: CoreSplit, room: Room) -> None:
        shares = sorted({share for shares in self._shares() for share in shares})
        placement = Placement(
            machines={agent.machine: tuple(shares)},
            load_cores=cores.load,
            server_cores=cores.servers,
            pinned=cores.pinned,
            room=room,
        )
        digest = hashlib.sha256(placement.to_json().encode("utf-8", "backslashreplace")).hexdigest()
        self._say("placement", sha256=digest)
        write_artefact(self.run.placement_path, placement)

    def _fill(self, config: CaseConfig, lab: Lab) -> dict[str, Path]:
        """Fill the stores; a resumed run fills again and must find the same table, or says that it does not."""
        known = tables_of(self.run.inputs, measured=bool(self.run.sealed_trials()))
        for objects in config.objects:
            with self._phase("fill"):
                table = lab.fill(objects, self.lock.seed)
            if objects.name in known:
                if csv_bytes(table) != known[objects.name].read_bytes():
                    raise fail(
                        "fill-failed",
                        service=objects.service,
                        reason="the resumed run's objects differ from those of its first trials",
                        log="",
                    )
            else:
                write_table(self.run.inputs, objects.name, table)
        sources = {table.name: table for case in self.configs.values() for table in case.tables}
        for name, source in sources.items():
            if name not in known:
                write_table(self.run.inputs, name, own_table(source))
        return tables_of(self.run.inputs)

    # the loop

    def _next(self) -> tuple[Batch, TrialPlan] | None:
        self._still_there()
        sealed = set(self.run.sealed_trials())
        batches = self.run.batches()
        for batch in batches:
            trial = next_trial(batch, sealed, self.failures)
            if trial is not None:
                return batch, trial
        return self._replacement(batches, sealed)

    def _replacement(self, batches: tuple[Batch, ...], sealed: set[str]) -> tuple[Batch, TrialPlan] | None:
        if not self.lock.measure.replace_refused or not sealed:
            return None
        seals = {name: sha256_file(self.run.trial(name).seal) for name in sealed}
        batch = replacement_batch(self.lock, batches, self.options.refused(self.run), seals)
        if batch is None:
            return None
        write_artefact(self.run.batch_path(batch.number), batch)
        self._say("batch", number=batch.number, trials=len(batch.trials), because=batch.because)
        return batch, batch.trials[0]

    def _attempt(self, bench: Bench, batch: Batch, plan: TrialPlan) -> None:
        config = self._config(plan.case)
        folder = self.run.trial(plan.trial)
        attempt = self.run.next_attempt(plan.trial)
        begun = time.monotonic()
        try:
            if self.lab_broken:
                self._mend(bench)
            if bench.lab.apply(config.services, restart=plan.restart):
                bench.sampler.attach(bench.lab.facts())
            trial = TrialRun(bench, plan, config, self.lock.measure.duration_ns, folder, attempt, self.previous_case,
                             self.lock.plants.get(plan.case), self.lock.measure.awake)  # fmt: skip
            trial.run()
        except Stopped:
            self._keep(plan.trial, attempt, "stopped")
            self._say("trial-stopped", trial=plan.trial)
            self.stop.set()
        except SvloadError as error:
            self._failed(bench, plan, attempt, error)
        except OSError as why:
            hint = "Mend the cause; the trial is tried once more."
            self._failed(bench, plan, attempt, fail("lab-failed", reason=str(why), hint=hint))
        else:
            self.in_a_row = 0
            self.previous_case = plan.case
            load_s = (config.ramp_ns + self.lock.measure.duration_ns) / 1e9
            verdict = self.options.judge(self.run, plan.trial)
            self.unauthorised.update(verdict.pop("unauthorised", ()))
            seconds = time.monotonic() - begun
            self._say("trial-sealed", trial=plan.trial, case=plan.case, seconds=seconds, beside_s=seconds - load_s,
                      **verdict)  # fmt: skip
            self._advise(verdict)
            if self.unauthorised:
                self.stop.set()

    def _advise(self, verdict: dict[str, Any]) -> None:
        """Once a run: what to do where one trial after the other is refused. Planted faults are meant to be."""
        from svload.run.refusals import IN_A_ROW, advice

        self.verdicts = [*self.verdicts[1 - IN_A_ROW :], verdict]
        if not self.advised and not self.lock.plants and (text := advice(self.verdicts)):
            self.advised = True
            self._notice(text)

    def _still_there(self) -> None:
        if self.gone():
            raise fail("run-gone", path=self.run.path)

    def _failed(self, bench: Bench, plan: TrialPlan, attempt: int, error: SvloadError) -> None:
        self._still_there()
        problem = error.problems[0]
        self._keep(plan.trial, attempt, "failed", problem.sentence)
        logs = keep_logs(bench.agent.dir, self.run.attempt(plan.trial, attempt).path / "logs")
        for one in error.problems:
            one.details.update(run=self.run.path, log=logs)
        self._say("trial-failed", trial=plan.trial, code=problem.code, sentence=problem.sentence)
        self.last_failure = error
        self.failures[plan.trial] = self.failures.get(plan.trial, 0) + 1
        self.in_a_row += 1
        self.lab_broken = True
        if error.exit_code is not ExitCode.LAB_FAILED or problem.code == "agent-lost":
            raise error
        if self.in_a_row >= FAILURES_IN_A_ROW:
            raise SvloadError(*fail("lab-failed-thrice", run=self.run.path).problems, *error.problems)

    def _mend(self, bench: Bench) -> None:
        """After a failure the whole lab is brought up anew: what failed may have left anything behind."""
        bench.generators.restart()
        bench.lab.apply(bench.lab.specs, restart=True)
        bench.sampler.attach(bench.lab.facts())
        self.lab_broken = False

    # what did not count

    def _keep_unfinished(self) -> None:
        for name in self.run.unsealed_trials():
            self._keep(name, self.run.next_attempt(name), "interrupted")

    def _keep(self, trial: str, attempt: int, why: str, sentence: str = "") -> None:
        source = self.run.trial(trial).path
        if not source.exists():
            return
        target = self.run.attempt(trial, attempt).path
        target.parent.mkdir(exist_ok=True)
        source.rename(target)
        sweep(target)
        for raw in target.glob("*.tables"):  # a share's, which no command reads
            raw.unlink()
        with Journal(target / "events.jsonl") as journal:
            journal.write(Event("notice", {"trial": trial, "attempt": attempt, "why": why, "text": sentence or f"this attempt was {why} and does not count"}), sync=True)  # fmt: skip

    # small things

    def _config(self, case: str) -> CaseConfig:
        return self.configs[case]

    def _waiting(self, owner: str) -> None:
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


def keep_logs(lab: Path, target: Path) -> Path:
    """Copy the last part of every log of a lab, since the lab's folder goes with it; returns `target`."""
    for log in sorted(lab.rglob("*.log")):
        kept = target / "-".join(log.relative_to(lab).parts)
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
                tail = file.read()
            if tail:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(tail)
        except OSError:
            continue
    return target


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Ctrl-C, TERM or HUP once asks to stop; a second time ends at once. The old handlers are put back; nohup's ignoring stays."""
    stop = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    asks = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        asks.append(signal.SIGHUP)
    old = {number: signal.signal(number, handler) for number in asks}
    try:
        yield stop
    finally:
        for number, before in old.items():
            signal.signal(number, before)
