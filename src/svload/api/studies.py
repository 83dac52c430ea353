"""Studies: plan, run, resume."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.api.earlier import Earlier
from svload.api.runs import RUNS, FinalVerdicts, analyse, judge_trial, report, verdict_exit
from svload.api.trust import allowed_hosts, may_administer, must_be_trusted
from svload.api.typed import writing
from svload.model.environment import free_memory_bytes
from svload.model.errors import ExitCode, Problem, SvloadError, carry_out, fail
from svload.model.events import Event
from svload.run.configs import case_configs

if TYPE_CHECKING:
    from svload.analysis.contrasts import Contrast
    from svload.analysis.floor import LabFloor
    from svload.host.machines.reach import Reach
    from svload.model.certificates import Certificates
    from svload.model.monitored import Monitored
    from svload.model.results import Claim, Findings
    from svload.model.study import CaseConfig, Lock
    from svload.run import Outcome
    from svload.run.hands import EarlyHands
    from svload.store import RunDir

Emit = Callable[[Event], None]
AbortIf = Callable[[Event], SvloadError | None]
DEMO_STUDY = "001-svload"


def _never(event: Event) -> None:
    return None


@dataclass
class Choices:
    """A user's choices for a run, beside the study; none of them is hidden in the study's folder."""

    profile: str | None = None
    seed: int | None = None
    out: Path = RUNS
    trusted: bool = False
    own: bool = False
    """whether svload wrote the study for what the user typed: no further questions about it, and no trust for
    later runs"""
    changed_build: bool = False
    authorised: tuple[str, ...] = ()
    host_settings: bool = False
    only: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    within_s: float | None = None
    """time of the run, in seconds, in which blocks may be added"""
    plant: str | None = None
    wait_s: float | None = None
    wait_quiet_s: float = 0.0
    look_round: bool = True
    write_report: bool = True
    inventory: Path | None = None
    scheduler: str = ""

    @property
    def elsewhere(self) -> bool:
        """Whether other machines generate the load."""
        return self.inventory is not None or bool(self.scheduler)


@dataclass
class RunResult:
    """A finished (or stopped) execution: its run, its findings, and the command's exit code."""

    run: RunDir
    outcome: Outcome
    findings: Findings | None
    files: dict[str, Path]
    exit_code: ExitCode


def load_lock(study_path: str, choices: Choices) -> Lock:
    """Resolve the study with these choices. Raises SvloadError with all mistakes together, exit 2."""
    from svload import lab, study
    from svload.drive.refusals import CaseChecks
    from svload.run.trust import is_trusted, trust

    path = study.find_study(study_path)
    try:
        lock = study.load_study(
            path,
            profile=choices.profile,
            overrides=choices.overrides,
            seed=choices.seed,
            trusted=choices.trusted or choices.own or is_trusted(path),
            authorised=choices.authorised,
            kits=lab.kit_options(),
            check_lab=lab.find_mistakes,
            check_case=CaseChecks(),
            measures=lab.measures,
            monitored=_monitored_names,
        )
    except SvloadError as error:
        raise SvloadError(*map(_as_option, error.problems)) from error
    if choices.trusted:
        trust(path)
    if _why_trials(lock, choices) == "":
        lock = study.in_turns(lock)
    if choices.only:
        lock = _only(lock, choices.only)
    if choices.within_s is not None:
        lock = lock.model_copy(
            update={"measure": lock.measure.model_copy(update={"within_s": choices.within_s})}
        )
    if choices.plant:
        from svload.run import plant

        lock = plant(lock, choices.plant, study.resolve)
    return lock


def _as_option(problem: Problem) -> Problem:
    """Return a problem of a value that was given beside the study by its option, where it has one."""
    where = str(problem.details.get("where", ""))
    if where not in _OPTIONS or not problem.place.startswith(f"override {where}"):
        return problem
    return replace(problem, place="", details={**problem.details, "where": _OPTIONS[where]})


_OPTIONS = {"measure.duration": "--duration", "measure.replicates": "--replicates"}


