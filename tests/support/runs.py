"""`make_run`: complete synthetic runs made with the real lock, plan, tables, journals and seals."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tests.evolve import evolve
from tests.support.design import USERS, Design, design, randomised_blocks
from tests.support.lab import SERVICE_CPU_RATIO, monitor_table, trial_lab
from tests.support.traffic import BODY_BYTES, ROWS, GroupModel, Requests, share_tables, simulate, summarise
from tests.support.truth import SIGMA, Truth, fault_of
from tests.support.turns import TurnModel, in_real_time

from svload.model.certificates import Certificates
from svload.model.events import Event
from svload.model.plan import Placement, TrialPlan
from svload.model.results import GeneratorSummary, GroupSummary, TrialSummary, TurnRecord
from svload.store.journal import Journal
from svload.store.layout import RunDir
from svload.store.parquet import merge_shares, write_trial_tables
from svload.store.seal import seal_trial, write_artefact

WALL = 1_760_000_000.0
PROBE_THINK_NS = 20_000_000
SERVER_CORES = (1,)
BEARS_USERS = 6.0
"""N* in a run with a factor `users`: this many users without think time fill the servers' core."""
MEAN_OF_MEDIAN = exp(SIGMA**2 / 2)
_SHARPNESS = 8.0
"""How sharply response turns at N*: at N* itself it is 9 % above both asymptotes."""
OPEN_SLOTS = 16


@dataclass(frozen=True)
class SyntheticRun(RunDir):
    """A synthetic run: a `RunDir` that also knows what was planted in it."""

    @property
    def truth(self) -> Truth:
        """What analysis must find."""
        return Truth.read(self.path / "truth.json")


