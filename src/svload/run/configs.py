"""From a lock to what its cases ask for: the one way, for planning, running and judging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload import study

if TYPE_CHECKING:
    from svload.model.plan import Point
    from svload.model.study import Case, CaseConfig, Lock


def case_configs(lock: Lock) -> dict[str, CaseConfig]:
    """What each valid case asks for, by its name."""
    return {case.name: case_config(lock, case) for case in lock.valid_cases}


def case_config(lock: Lock, case: Case, at: Point | None = None) -> CaseConfig:
    """What a case asks for at a point, a planted fault included: a trial is judged by what it was told to do."""
    from svload.run.faults import planted_config

    config = study.resolve(lock, case) if at is None else study.resolve(lock, case, at)
    return planted_config(config, lock.plants.get(case.name))