def _why_trials(lock: Lock, choices: Choices) -> str | None:
    """Return why the sides of a gate must run one after the other, as a clause, if the study leaves their
    order open: they don't fit side by side. Empty: they fit; None: the study sets the order, or has no
    gate."""
    from svload import study

    if not study.leaves_order_open(lock):
        return None
    if choices.elsewhere:
        return "other machines generate the load"
    free = study.Free(free_memory_bytes(), _free_bytes(choices.out.absolute()))
    return study.why_not_side_by_side(lock, free)


def _monitored_names() -> Mapping[str, Monitored]:
    """Return what monitors can read; loaded only for a study that asks for it."""
    from svload.watch import monitored_names

    return monitored_names()


def _only(lock: Lock, only: Sequence[str]) -> Lock:
    known = {case.name for case in lock.cases}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise fail(
            "usage",
            reason=f"There is no case {', '.join(unknown)}",
            hint=f"Cases: {', '.join(case.name for case in lock.cases)}.",
        )
    cases = tuple(
        case
        if case.name in only or case.excluded
        else case.model_copy(update={"excluded": "left out by --only"})
        for case in lock.cases
    )
    if not any(case.excluded is None for case in cases):
        raise fail(
            "usage",
            reason="--only selects no case that can run",
            hint="Name at least one case that is not excluded.",
        )
    return lock.model_copy(update={"cases": cases})


def plan(study_path: str, choices: Choices) -> dict[str, Any]:
    """Return the dry run: cases, trials, seconds, bytes, comparisons with their smallest p and least
    detectable effect. Starts nothing.

    Expects the duration and variation of the last finished run of the same study and profile under
    `choices.out`. estimated_s covers the planned blocks; `most_trials` includes those that `until` or a gate
    may add.
    """
    from svload import analysis, lab, study
    from svload.analysis.contrasts import most_trials
    from svload.analysis.turn_plan import expected_turns
    from svload.drive.refusals import encoded_rows
    from svload.store import last_run, read_events

    lock = load_lock(study_path, choices)
    configs = case_configs(lock)
    if problems := misfits(configs.values(), place=study_path):
        raise SvloadError(*problems)
    batch = study.first_batch(lock)
    restarts = sum(trial.restart for trial in batch.trials)
    before = last_run(choices.out, lock.name, lock.profile)
    earlier = Earlier(before)
    estimate = analysis.estimate_run(
        lock,
        configs,
        {name: lab.costs_of(config.services) for name, config in configs.items()},
        restarts=restarts,
        last=analysis.measured(read_events(before.events).events) if before else None,
    )
    return {
        "study": lock.name,
        "question": lock.question,
        "profile": lock.profile,
        "seed": lock.seed,
        "cases": [
            {"name": case.name, "levels": case.levels, "excluded": case.excluded} for case in lock.cases
        ],
        "trials": len(batch.trials),
        "order": [trial.trial for trial in batch.trials],
        "restarts": restarts,
        "turns": expected_turns(lock, configs),
        "why_trials": _why_trials(lock, choices) or "",
        "factors": [
            {"name": factor.name, "change": factor.change, "levels": [level.name for level in factor.levels]}
            for factor in lock.factors
        ],
        "estimated_s": estimate.seconds,
        "estimated_load_s": estimate.load_s,
        "estimated_from": estimate.basis,
        "most_trials": most_trials(lock),
        "estimated_bytes": estimate.size_bytes,
        "open_groups": _open_groups(configs),
        "faults": _faults(configs),
        "comparisons": _comparisons(
            lock, configs, earlier.claims if lock.comparisons else (), _floors(lock, configs)
        ),
        "cautions": list(
            dict.fromkeys(
                [
                    *(
                        caution
                        for config in configs.values()
                        for caution in lab.cautions(config.services, config.faults)
                    ),
                    *analysis.unreached_limits(configs, earlier.case),
                    *encoded_rows(configs.values(), Path(lock.study_dir)),
                ]
            )
        ),
        "trusted_needed": [] if lock.trusted else study.needs_trust(lock, lab.asks_trust, configs.values()),
    }