@dataclass(frozen=True)
class Populations:
    """The parameters of the trials; times in ns."""

    duration_ns: int
    ramp_ns: int
    vus: int
    probe_vus: int
    median_ns: float
    between_runs_sigma: float
    load: Literal["closed", "open"]
    turns: TurnModel | None = None

    def with_users(self, levels: Mapping[str, str]) -> Populations:
        """Return those of a case: a factor `users` sets its background, on a server for `BEARS_USERS`."""
        if USERS not in levels:
            return self
        users = int(levels[USERS])
        slower = (1 + (users / BEARS_USERS) ** _SHARPNESS) ** (1 / _SHARPNESS)
        return replace(self, vus=users, median_ns=self.median_ns * slower)

    def busy_ratio(self, levels: Mapping[str, str], median_ns: float) -> float:
        """Return the cores that the background keeps busy: `BEARS_USERS` users fill the servers' core."""
        if USERS not in levels:
            return 0.0
        free = len(SERVER_CORES) - sum(SERVICE_CPU_RATIO.values())
        return int(levels[USERS]) / median_ns * self.median_ns * free / BEARS_USERS

    @property
    def interval_ns(self) -> int:
        """Duration/600, at most 1 s, at least 1 ms (docs/method.md §1); with turns, a part of one."""
        if self.turns is not None:
            return self.turns.length_ns // 50
        return max(1_000_000, min(1_000_000_000, self.duration_ns // 600))

    @property
    def rate_rps(self) -> float:
        """The open loop's rate: 60 % of what the slots serve at the slowest level of the shipped factors."""
        return 0.6 * OPEN_SLOTS / (self.median_ns * 1.35 * MEAN_OF_MEDIAN / 1e9)


def make_run(
    out: Path,
    *,
    cases: int | None = None,
    replicates: int = 4,
    faults: Mapping[str, str] | None = None,
    seed: int = 1,
    factors: Mapping[str, Sequence[str]] | None = None,
    effects: Mapping[str, Mapping[str, float]] | None = None,
    excluded: Mapping[str, str] | None = None,
    load: Literal["closed", "open"] = "closed",
    duration_s: float = 1.2,
    vus: int = 12,
    probe_vus: int = 10,
    median_ms: float = 8.0,
    between_runs_sigma: float = 0.03,
    users: Sequence[int] | None = None,
    certificates: Certificates | None = None,
    turns: TurnModel | None = None,
) -> SyntheticRun:
    """Make a run `<out>/synthetic-<n>` of a study with the factors protocol (http, https) × server (backend,
    cache-hit, cache-miss).

    `cases`: their number (a factor `variant` is added until there are enough); None: all six.
    `factors` adds factors by name → levels; `effects` (factor → level → multiplier of the median) sets their
    effects, also those of the two given ones. `faults`: pattern of trial or case name → name from `FAULTS`.
    Each trial has a group `background` (histograms; closed with `vus` users or, `load="open"`, arrivals at a
    rate) and a group `probe` (curl, one row per request, new connections, 20 ms think time). `users` adds a
    factor of that name: the background's users (2 or more), whose response and CPU follow a server that
    serves `BEARS_USERS` of them. Responses are lognormal(median_ms × effects, `SIGMA`); trials differ by a
    factor of log-sd `between_runs_sigma`, half of its variance shared by a block. With `turns` http and https
    take turns, under a gate of 5 %, and every request is a row. The planted values are in `truth`. Same
    arguments, same tables. Raise ValueError.
    """
    planted = dict(faults or {})
    people = Populations(
        round(duration_s * 1e9), 100_000_000, vus, probe_vus, median_ms * 1e6, between_runs_sigma, load
    )
    if turns is not None:
        people = replace(people, duration_ns=turns.duration_ns, ramp_ns=0, turns=turns)
    if "overloaded" in planted.values() and load != "open":
        raise ValueError("overload needs load='open': a closed loop has no backlog")
    background = _background(people) | ({"vus": f"${{{USERS}}}"} if users else {})
    probe = {"client": "curl", "connection": "new", "executor": "constant-vus", "vus": probe_vus}
    probe |= {"think_time": "0.02s"} | ({} if turns else {"start_when": "background.ramped"})
    study = design(
        cases=cases,
        replicates=replicates,
        extra={**({USERS: [str(one) for one in users]} if users else {}), **(factors or {})},
        effects=effects or {},
        excluded=excluded or {},
        duration_ns=people.duration_ns,
        traffic={"background": background, "probe": probe},
        seed=seed,
        hostile="hostile-names" in planted.values(),
        turns=turns is not None,
        control=turns is not None and turns.control,
    )
    faulty = {case.name: fault_of(planted, case.name, case.name) for case in study.lock.valid_cases}
    case_plants = {name: fault for name, fault in faulty.items() if fault}
    study = evolve(study, lock__plants=case_plants)
    run = SyntheticRun(RunDir.create(out, "synthetic").path)
    _write_plan(run, study, certificates or Certificates())
    _write_trials(run, study, people, planted)
    return run


def _background(people: Populations) -> dict[str, Any]:
    ramp = f"{people.ramp_ns / 1e9:g}s"
    if people.load == "open":
        rate = {"executor": "constant-arrival-rate", "rate": f"{people.rate_rps:.3f}/s"}
        return {**rate, "max_vus": OPEN_SLOTS, "generators": 2, "ramp_up": ramp}
    return {"executor": "constant-vus", "vus": people.vus, "generators": 2, "ramp_up": ramp}


def _write_plan(run: RunDir, study: Design, certificates: Certificates) -> None:
    write_artefact(run.lock_path, study.lock)
    write_artefact(run.batch_path(0), randomised_blocks(study.lock))
    write_artefact(run.certificates_path, certificates)
    shares = ("background.0", "background.1", "probe.0")
    cores = {"load_cores": (0,), "server_cores": SERVER_CORES, "pinned": True}
    write_artefact(run.placement_path, Placement(machines={"local": shares}, **cores))
    path = run.inputs / "objects.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("path", "size_bytes", "digest"))
        rows.writerows((f"/v1/a/c{row % 20}/o{row}", BODY_BYTES, f"{row:08x}") for row in range(ROWS))
    path.with_suffix(".sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")


def _write_trials(run: RunDir, study: Design, people: Populations, faults: Mapping[str, str]) -> None:
    rng = np.random.default_rng(study.lock.seed)
    blocks = rng.standard_normal(study.lock.measure.replicates)
    planned = run.planned_trials()
    noises: dict[str, float] = {}
    previous: str | None = None
    with Journal(run.events) as journal:
        about = {"study": study.lock.name, "profile": "synthetic", "seed": study.lock.seed}
        journal.write(_event(0, "run-started", trials=len(planned), **about))
        for plan in planned:
            noise = exp(people.between_runs_sigma * (blocks[plan.block] + rng.standard_normal()) / sqrt(2))
            fault = fault_of(faults, plan.trial, plan.case)
            noises[plan.trial] = noise
            _write_trial(run, study, people, plan, fault, noise, previous)
            if fault != "unsealed":
                load_s = people.duration_ns / 1e9
                journal.write(_event(plan.position + 1, "trial-sealed", trial=plan.trial, seconds=load_s))
            previous = plan.case
        times = {"seconds": 1.5 * len(planned), "outside_load_s": 0.2 * len(planned)}
        sealed = {"exit_code": 0, "sealed": len(run.sealed_trials()), "refused": 0}
        journal.write(_event(len(planned) + 1, "run-ended", **sealed, **times))
    medians = {
        one.name: people.median_ns * study.factors_on_median[one.name] for one in study.lock.valid_cases
    }
    write_artefact(run.path / "truth.json", Truth(median_ns=medians, noise=noises))


def _write_trial(
    run: RunDir,
    study: Design,
    people: Populations,
    plan: TrialPlan,
    fault: str | None,
    noise: float,
    previous: str | None,
) -> None:
    rng = np.random.default_rng(plan.seed)
    case = study.lock.case(plan.case)
    alone = people
    people = people.with_users(case.levels)
    median_ns = people.median_ns * study.factors_on_median[plan.case] * noise
    models = _models(people, median_ns, tls=case.levels["protocol"] == "https", fault=fault)
    record = None
    if people.turns is not None:
        record = people.turns.record(study.lock, plan)
        by_turn = people.turns.slow.get(case.levels["protocol"], ())
        models = tuple(replace(one, by_turn=by_turn, turn_ns=people.turns.length_ns) for one in models)
    requests = [simulate(model, rng) for model in models]
    groups = [summarise(model, made) for model, made in zip(models, requests, strict=True)]
    trial = run.trial(plan.trial)
    trial.path.mkdir()
    cores = alone.busy_ratio(case.levels, people.median_ns)
    busy = {"backend" if study.roles[plan.case] == "direct" else "cache": cores}
    _write_tables(trial.path, models, requests, rng, busy, record)
    start_at_ns = 10**12 + plan.position * 2 * 10**9
    phases_s = {"reset": 0.03, "warm": 0.01, "load": people.duration_ns / 1e9, "settle": 0.0, "write": 0.04}
    summary = _summary(people, plan, start_at_ns, models, groups)
    write_artefact(trial.summary, evolve(summary, turns=record))
    lab = trial_lab(study.roles[plan.case], groups, fault, previous, plan.whole_plot, phases_s)
    write_artefact(trial.lab, lab)
    with Journal(trial.events) as journal:
        about = {"trial": plan.trial, "case": plan.case, "position": plan.position, "attempt": 1}
        journal.write(_event(plan.position, "trial-started", **about))
    if fault != "unsealed":
        facts = {"start_at_ns": start_at_ns, "shares": 3}
        seal_trial(trial, case=plan.case, replicate=plan.replicate, block=plan.block, attempt=1, facts=facts)


def _models(people: Populations, median_ns: float, *, tls: bool, fault: str | None) -> tuple[GroupModel, ...]:
    window_ns = (people.ramp_ns, people.ramp_ns + people.duration_ns)
    rate_rps = people.rate_rps if people.load == "open" else None
    if fault == "overloaded":
        rate_rps = 1.5 * OPEN_SLOTS / (median_ns * MEAN_OF_MEDIAN / 1e9)
    think_ns = 4 * people.duration_ns if fault == "too-short" else 0
    background = GroupModel(
        name="background",
        vus=OPEN_SLOTS if rate_rps else people.vus,
        median_ns=median_ns,
        sigma=SIGMA,
        window_ns=window_ns,
        interval_ns=people.interval_ns,
        tls=tls,
        ramp_ns=people.ramp_ns,
        think_ns=think_ns,
        rate_rps=rate_rps,
        lag_ns=0.8 * median_ns if fault == "generator-limited" else 20_000.0,
        failures=0.05 if fault == "errors" else 0.0,
        generators=2,
    )
    probe = replace(
        background,
        name="probe",
        vus=people.probe_vus,
        curl=True,
        new_connections=True,
        ramp_ns=0,
        start_ns=people.ramp_ns,
        think_ns=think_ns or PROBE_THINK_NS,
        rate_rps=None,
        generators=1,
    )
    return background, probe


def _write_tables(
    folder: Path,
    models: Sequence[GroupModel],
    requests: Sequence[Requests],
    rng: np.random.Generator,
    busy: Mapping[str, float],
    record: TurnRecord | None,
) -> None:
    shares = [
        (index, share_tables(model, made, generator, rows=model.curl or record is not None))
        for index, (model, made) in enumerate(zip(models, requests, strict=True))
        for generator in range(model.generators)
    ]
    tables: dict[str, Any] = merge_shares(shares)
    tables["monitors"] = monitor_table(models[0].window_ns[1], rng, busy)
    if record is not None:
        tables |= {name: in_real_time(tables[name], record) for name in ("samples", "monitors")}
    write_trial_tables(folder, tables)


def _summary(
    people: Populations,
    plan: TrialPlan,
    start_at_ns: int,
    models: Sequence[GroupModel],
    groups: Sequence[GroupSummary],
) -> TrialSummary:
    window_ns = models[0].window_ns
    costs = [
        GeneratorSummary(
            share=f"{model.name}.{number}",
            cpu_ns=20_000 * group.begun // model.generators,
            wall_ns=window_ns[1],
            run_queue_ns=window_ns[1] // 2000,
            loop_pass_max_ns=300_000,
        )
        for model, group in zip(models, groups, strict=True)
        for number in range(model.generators)
    ]
    return TrialSummary(
        trial=plan.trial,
        case=plan.case,
        started_wall=WALL + plan.position * 2,
        start_at_ns=start_at_ns,
        window_ns=window_ns,
        interval_ns=people.interval_ns,
        groups=tuple(groups),
        generators=tuple(costs),
    )


def _event(number: int, kind: Any, **data: object) -> Event:
    return Event(kind, data, wall=WALL + number * 1.5, monotonic_ns=10**12 + number * 15 * 10**8)
