"""One synthetic run for all tests of analysis, and helpers that plant a fault in one of its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.evolve import evolve
from tests.results import READINGS
from tests.support import SyntheticRun, make_run

from svload import study
from svload.analysis.judge import judge_trial
from svload.model.results import CheckResult
from svload.model.study import CaseConfig, Lock
from svload.store import TrialData, read_trial


@dataclass(frozen=True)
class Bench:
    """A synthetic run with its configurations."""

    run: SyntheticRun
    lock: Lock
    configs: Mapping[str, CaseConfig]

    def trial(self, name: str) -> TrialData:
        return read_trial(self.run.trial(name))

    def config(self, trial: TrialData) -> CaseConfig:
        return self.configs[trial.case]

    def trials(self) -> list[TrialData]:
        return [self.trial(name) for name in self.run.sealed_trials()]


def bench_of(run: SyntheticRun) -> Bench:
    lock = run.lock()
    return Bench(run, lock, {case.name: study.resolve(lock, case) for case in lock.valid_cases})


@pytest.fixture(scope="session")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a closed loop: TC0 to TC2 http (backend, hit, miss), TC3 to TC5 https."""
    return bench_of(make_run(tmp_path_factory.mktemp("closed"), replicates=2))


@pytest.fixture(scope="session")
def open_loop(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return the same with arrivals at a rate in the background; TC1 is overloaded."""
    faults = {"TC1": "overloaded"}
    return bench_of(
        make_run(tmp_path_factory.mktemp("open"), cases=2, replicates=1, load="open", faults=faults)
    )


def _changed(artefact: Any, changes: Mapping[str, Any]) -> Any:
    """Change fields; a callable gets the old value."""
    return evolve(artefact, **{k: v(getattr(artefact, k)) if callable(v) else v for k, v in changes.items()})


def with_group(trial: TrialData, name: str, **changes: Any) -> TrialData:
    """Change fields of a group's summary; a callable gets the old value."""
    groups = (_changed(one, changes) if one.name == name else one for one in trial.summary.groups)
    return evolve(trial, summary__groups=tuple(groups))


def with_counter(trial: TrialData, service: str, name: str, change: Callable[[float], float]) -> TrialData:
    """Change a service's counter: `change(delta)` of `name` over the load."""
    before, after = trial.lab.before[service], trial.lab.after[service]
    base = before.values.get(name, 0.0)
    values = {**after.values, name: base + change(after.values.get(name, 0.0) - base)}
    return evolve(trial, lab__after={**trial.lab.after, service: evolve(after, values=values)})


Planted = tuple[TrialData, CaseConfig]
Plant = Callable[[TrialData, CaseConfig], Planted]


def planting(change: Callable[..., Planted]) -> Callable[..., Plant]:
    """Turn a function of trial, configuration and other arguments into a plant with these arguments bound."""
    return lambda *given, **named: lambda trial, config: change(trial, config, *given, **named)


def with_service(trial: TrialData, name: str, **changes: Any) -> TrialData:
    """Change facts of a service; a callable gets the old ones."""
    services = (_changed(one, changes) if one.service == name else one for one in trial.lab.services)
    return evolve(trial, lab__services=tuple(services))


def with_table(trial: TrialData, table: str, **columns: Any) -> TrialData:
    """Replace columns of a table; a callable gets the table."""
    old = {name: getattr(trial, table)[name] for name in getattr(trial, table)}
    new = {name: value(old) if callable(value) else value for name, value in columns.items()}
    return replace(trial, **{table: {**old, **new}})


Reading = tuple[int, str, str, str, str, float]
"""Offset in ns, service, monitor, entity, metric and value."""


def table_of(rows: Iterable[Reading]) -> dict[str, Any]:
    types: dict[str, Any] = {"offset_ns": "<i8", "value": float}
    columns = zip(READINGS, zip(*rows, strict=True), strict=True)
    return {name: np.array(cells, dtype=types.get(name, object)) for name, cells in columns}


def with_rows(trial: TrialData, rows: Iterable[Reading]) -> TrialData:
    old, new = trial.monitors, table_of(rows)
    return with_table(
        trial,
        "monitors",
        **{name: np.concatenate([old[name], new[name].astype(old[name].dtype)]) for name in new},
    )


def with_each(trial: TrialData, *rows: tuple[str, str, str, str, Any]) -> TrialData:
    """Add readings at each moment of the monitors: service, monitor, entity, metric, and a value for all
    moments or one for each."""
    at = np.unique(trial.monitors["offset_ns"])
    return with_rows(
        trial,
        (
            (ns, *names, value)
            for *names, values in rows
            for ns, value in zip(at, np.broadcast_to(values, len(at)), strict=True)
        ),
    )


def without_readings(trial: TrialData, left_out: Any) -> TrialData:
    return with_table(trial, "monitors", **{name: trial.monitors[name][~left_out] for name in trial.monitors})


def with_readings(
    trial: TrialData, monitor: str, metric: str, change: Callable[[Any, Any], Any], entity: str | None = None
) -> TrialData:
    """Replace what a monitor read by `change(offsets in s, old values)`, for one entity or for each."""
    table = trial.monitors
    value = np.array(table["value"])
    mine = (table["monitor"] == monitor) & (table["metric"] == metric)
    names = sorted(set(table["entity"][mine])) if entity is None else [entity]
    for name in names:
        rows = np.flatnonzero(mine & (table["entity"] == name))
        assert len(rows), (monitor, metric, name)
        value[rows] = change(table["offset_ns"][rows] / 1e9, value[rows])
    return with_table(trial, "monitors", value=value)


def with_conditions(trial: TrialData, **parts: Mapping[str, Any]) -> TrialData:
    """Change fields of the trial's conditions `before` or `after` its load, or of its `machine`."""
    old = trial.lab.conditions
    new = {part: getattr(old, part).model_copy(update=fields) for part, fields in parts.items()}
    return evolve(trial, lab__conditions=evolve(old, **new))


def with_config(config: CaseConfig, group: str, **changes: Any) -> CaseConfig:
    """Change fields of a group's spec in the configuration."""
    groups = tuple(one.model_copy(update=changes) if one.name == group else one for one in config.groups)
    return evolve(config, groups=groups)


def check(
    trial: TrialData, config: CaseConfig, name: str, programs: Mapping[str, str] | None = None
) -> CheckResult:
    """Return one check's result on a trial; `programs` are those of the run's last trials."""
    verdict = judge_trial(trial, config, programs=programs).verdict
    return next(one for one in verdict.checks if one.check == name)