def _faults(configs: Mapping[str, CaseConfig]) -> list[dict[str, Any]]:
    """Return the planned faults of a trial, and in which cases they occur."""
    from svload.model.faults import acts_of

    cases: dict[tuple[int, str, str], list[str]] = {}
    for case, config in configs.items():
        for act in acts_of(config.faults):
            cases.setdefault((act.at_ns, act.do, act.target), []).append(case)
    return [
        {"at_s": at_ns / 1e9, "do": do, "target": target, "cases": names}
        for (at_ns, do, target), names in sorted(cases.items())
    ]


def _open_groups(configs: Mapping[str, CaseConfig]) -> list[dict[str, Any]]:
    """Return, for each open group, how many of its requests may be in flight at the same time on this
    machine, why, and in which cases."""
    from svload import host
    from svload.drive.places import places_of
    from svload.model.bounds import VUS

    room = host.connection_room(VUS.most)
    cases: dict[tuple[str, int, str], list[str]] = {}
    for case, config in configs.items():
        for group in config.groups:
            if (places := places_of(group, room)) is not None:
                cases.setdefault((group.name, *places), []).append(case)
    return [
        {"group": group, "max_vus": count, "because": because, "cases": names}
        for (group, count, because), names in cases.items()
    ]


def run_study(
    study_path: str, choices: Choices, emit: Emit, abort_if: AbortIf = _never, early: EarlyHands | None = None
) -> RunResult:
    """Run a study from its first trial to its report. Raises SvloadError before anything is started; later
    failures are in the result.

    `abort_if` is called for every event; an error from it stops the load immediately and becomes the
    outcome's. `early` are the agent and its generators, if they are already being started.
    """
    return run_lock(load_lock(study_path, choices), study_path, choices, emit, abort_if, early)


def run_lock(
    lock: Lock,
    study_path: str,
    choices: Choices,
    emit: Emit,
    abort_if: AbortIf = _never,
    early: EarlyHands | None = None,
) -> RunResult:
    """Run a study that is already read, as `run_study` does."""
    from svload import run

    carry_out(  # all refusals at once
        lambda: _refuse_idle_bound(lock),
        lambda: must_be_trusted(lock, study_path),
        lambda: _refuse_hopeless_gates(lock),
        lambda: run.permitted_targets(case_configs(lock).values(), lock.authorised),
        lambda: must_be_possible(lock, choices),
        lambda: must_fit(lock, fleet=choices.elsewhere),
    )
    reaches = _reaches(lock, choices)
    with writing(choices.out):
        begun = run.begin(lock, choices.out, held_certificates(lock))
    return execute_run(begun, emit, choices, abort_if, early, reaches)


def demo(choices: Choices, emit: Emit) -> RunResult:
    """Run the built-in study. It shows what a run is: its code reports whether it completed, not what was
    found."""
    result = run_study(DEMO_STUDY, choices, emit)
    return replace(result, exit_code=result.outcome.exit_code)


def resume(run_name: str | None, choices: Choices, emit: Emit) -> RunResult:
    """Continue a run where it stopped (None: the newest unfinished one), from its lock alone; reports if the
    study has changed since.

    A lock's trust and hosts count only on the machine and for the user that started the run; else both must
    be given again.
    """
    from svload import study
    from svload.run.policies.of_study import adds_batches
    from svload.store import find_run, unfinished_runs

    open_runs = unfinished_runs(choices.out, adds_batches) if run_name is None else []
    if run_name is None and not open_runs:
        raise fail("run-not-found", path=choices.out, state="unfinished ")
    found = open_runs[0] if open_runs else find_run(str(run_name), choices.out)
    lock = found.lock()
    hosts = allowed_hosts(found, lock, choices.trusted, choices.authorised, choices.changed_build)
    choices = replace(choices, authorised=hosts)
    _as_sealed(found)
    try:
        changed = study.study_digest(lock.study_dir) != lock.study_sha256
    except (SvloadError, OSError, ValueError):
        changed = False
    if changed:
        emit(
            Event(
                "notice",
                {
                    "text": f"{lock.study_dir} changed after this run started; the run continues with its own lock"
                },
            )
        )
    must_be_possible(lock, choices)
    must_fit(lock, fleet=choices.elsewhere)
    return execute_run(found, emit, choices, reaches=_reaches(lock, choices))


