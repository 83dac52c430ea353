"""Configurations of cases from a lock: the only way, used for planning, running and judging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload import study

if TYPE_CHECKING:
    from svload.model.plan import Point
    from svload.model.study import Case, CaseConfig, Lock


def case_configs(lock: Lock) -> dict[str, CaseConfig]:
    """Return the configuration of each valid case, by its name."""
    return {case.name: case_config(lock, case) for case in lock.valid_cases}


def case_config(lock: Lock, case: Case, at: Point | None = None) -> CaseConfig:
    """Return a case's configuration at a point, with its planted fault: the basis for judging its trials."""
    from svload.run.faults import planted_config

    config = study.resolve(lock, case) if at is None else study.resolve(lock, case, at)
    return planted_config(config, lock.plants.get(case.name))