def _as_sealed(found: RunDir) -> None:
    """Check that the sealed trials were measured under the present lock and plan, and that the plan belongs
    to that lock. Raises SvloadError run-damaged."""
    from svload.store import changed_since_sealed

    cases = {case.name for case in found.lock().valid_cases}
    for trial in found.planned_trials():
        if trial.case not in cases:
            reason = f"it plans {trial.trial} of the case “{trial.case}”, which the lock does not run"
            raise fail("run-damaged", path=found.plan, reason=reason)

    if damage := changed_since_sealed(found):
        raise SvloadError(*damage)


def _floors(lock: Lock, configs: Mapping[str, CaseConfig]) -> Callable[[Contrast], LabFloor | None] | None:
    """Return a function that finds a comparison's floor in this lab's A/A certificate; None without a
    certificate."""
    from svload import analysis

    certificate = held_certificates(lock).aa
    return (lambda contrast: analysis.floor_of(certificate, lock, contrast, configs)) if certificate else None


def held_certificates(lock: Lock) -> Certificates:
    """Return the stored certificates of the instrument, and of this lab's noise under these settings."""
    from svload import analysis
    from svload.host.machine import kept_certificates

    return kept_certificates.held(analysis.settings_digest(lock))


def must_fit(lock: Lock, fleet: bool = False) -> None:
    """Check that this machine has enough descriptors and ports for every case; a `fleet`'s capacity is known
    only when it has been reached. Raises SvloadError plan-too-large."""
    from svload import run

    configs = case_configs(lock).values()
    for config in configs:
        run.secret_values(config)
    if problems := misfits(configs, place=lock.study_dir, fleet=fleet):
        raise SvloadError(*problems)


def misfits(configs: Collection[CaseConfig], place: str, fleet: bool = False) -> list[Problem]:
    """Return what this machine cannot provide for a study at `place` (plan-too-large); starts nothing."""
    from svload import lab, run
    from svload.host import cache_dir, labs_dir
    from svload.host.machine.conditions import machine

    free_bytes = min(
        _free_bytes(folder) for folder in (cache_dir(), labs_dir())
    )  # a store writes below either
    for config in configs:
        if why := lab.cannot_be_linked(config.services):
            hint = "Leave link out, or run where it can be enforced."
            return [Problem("plan-too-large", {"case": config.case.name, "reason": why, "hint": hint}, place)]
    here = () if fleet else run.misfits(configs, machine())
    copies: dict[str, int] = {}
    for config in configs:
        for name, count in lab.copies(config.services).items():
            copies[name] = max(count, copies.get(name, 1))
    found = run.too_long(configs) or (*here, *run.overfull(configs, free_bytes, copies))
    return [replace(problem, place=place) for problem in found]


def _free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk of a folder, which may not exist yet."""
    return shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.is_dir())).free


def must_be_possible(lock: Lock, choices: Choices) -> None:
    """Check that the study's requirements can be met where these choices put load and servers. Raises
    SvloadError fleet-cannot, fleet-on."""
    from svload import lab

    configs = case_configs(lock).values()
    if (on := lab.machines_of(configs)) and choices.inventory is None:
        called, service = next(iter(on.items()))
        reason = "a Dask cluster's workers run no servers" if choices.elsewhere else "no inventory is given"
        raise fail("fleet-on", lock.study_dir, service=service, on=called, reason=reason, hint=lab.ON_HINT)
    if not choices.elsewhere:
        return
    if lock.measure.order == "turns":
        raise fail("fleet-cannot", what="A load by turns", hint="Write order: trials, or run on one machine.")
    if any(map(lab.needs_own_network, configs)):
        hint = "Leave link and the network's sysctl out, or run on one machine."
        raise fail("fleet-cannot", what="A network of the lab's own", hint=hint)
    if lock.plants:
        raise fail("fleet-cannot", what="A planted fault", hint="Run it on one machine.")
    for config in configs:
        if what := lab.cannot_be_elsewhere(config):
            raise fail("fleet-cannot", what=what, hint="Leave it out, or run all services here.")


def _reaches(lock: Lock, choices: Choices) -> tuple[Reach, ...]:
    """Return the machines that generate the load, by the inventory or the cluster, and those that serve;
    empty: this one. Raises SvloadError fleet-inventory, fleet-group, fleet-on, fleet-scheduler,
    fleet-other-svload."""
    if not choices.elsewhere:
        return ()
    if choices.inventory is None:
        from svload.fleet.joined import workers_of

        return workers_of(choices.scheduler)
    from svload import lab
    from svload.fleet.reaching import reaches

    return reaches(choices.inventory, lab.machines_of(case_configs(lock).values()))


def _comparisons(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    before: Sequence[Claim] = (),
    floors: Callable[[Contrast], LabFloor | None] | None = None,
) -> list[dict[str, Any]]:
    """Return what each comparison could decide, and whether it gates: a gate that no outcome could decide is
    a mistake, not a note."""
    from svload import analysis

    gated = {comparison.name for comparison in lock.comparisons if comparison.fail_if}
    return [
        entry | {"gated": entry["comparison"] in gated}
        for entry in analysis.plan_comparisons(lock, before, floors, configs)
    ]


def _refuse_idle_bound(lock: Lock) -> None:
    """Raise SvloadError usage if `--for` is given for a study whose planned blocks are all that it runs."""
    from svload.run.policies.of_study import policy_of

    if lock.measure.within_s is not None and policy_of(lock) is None:
        reason = "--for bounds the blocks that a gate or measure.until adds, and this study adds none"
        raise fail("usage", reason=reason, hint="Leave it out, or write measure.until in the study.")


def _refuse_hopeless_gates(lock: Lock) -> None:
    """Raise SvloadError study-undecidable if no outcome could decide a gate."""
    if not any(comparison.fail_if for comparison in lock.comparisons):
        return
    problems = [
        fail("study-undecidable", name=entry["name"], reason=entry["reason"], hint=entry["remedy"]).problems[
            0
        ]
        for entry in _comparisons(lock, case_configs(lock))
        if entry["gated"] and entry["state"] != "decidable"
    ]
    if problems:
        raise SvloadError(*problems)


def execute_run(
    found: RunDir,
    emit: Emit,
    choices: Choices,
    abort_if: AbortIf = _never,
    early: EarlyHands | None = None,
    reaches: tuple[Reach, ...] = (),
) -> RunResult:
    """Run what is not sealed yet and analyse it; safe to call again after any crash. `reaches` are the
    machines that take part, if this one doesn't make the load. Raises SvloadError run-busy if another process
    runs it."""
    from svload.store import hold_run

    with hold_run(found):
        return _execute_held(found, emit, choices, abort_if, early, reaches)


def _execute_held(
    found: RunDir,
    emit: Emit,
    choices: Choices,
    abort_if: AbortIf,
    early: EarlyHands | None,
    reaches: tuple[Reach, ...],
) -> RunResult:
    from svload import analysis, run
    from svload.store import Journal

    lock = found.lock()
    configs = case_configs(lock)
    options = run.Options(
        emit=emit,
        judge=judge_trial,
        verdicts=FinalVerdicts(),
        abort_if=abort_if,
        early=early,
        wait_for_machine_s=choices.wait_s,
        look_round=choices.look_round,
        wait_quiet_s=choices.wait_quiet_s,
        authorised=choices.authorised,
        host_settings=choices.host_settings,
        trusted=may_administer(found, lock, choices.trusted),
        reaches=reaches,
        need_bytes=round(analysis.size_of_run(lock, configs)),
    )
    outcome = run.execute(found, options)
    findings: Findings | None = None
    files: dict[str, Path] = {}
    codes = [outcome.exit_code]
    if outcome.sealed:
        with Journal(found.events) as journal:

            def tell(event: Event) -> None:
                journal.write(event)
                emit(event)

            if choices.write_report:
                findings, files = report(found, tell)
            else:
                findings = analyse(found, tell)
        codes.append(verdict_exit(findings))
    return RunResult(found, outcome, findings, files, ExitCode.worst(codes))
